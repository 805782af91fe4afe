package status

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Objects that nobody watches are read from the API server, however long all of them take.
func TestReporterReadsWhatNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for n := range 60 {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: fmt.Sprint("config-", n)}}
			if err := s.server.Create(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			s.state.Children = append(s.state.Children, object.Child{APIVersion: "v1", Kind: "ConfigMap", Name: config.Name, ResourceVersion: "1"})
		}
		s.Client = interceptor.NewClient(s.server, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
					return &cache.ErrResourceNotCached{}
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		s.live = interceptor.NewClient(s.server, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(100 * time.Millisecond):
					return c.Get(ctx, key, obj, opts...)
				}
			},
		})
		s.report(s.read())
		if ready := s.stored().condition(Ready); ready.Status != metav1.ConditionTrue {
			t.Errorf("it is %s: %s", ready.Status, ready.Message)
		}
	})
}

// The Deployment is missing in the cache, and cannot be repaired.
func TestReporterCountsWhatDoesNotExist(t *testing.T) {
	for name, c := range map[string]struct {
		deleted  bool
		replicas int32
	}{
		"it is deleted": {true, 0},
		"it has lost the label of what is cached": {false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.report(s.read())
			if c.deleted {
				if err := s.server.Delete(t.Context(), parse(t, healthyDeployment)); err != nil {
					t.Fatal(err)
				}
			}
			s.Client = interceptor.NewClient(s.server, interceptor.Funcs{
				Get: func(ctx context.Context, live client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if obj.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
						return apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, key.Name)
					}
					return live.Get(ctx, key, obj, opts...)
				},
			})
			s.reportCondition(s.read(), map[string]any{"type": irreconcilable, "status": "True", "reason": "ReconcileError", "message": "no Deployments today"})
			got := s.stored()
			if got.condition(Ready).Status != metav1.ConditionFalse || got.Replicas != c.replicas || got.ReadyReplicas != c.replicas {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestReporterWaitsForTheCache(t *testing.T) {
	s := newStage(t)
	s.state.Children[0].ResourceVersion = "999999"
	s.report(s.read())
	if got := s.stored().condition(Ready); got.Status != metav1.ConditionFalse {
		t.Errorf("ready by an object from before it was applied: %+v", got)
	}
	if len(s.requeued) == 0 {
		t.Error("nobody looks again")
	}
}

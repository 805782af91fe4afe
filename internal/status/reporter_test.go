package status

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/release"
)

var welcomeKind = schema.GroupVersionKind{Group: "webapp.demo.welcome.domain", Version: "v1", Kind: "Welcome"}

// stage is a Reporter over an API server in memory, which counts requests.
type stage struct {
	*testing.T
	*Reporter
	server   client.WithWatch
	state    release.State
	requeued []time.Duration
	writes   int // of the status
	lists    int // of pods
	// cached is what the cache answers for the custom resource, nil for what is stored.
	cached *unstructured.Unstructured
}

func (s *stage) State(client.Object) release.State            { return s.state }
func (s *stage) Requeue(_ client.Object, delay time.Duration) { s.requeued = append(s.requeued, delay) }

func newStage(t *testing.T) *stage {
	s := &stage{T: t}
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	known.AddKnownTypeWithName(welcomeKind, &unstructured.Unstructured{})
	metav1.AddToGroupVersion(known, welcomeKind.GroupVersion())
	welcome := &unstructured.Unstructured{}
	welcome.SetGroupVersionKind(welcomeKind)
	welcome.SetName("hello")
	welcome.SetNamespace("test")
	welcome.SetUID("uid")
	welcome.SetGeneration(3)
	s.server = fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(welcome).
		WithObjects(welcome, parse(t, healthyDeployment), parse(t, healthyService)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if u, ok := obj.(*unstructured.Unstructured); ok && s.cached != nil && u.GetKind() == "Welcome" {
					s.cached.DeepCopyInto(u)
					return nil
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*corev1.PodList); ok {
					s.lists++
				}
				return c.List(ctx, list, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if obj.GetObjectKind().GroupVersionKind() == welcomeKind {
					s.writes++
				}
				return c.SubResource(subresource).Update(ctx, obj, opts...)
			},
		}).Build()
	s.Reporter = &Reporter{Client: s.server, live: s.server, releases: s, events: record.NewFakeRecorder(100), looks: map[types.UID]time.Time{}}
	s.state = release.State{Generation: 3, Revision: 1, Children: []release.Child{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "hello", ResourceVersion: "1"},
		{APIVersion: "v1", Kind: "Service", Name: "hello", ResourceVersion: "1"},
	}}
	return s
}

// read is how the library starts a reconcile.
func (s *stage) read() *unstructured.Unstructured {
	s.Helper()
	welcome := &unstructured.Unstructured{}
	welcome.SetGroupVersionKind(welcomeKind)
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, welcome); err != nil {
		s.Fatal(err)
	}
	return welcome
}

// report is how the library ends one that did nothing.
func (s *stage) report(welcome *unstructured.Unstructured) {
	s.Helper()
	s.reportCondition(welcome, map[string]any{"type": "Deployed", "status": "True"})
}

func (s *stage) reportCondition(welcome *unstructured.Unstructured, condition map[string]any) {
	s.Helper()
	status, _ := welcome.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	condition["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	status["conditions"] = []any{condition}
	welcome.Object["status"] = status
	if err := s.Reporter.Status().Update(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) stored() Status {
	s.Helper()
	welcome := &unstructured.Unstructured{}
	welcome.SetGroupVersionKind(welcomeKind)
	cached := s.cached
	s.cached = nil
	defer func() { s.cached = cached }()
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, welcome); err != nil {
		s.Fatal(err)
	}
	return of(welcome)
}

func (s *stage) setDeployment(status string, n int64) {
	s.Helper()
	deployment := parse(s.T, healthyDeployment)
	if err := s.server.Get(s.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		s.Fatal(err)
	}
	if err := unstructured.SetNestedField(deployment.Object, n, "status", status); err != nil {
		s.Fatal(err)
	}
	if err := s.server.Status().Update(s.Context(), deployment); err != nil {
		s.Fatal(err)
	}
}

func TestReporterWritesChangesOnly(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	if got := s.stored(); got.condition(Ready).Status != metav1.ConditionTrue || got.condition("Deployed").Status != metav1.ConditionTrue {
		t.Fatalf("stored %+v", got)
	}
	for range 5 {
		s.report(s.read())
	}
	if s.writes != 1 {
		t.Errorf("%d writes of a status that changed once", s.writes)
	}
}

func TestReporterHidesConditions(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	welcome := s.read()
	if conditions, found, _ := unstructured.NestedSlice(welcome.Object, "status", "conditions"); found {
		t.Errorf("the library sees %v, and would not ask for an update", conditions)
	}
	if revision, _, _ := unstructured.NestedInt64(welcome.Object, "status", "release", "revision"); revision != 1 {
		t.Errorf("the rest of the status is hidden, too: %v", welcome.Object["status"])
	}
}

func TestReporterAfterUpdate(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	welcome := s.read()
	welcome.SetFinalizers([]string{"example.com/finalizer"})
	if err := s.Update(t.Context(), welcome); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedSlice(welcome.Object, "status", "conditions"); found {
		t.Error("the answer to an update shows the conditions")
	}
	s.state.Revision = 2
	s.report(welcome)
	if got := s.stored(); got.Release.Revision != 2 {
		t.Errorf("the status was not written after a finalizer: %+v", got.Release)
	}
}

func TestReporterGivesWay(t *testing.T) {
	t.Run("to an edit during the reconcile", func(t *testing.T) {
		s := newStage(t)
		welcome := s.read()
		s.editSpec()
		s.report(welcome)
		if s.writes != 0 {
			t.Error("it wrote what was computed for an older object")
		}
	})
	t.Run("to an edit that the cache does not show yet", func(t *testing.T) {
		s := newStage(t)
		s.report(s.read())
		s.cached = s.read()
		s.cached.Object["status"] = map[string]any{}
		s.editSpec()
		before := s.stored()
		s.report(s.read())
		if after := s.stored(); after.ObservedGeneration != before.ObservedGeneration || after.condition(Ready) != before.condition(Ready) {
			t.Errorf("a stale cache overwrote the status\n%+v\nwith\n%+v", before, after)
		}
		// The event of the edit brings the cache up to date and the next reconcile.
		s.cached, s.state.Generation = nil, 4
		s.report(s.read())
		if after := s.stored(); after.ObservedGeneration != 4 {
			t.Errorf("the next reconcile did not write: %+v", after)
		}
	})
}

// editSpec is another writer's.
func (s *stage) editSpec() {
	s.Helper()
	cached := s.cached
	s.cached = nil
	defer func() { s.cached = cached }()
	welcome := &unstructured.Unstructured{}
	welcome.SetGroupVersionKind(welcomeKind)
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, welcome); err != nil {
		s.Fatal(err)
	}
	welcome.SetGeneration(welcome.GetGeneration() + 1)
	welcome.SetLabels(map[string]string{"edited": "true"})
	if err := s.server.Update(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
}

func TestReporterDuringRollout(t *testing.T) {
	s := newStage(t)
	s.report(s.read())
	s.setDeployment("updatedReplicas", 1)
	for i := range int64(50) {
		s.setDeployment("readyReplicas", i%3)
		s.report(s.read())
	}
	if s.writes != 2 || s.lists != 0 {
		t.Errorf("%d writes and %d lists of pods in a rollout of a moment, want 2 and 0", s.writes, s.lists)
	}
	if last := s.requeued[len(s.requeued)-1]; last <= 0 || last > firstLook {
		t.Errorf("it looks again in %s", last)
	}
	s.looks["uid"] = time.Now().Add(-time.Second)
	s.setDeployment("readyReplicas", 1)
	s.report(s.read())
	if s.writes != 3 || s.lists != 1 || s.stored().ReadyReplicas != 1 {
		t.Errorf("after the second look: %d writes, %d lists of pods, status %+v", s.writes, s.lists, s.stored())
	}
	s.setDeployment("updatedReplicas", 2)
	s.setDeployment("readyReplicas", 2)
	s.report(s.read())
	if got := s.stored().condition(Ready); got.Status != metav1.ConditionTrue {
		t.Errorf("the end of a rollout is not written at once: %+v", got)
	}
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

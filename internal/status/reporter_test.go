package status

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

var welcomeKind = schema.GroupVersionKind{Group: "webapp.demo.welcome.domain", Version: "v1", Kind: "Welcome"}

// stage is a Reporter over an API server in memory, which counts requests.
type stage struct {
	*testing.T
	*Reporter
	server    client.WithWatch
	state     release.State
	requeued  []time.Duration
	writes    int           // of the status
	slow      time.Duration // of each of them
	lists     int           // of pods
	recorder  string        // the operator that the record names
	forgotten int
	inherited []string // manifests
	dropped   []string // fields of the status that the CRD does not have
	// cached is what the cache answers for the custom resource, nil for what is stored.
	cached *unstructured.Unstructured
}

func (s *stage) State(client.Object) release.State            { return s.state }
func (s *stage) Requeue(_ client.Object, delay time.Duration) { s.requeued = append(s.requeued, delay) }

func (s *stage) Recorder(context.Context, client.Object) (string, error) { return s.recorder, nil }
func (s *stage) Forget(client.Object)                                    { s.forgotten++ }
func (s *stage) Bury(context.Context, client.ObjectKey) []types.UID      { return nil }
func (s *stage) Inherit(_ client.Object, manifest string) {
	s.inherited = append(s.inherited, manifest)
}

func newStage(t *testing.T) *stage {
	s := &stage{T: t}
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	known.AddKnownTypeWithName(welcomeKind, &unstructured.Unstructured{})
	metav1.AddToGroupVersion(known, welcomeKind.GroupVersion())
	welcome := object.Empty(welcomeKind)
	welcome.SetName("hello")
	welcome.SetNamespace("test")
	welcome.SetUID("uid")
	welcome.SetGeneration(3)
	s.server = fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(welcome).
		WithObjects(welcome, parse(t, healthyDeployment), parse(t, healthyService)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				options := client.GetOptions{}
				options.ApplyOptions(opts)
				u, ok := obj.(*unstructured.Unstructured)
				if ok && s.cached != nil && u.GetKind() == "Welcome" {
					s.cached.DeepCopyInto(u)
				} else if err := c.Get(ctx, key, obj, opts...); err != nil {
					return err
				}
				if ok && ptr.Deref(options.UnsafeDisableDeepCopy, false) { // as the cache has it
					_, err := object.Pack(u)
					return err
				}
				return nil
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
					time.Sleep(s.slow)
					// The fake does not look at the resource version of a status.
					stored := object.Empty(welcomeKind)
					if err := s.server.Get(ctx, client.ObjectKeyFromObject(obj), stored); err == nil && s.cached == nil && stored.GetResourceVersion() != obj.GetResourceVersion() {
						return apierrors.NewConflict(schema.GroupResource{Resource: "welcomes"}, obj.GetName(), errors.New("it was modified"))
					}
				}
				if u, ok := obj.(*unstructured.Unstructured); ok {
					for _, field := range s.dropped {
						unstructured.RemoveNestedField(u.Object, "status", field)
					}
				}
				return c.SubResource(subresource).Update(ctx, obj, opts...)
			},
		}).Build()
	s.Reporter = &Reporter{Client: s.server, live: s.server, releases: s, events: record.NewFakeRecorder(100), claims: s.rival("here/lease"), refused: refusals{of: map[part]refusal{}}, outages: map[types.UID]outage{}}
	s.stocks = newStocks(s.server, s, s.events)
	s.state = release.State{Generation: 3, Revision: 1, Children: []object.Child{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "hello", ResourceVersion: "1"},
		{APIVersion: "v1", Kind: "Service", Name: "hello", ResourceVersion: "1"},
	}}
	return s
}

// read is how the library starts a reconcile.
func (s *stage) read() *unstructured.Unstructured {
	s.Helper()
	welcome := object.Empty(welcomeKind)
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
	welcome := object.Empty(welcomeKind)
	cached := s.cached
	s.cached = nil
	defer func() { s.cached = cached }()
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, welcome); err != nil {
		s.Fatal(err)
	}
	return Of(welcome)
}

func (s *stage) setDeployment(status string, n int64) {
	s.Helper()
	s.setDeploymentStatus(status, n)
}

func (s *stage) setDeploymentStatus(field string, value any) {
	s.Helper()
	deployment := parse(s.T, healthyDeployment)
	if err := s.server.Get(s.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		s.Fatal(err)
	}
	if err := unstructured.SetNestedField(deployment.Object, value, "status", field); err != nil {
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

// The library tries again with the same object when the API server fails: what it has reported is still in
// that, and nothing counts as written.
func TestReporterIsAskedAgain(t *testing.T) {
	again := func(s *stage, condition map[string]any) {
		s.Helper()
		away := s.Client
		s.Client = interceptor.NewClient(s.server, interceptor.Funcs{
			SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return apierrors.NewInternalError(errors.New("etcd is away"))
			},
		})
		welcome := s.read()
		welcome.Object["status"] = map[string]any{"conditions": []any{condition}}
		if err := s.Reporter.Status().Update(s.Context(), welcome); !apierrors.IsInternalError(err) {
			s.Fatalf("the first write: %v", err)
		}
		s.Client = away
		if err := s.Reporter.Status().Update(s.Context(), welcome); err != nil {
			s.Fatal(err)
		}
	}
	t.Run("after a failure", func(t *testing.T) {
		s := newStage(t)
		again(s, map[string]any{"type": "ReleaseFailed", "status": "True", "reason": "UpgradeError", "message": "no room"})
		if ready := s.stored().condition(Ready); ready.Status != metav1.ConditionFalse || ready.Message != "no room" {
			t.Errorf("it says %s: %s", ready.Status, ready.Message)
		}
	})
	t.Run("when pods fail for another reason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.report(s.read())
			s.homeless(true)
			s.setDeployment("updatedReplicas", 1)
			s.work(2*time.Hour, nil)
			s.homeless(false)
			s.crash()
			time.Sleep(lastLook)
			again(s, map[string]any{"type": "Deployed", "status": "True"})
			if got := s.stored().condition(Ready).Reason; got != "CrashLooping" {
				t.Errorf("it says %s", got)
			}
		})
	})
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
	welcome := object.Empty(welcomeKind)
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: "test", Name: "hello"}, welcome); err != nil {
		s.Fatal(err)
	}
	welcome.SetGeneration(welcome.GetGeneration() + 1)
	welcome.SetLabels(map[string]string{"edited": "true"})
	if err := s.server.Update(s.Context(), welcome); err != nil {
		s.Fatal(err)
	}
}

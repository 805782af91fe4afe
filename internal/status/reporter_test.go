package status

import (
	"context"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// work has the operator do what it does in a while: reconcile when something happens, here by change every second, and when
// it has asked for it.
func (s *stage) work(while time.Duration, change func(second int64)) {
	s.Helper()
	due := time.Now()
	for second := range int64(while / time.Second) {
		if change != nil {
			change(second)
		}
		if change != nil || !time.Now().Before(due) {
			s.requeued = nil
			s.report(s.read())
			due = time.Now().Add(time.Hour)
			for _, delay := range s.requeued {
				due = time.Now().Add(delay)
			}
		}
		time.Sleep(time.Second)
	}
}

// edit is one that was applied at once.
func (s *stage) edit() {
	s.editSpec()
	s.state.Generation++
}

// crash has a pod of the Deployment keep ending, which the Deployment shows by a count at most.
func (s *stage) crash() {
	s.Helper()
	crashing := pod("hello-1", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")})
	if err := s.server.Create(s.Context(), &crashing); err != nil {
		s.Fatal(err)
	}
	s.setDeployment("updatedReplicas", 1)
}

// homeless has a pod of the Deployment find no node, or no longer.
func (s *stage) homeless(is bool) {
	s.Helper()
	waiting := pod("hello-0", corev1.ContainerStatus{})
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	change := func() error { return s.server.Delete(s.Context(), &waiting) }
	if is {
		change = func() error { return s.server.Create(s.Context(), &waiting) }
	}
	if err := change(); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

// restart forgets what a process does.
func (s *stage) restart() { s.outages = map[types.UID]outage{} }

var (
	allRight         = []any{map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}, map[string]any{"type": "Available", "status": "True"}}
	deadlineExceeded = []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}
	outOfQuota       = []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": `pods "hello-abc" is forbidden: exceeded quota: small`}}
)

func TestReporterDuringRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.report(s.read())
		s.setDeployment("updatedReplicas", 1)
		s.work(4*time.Second, func(second int64) { s.setDeployment("readyReplicas", second%2) })
		if s.writes != 2 || s.lists != 0 {
			t.Errorf("%d writes and %d lists of pods in a rollout of a moment, want 2 and 0", s.writes, s.lists)
		}
		s.setDeployment("updatedReplicas", 2)
		s.setDeployment("readyReplicas", 2)
		s.report(s.read())
		if got := s.stored().condition(Ready); got.Status != metav1.ConditionTrue || s.writes != 3 {
			t.Errorf("the end of a rollout is not written at once: %+v", got)
		}
	})
}

// A rollout changes its counts all the time. Even one whose reason is another at every look costs little.
func TestReporterDuringSlowRollout(t *testing.T) {
	for name, change := range map[string]func(s *stage, second int64){
		"steady":                           func(*stage, int64) {},
		"its pods wait for nodes at times": func(s *stage, _ int64) { s.homeless(s.lists%2 == 0) },
		"its quota is tight": func(s *stage, second int64) {
			if second%5 == 0 {
				s.setDeploymentStatus("conditions", [][]any{outOfQuota, allRight}[second/5%2])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.report(s.read())
				s.writes = 0
				s.edit()
				s.setDeployment("updatedReplicas", 1)
				s.work(6*time.Minute, func(second int64) {
					s.setDeployment("readyReplicas", 1+second%7)
					change(s, second)
				})
				s.setDeploymentStatus("conditions", allRight)
				s.setDeployment("updatedReplicas", 2)
				s.setDeployment("readyReplicas", 2)
				s.report(s.read())
				if got := s.stored().condition(Ready); got.Status != metav1.ConditionTrue || s.writes > 10 || s.lists > 10 {
					t.Errorf("%d writes, %d lists of pods, and in the end %+v", s.writes, s.lists, got)
				}
			})
		})
	}
}

// Whatever the release was before, pods that keep ending are told of in time.
func TestReporterTellsCrashesSoon(t *testing.T) {
	const hours = 2 * time.Hour
	for name, c := range map[string]struct {
		before func(s *stage)
		after  func(s *stage)
		within time.Duration
	}{
		"from healthy":                 {func(*stage) {}, (*stage).crash, 15 * time.Second},
		"edited while crashing":        {func(s *stage) { s.crash(); s.work(hours, nil) }, (*stage).edit, 0},
		"edited after a restart":       {func(s *stage) { s.crash(); s.work(hours, nil) }, func(s *stage) { s.restart(); s.edit() }, 15 * time.Second},
		"restarted while crashing":     {func(s *stage) { s.crash(); s.work(hours, nil) }, (*stage).restart, 0},
		"the deadline exceeded":        {func(s *stage) { s.crash(); s.work(hours, nil) }, func(s *stage) { s.setDeploymentStatus("conditions", deadlineExceeded) }, 0},
		"room in the quota":            {func(s *stage) { s.setDeploymentStatus("conditions", outOfQuota); s.work(hours, nil) }, func(s *stage) { s.setDeploymentStatus("conditions", allRight); s.crash() }, time.Minute},
		"room in the quota by an edit": {func(s *stage) { s.setDeploymentStatus("conditions", outOfQuota); s.work(hours, nil) }, func(s *stage) { s.setDeploymentStatus("conditions", allRight); s.edit(); s.crash() }, 0},
		"edited while pods are without a node, and then they crash": {func(s *stage) { s.homeless(true); s.setDeployment("updatedReplicas", 1); s.work(hours, nil) }, func(s *stage) {
			s.edit()
			s.work(5*time.Second, nil)
			s.homeless(false)
			s.crash()
		}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.report(s.read())
				c.before(s)
				s.report(s.read())
				c.after(s)
				s.work(c.within+time.Second, nil)
				if got := s.stored(); got.condition(Ready).Reason != "CrashLooping" || got.ObservedGeneration != s.state.Generation {
					t.Errorf("after %s: generation %d, %+v", c.within, got.ObservedGeneration, got.condition(Ready))
				}
				s.writes = 0
				s.work(time.Minute, nil)
				if s.writes > 0 {
					t.Errorf("%d writes while nothing changes", s.writes)
				}
			})
		})
	}
}

// The pods of a DaemonSet say why it does not get on, too, though their number is none that anybody asks for.
func TestReporterLooksAtThePodsOfADaemonSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		if err := s.server.Create(t.Context(), parse(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: test, generation: 1}
spec: {selector: {matchLabels: {welcome: hello}}}
status: {observedGeneration: 1, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3}`)); err != nil {
			t.Fatal(err)
		}
		s.state.Children = []object.Child{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", ResourceVersion: "1"}}
		stuck := pod("agent-1", corev1.ContainerStatus{State: waiting("ImagePullBackOff", "not found")})
		if err := s.server.Create(t.Context(), &stuck); err != nil {
			t.Fatal(err)
		}
		s.work(20*time.Second, nil)
		if got := s.stored(); got.condition(Ready).Reason != "ImagePullFailed" || got.Replicas != 0 {
			t.Errorf("%d replicas, %+v", got.Replicas, got.condition(Ready))
		}
	})
}

// What is broken for long costs a look once a minute, however much its counts change.
func TestReporterDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes = 20
		s := newStage(t)
		s.report(s.read())
		s.crash()
		s.work(time.Hour, nil)
		s.writes, s.lists = 0, 0
		s.work(minutes*time.Minute, func(second int64) { s.setDeployment("readyReplicas", second%7) })
		if s.lists > minutes || s.writes > minutes/5 || s.writes == 0 {
			t.Errorf("%d lists of pods and %d writes in %d minutes", s.lists, s.writes, minutes)
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

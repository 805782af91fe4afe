package status

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

var noon = metav1.NewTime(time.Date(2030, 5, 4, 12, 0, 0, 0, time.UTC))

// parse reads an object as the cache has it: JSON numbers are int64 there.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	healthyDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, namespace: test, generation: 2}
spec: {replicas: 2, progressDeadlineSeconds: 600, selector: {matchLabels: {welcome: hello}}}
status:
  observedGeneration: 2
  replicas: 2
  updatedReplicas: 2
  readyReplicas: 2
  availableReplicas: 2
  conditions:
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable}
  - {type: Available, status: "True"}
`
	healthyService = `
apiVersion: v1
kind: Service
metadata: {name: hello, namespace: test}
spec: {type: ClusterIP, clusterIP: 10.0.0.1, ports: [{port: 8080}]}
`
)

// observed is a generation that is applied and healthy, until change changes it.
func observed(t *testing.T, change func(*observation)) observation {
	seen := observation{
		name: "hello", namespace: "test", kind: "Welcome", generation: 3, now: noon,
		reported: []metav1.Condition{{Type: "Deployed", Status: metav1.ConditionTrue}, {Type: irreconcilable, Status: metav1.ConditionFalse}, {Type: pausedType, Status: metav1.ConditionFalse}},
		state:    release.State{Generation: 3, Revision: 4, Status: "deployed", Chart: "welcome", ChartVersion: "0.1.0", PagePath: "/hello/", LastApplied: noon.Time, Digest: "d"},
	}
	for _, text := range []string{healthyDeployment, healthyService} {
		live := parse(t, text)
		seen.objects = append(seen.objects, childState{Child: object.Child{APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName()}, live: live})
	}
	if change != nil {
		change(&seen)
	}
	return seen
}

func (o *observation) deployment() map[string]any { return o.objects[0].live.Object }

// TestNext looks at each status as a person does, and as the kstatus library does.
func TestNext(t *testing.T) {
	set := func(t *testing.T, o map[string]any, value any, path ...string) {
		t.Helper()
		if err := unstructured.SetNestedField(o, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(reason, message string) func(*testing.T, *observation) {
		return func(_ *testing.T, o *observation) {
			meta.SetStatusCondition(&o.reported, metav1.Condition{Type: irreconcilable, Status: metav1.ConditionTrue, Reason: reason, Message: message})
		}
	}
	for name, c := range map[string]struct {
		change  func(*testing.T, *observation)
		ready   metav1.ConditionStatus
		reason  string
		message string
		kstatus kstatus.Status
	}{
		"healthy": {nil, metav1.ConditionTrue, "Healthy", "all of its objects are healthy", kstatus.CurrentStatus},
		"another generation is applied": {func(_ *testing.T, o *observation) { o.generation = 4 },
			metav1.ConditionFalse, "Progressing", "not applied yet", kstatus.InProgressStatus},
		"never reconciled": {func(_ *testing.T, o *observation) { o.state, o.objects = release.State{}, nil },
			metav1.ConditionFalse, "Progressing", "not applied yet", kstatus.InProgressStatus},
		"the cache does not show an object as it was applied": {func(_ *testing.T, o *observation) { o.objects[1].live = nil },
			metav1.ConditionFalse, "Progressing", `Service "hello" is not seen yet`, kstatus.InProgressStatus},
		"an object that was deleted": {func(_ *testing.T, o *observation) { o.objects[1].live, o.objects[1].gone = nil, true },
			metav1.ConditionFalse, "Progressing", `Service "hello" was deleted`, kstatus.InProgressStatus},
		"an object that was deleted, and drift is left": {func(_ *testing.T, o *observation) {
			o.objects[1].live, o.objects[1].gone, o.objects[1].left = nil, true, true
		},
			metav1.ConditionFalse, "ObjectDeleted", `Service "hello" was deleted`, kstatus.InProgressStatus},
		"a rollout that somebody has paused": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), true, "spec", "paused")
			set(t, o.deployment(), int64(0), "status", "updatedReplicas")
		}, metav1.ConditionFalse, "RolloutPaused", "kubectl -n test rollout resume deployment/hello", kstatus.InProgressStatus},
		"a rollout that somebody has paused before its last pod of before has gone": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), true, "spec", "paused")
			set(t, o.deployment(), int64(3), "status", "replicas")
		}, metav1.ConditionFalse, "RolloutPaused", "kubectl -n test rollout resume deployment/hello", kstatus.InProgressStatus},
		"a paused rollout, after an object that goes on by itself": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), true, "spec", "paused")
			set(t, o.deployment(), int64(0), "status", "updatedReplicas")
			o.objects[1].live = nil
			slices.Reverse(o.objects)
		}, metav1.ConditionFalse, "RolloutPaused", "kubectl -n test rollout resume deployment/hello", kstatus.InProgressStatus},
		"a pod that starts, where nothing new is to be rolled out but somebody has paused that": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), true, "spec", "paused")
			set(t, o.deployment(), int64(1), "status", "availableReplicas")
		}, metav1.ConditionFalse, "Progressing", `Deployment "hello": Available: 1/2`, kstatus.InProgressStatus},
		"a Deployment that its controller has not seen": {func(t *testing.T, o *observation) { set(t, o.deployment(), int64(3), "metadata", "generation") },
			metav1.ConditionFalse, "Progressing", `Deployment "hello"`, kstatus.InProgressStatus},
		"a rollout": {func(t *testing.T, o *observation) { set(t, o.deployment(), int64(1), "status", "updatedReplicas") },
			metav1.ConditionFalse, "Progressing", `Deployment "hello": Updated: 1/2`, kstatus.InProgressStatus},
		"a rollout that is stuck": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}, "status", "conditions")
		}, metav1.ConditionFalse, "ProgressDeadlineExceeded", `Deployment "hello"`, kstatus.FailedStatus},
		"quota for pods": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), int64(1), "status", "updatedReplicas")
			set(t, o.deployment(), []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
				"message": `pods "hello-abc" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`}}, "status", "conditions")
		}, metav1.ConditionFalse, "QuotaExceeded", `Deployment "hello": its pods are forbidden: exceeded quota: small`, kstatus.InProgressStatus},
		"quota that wants limits": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), int64(1), "status", "updatedReplicas")
			set(t, o.deployment(), []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
				"message": `pods "hello-abc" is forbidden: failed quota: small: must specify limits.cpu for: welcome`}}, "status", "conditions")
		}, metav1.ConditionFalse, "PodsRejected", "have a LimitRange of the namespace set it", kstatus.InProgressStatus},
		"pods that crash": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), int64(1), "status", "updatedReplicas")
			o.pods = []corev1.Pod{pod("hello-1", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")})}
		}, metav1.ConditionFalse, "CrashLooping", `Pod "hello-1"`, kstatus.InProgressStatus},
		"a Job that has failed, and pods that crash without it": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}, "status", "conditions")
			o.pods = []corev1.Pod{pod("hello-1", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")})}
			o.objects = append(o.objects, childState{Child: object.Child{APIVersion: "batch/v1", Kind: "Job", Name: "migrate"}, live: parse(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: test}
status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: too many tries}]}`)})
		}, metav1.ConditionFalse, "JobFailed", `Job "migrate"`, kstatus.FailedStatus},
		"a child of another kind that says no more than that it is stalled": {func(t *testing.T, o *observation) {
			o.objects = append(o.objects, childState{Child: object.Child{APIVersion: "example.com/v1", Kind: "Thing", Name: "hello"}, live: parse(t, `
apiVersion: example.com/v1
kind: Thing
metadata: {name: hello, namespace: test}
status: {conditions: [{type: Stalled, status: "True"}]}`)})
		}, metav1.ConditionFalse, "Failed", `Thing "hello": Failed.`, kstatus.FailedStatus},
		"a child that goes": {func(t *testing.T, o *observation) {
			set(t, o.deployment(), "2030-05-04T12:00:00Z", "metadata", "deletionTimestamp")
		},
			metav1.ConditionFalse, "Progressing", "is being deleted", kstatus.InProgressStatus},
		"quota for objects": {fail("ErrorGettingReleaseState", `services "hello" is forbidden: exceeded quota: q`),
			metav1.ConditionFalse, "QuotaExceeded", "Raise the quota", kstatus.FailedStatus},
		"an error that passes": {fail("InstallError", "connection refused"),
			metav1.ConditionFalse, "InstallError", "connection refused", kstatus.InProgressStatus},
		"paused": {func(_ *testing.T, o *observation) {
			meta.SetStatusCondition(&o.reported, metav1.Condition{Type: pausedType, Status: metav1.ConditionTrue})
		}, metav1.ConditionUnknown, "Paused", "resume welcome/hello -n test, or remove the annotation webapp.demo.welcome.domain/paused.", kstatus.InProgressStatus},
		"being deleted": {func(_ *testing.T, o *observation) { o.deleting = true },
			metav1.ConditionFalse, "Uninstalling", "uninstalled", kstatus.InProgressStatus},
		"an uninstall that failed": {func(t *testing.T, o *observation) {
			o.deleting = true
			fail("UninstallError", `User "operator" cannot delete resource "services"`)(t, o)
		}, metav1.ConditionFalse, "Forbidden", "DIR/samples", kstatus.FailedStatus},
		"waiting for its turn": {func(_ *testing.T, o *observation) { o.state.WaitFor = "10 are underway" },
			metav1.ConditionTrue, "Healthy", "healthy. The chart is not up to date: 10 are underway.", kstatus.InProgressStatus},
		"waiting for its turn in a rollout of its own": {func(t *testing.T, o *observation) {
			o.state.WaitFor = "10 are underway"
			set(t, o.deployment(), int64(1), "status", "updatedReplicas")
		}, metav1.ConditionFalse, "Progressing", `Updated: 1/2. The chart is not up to date: 10 are underway.`, kstatus.InProgressStatus},
		"waiting for its turn with pods that crash": {func(t *testing.T, o *observation) {
			o.state.WaitFor = "10 are underway"
			set(t, o.deployment(), int64(1), "status", "updatedReplicas")
			o.pods = []corev1.Pod{pod("hello-1", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")})}
		}, metav1.ConditionFalse, "CrashLooping", "--previous. The chart is not up to date: 10 are underway.", kstatus.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed(t, func(o *observation) {
				if c.change != nil {
					c.change(t, o)
				}
			})
			status, _ := next(Status{}, seen)
			ready := status.condition(Ready)
			if ready.Status != c.ready || ready.Reason != c.reason || !strings.Contains(ready.Message, c.message) {
				t.Errorf("Ready is %s, %s: %q; want %s, %s: …%s…", ready.Status, ready.Reason, ready.Message, c.ready, c.reason, c.message)
			}
			for _, condition := range status.Conditions {
				if condition.ObservedGeneration != seen.generation {
					t.Errorf("condition %s is about generation %d, not %d", condition.Type, condition.ObservedGeneration, seen.generation)
				}
			}
			result, err := kstatus.Compute(customResource(t, seen, status))
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != c.kstatus {
				t.Errorf("kstatus takes it for %s (%s), want %s", result.Status, result.Message, c.kstatus)
			}
			again, _ := next(status, seen)
			if !equality.Semantic.DeepEqual(status, again) {
				t.Errorf("the same observation again changes the status\nfrom %+v\nto   %+v", status, again)
			}
		})
	}
}

func customResource(t *testing.T, seen observation, status Status) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "webapp.demo.welcome.domain/v1", "kind": "Welcome",
		"metadata": map[string]any{"name": seen.name, "namespace": seen.namespace, "generation": seen.generation},
		"status":   content,
	}}
}

func TestNextKeepsWhatStays(t *testing.T) {
	before, _ := next(Status{}, observed(t, nil))
	later := metav1.NewTime(noon.Add(time.Hour))

	t.Run("the time of a transition while the status stays", func(t *testing.T) {
		after, _ := next(before, observed(t, func(o *observation) { o.now, o.generation, o.state.Generation = later, 4, 4 }))
		if got := after.condition(Ready).LastTransitionTime; !got.Equal(&noon) {
			t.Errorf("Ready became True at %s, not at %s", noon, got)
		}
		after, _ = next(before, observed(t, func(o *observation) { o.now, o.objects[0].live = later, nil }))
		if got := after.condition(Ready).LastTransitionTime; !got.Equal(&later) {
			t.Errorf("Ready became False at %s, not at %s", later, got)
		}
	})
	t.Run("conditions that the library does not set this time", func(t *testing.T) {
		after, _ := next(before, observed(t, func(o *observation) { o.reported, o.generation = nil, 4 }))
		if got := after.condition("Deployed"); got.Status != metav1.ConditionTrue || got.ObservedGeneration != 3 {
			t.Errorf("Deployed is %+v", got)
		}
	})
	t.Run("Deployed says nothing of a first install that failed", func(t *testing.T) {
		after, _ := next(Status{}, observed(t, func(o *observation) { o.state, o.objects = release.State{Err: errors.New("failed")}, nil }))
		if got := after.condition("Deployed"); got.Status != metav1.ConditionFalse || got.Message == "" {
			t.Errorf("Deployed is %+v", got)
		}
	})
	t.Run("Deployed says which revision is, whatever the attempt after it has become", func(t *testing.T) {
		failed := func(revision int) observation {
			return observed(t, func(o *observation) {
				o.state.Revision, o.state.Err = revision, errors.New("failed")
				o.reported = []metav1.Condition{{Type: "Deployed", Status: metav1.ConditionTrue, Reason: "UpgradeSuccessful", Message: "release was successfully upgraded"}}
			})
		}
		first, _ := next(before, failed(1))
		if got := first.condition("Deployed"); got.Reason != "InstallSuccessful" || got.Message != "Revision 1 is deployed." {
			t.Errorf("Deployed is %+v", got)
		}
		for _, revision := range []int{4, 0} { // which is not known after a restart, but from the status
			after, _ := next(before, failed(revision))
			if got := after.condition("Deployed"); got.Reason != "UpgradeSuccessful" || got.Message != "Revision 4 is deployed." {
				t.Errorf("Deployed is %+v", got)
			}
		}
	})
	t.Run("the release and the fields of objects after a restart that finds it failing", func(t *testing.T) {
		after, _ := next(before, observed(t, func(o *observation) { o.state, o.objects = release.State{}, nil }))
		if after.Release == nil || after.Release.Revision != 4 || after.URL != before.URL || after.Replicas != 2 || after.Selector == "" {
			t.Errorf("got %+v", after)
		}
	})
	t.Run("the previous status itself", func(t *testing.T) {
		copied := before.clone()
		next(before, observed(t, func(o *observation) { o.generation, o.now = 9, later }))
		if !equality.Semantic.DeepEqual(copied, before) {
			t.Error("next changed its argument")
		}
	})
}

// What an action under way waits for is added to what was said before, which stays until it has ended.
func TestNextUnderWay(t *testing.T) {
	waits := func(o *observation) {
		o.reported, o.state.Waits = nil, `hook Job "m" to end`
		o.pods = []corev1.Pod{pod("m-1", corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")})}
	}
	const told = `It waits for hook Job "m" to end. Pod "m-1" cannot pull the image example.com/welcome:v1: not found`
	t.Run("it was its turn to get a new chart", func(t *testing.T) {
		before, _ := next(Status{}, observed(t, func(o *observation) { o.state.WaitFor = "waiting for others" }))
		after, _ := next(before, observed(t, waits))
		if got := after.condition(Ready); got.Status != metav1.ConditionTrue || got.Message != "The release is applied, and all of its objects are healthy. "+told {
			t.Errorf("it is %+v", got)
		}
		if again, _ := next(after, observed(t, waits)); !equality.Semantic.DeepEqual(after, again) {
			t.Errorf("it becomes %+v", again.condition(Ready))
		}
	})
	t.Run("its hook gets no pods", func(t *testing.T) {
		for pods, want := range map[int]string{0: "HookHasNoPods", 1: "ImagePullFailed"} {
			for _, deleting := range []bool{false, true} {
				first, _ := next(Status{}, observed(t, func(o *observation) {
					waits(o)
					o.state.HookHasNoPods, o.pods, o.deleting = true, o.pods[:pods], deleting
				}))
				if got := first.condition(Ready); got.Reason != want || !strings.Contains(got.Message, `waits for hook Job "m" to end`) {
					t.Errorf("with %d pods it is %+v, where it is deleted: %t", pods, got, deleting)
				}
			}
		}
	})
	t.Run("an attempt has failed before", func(t *testing.T) {
		fails := func(o *observation) {
			o.state.Err = errors.New("failed")
			o.reported = []metav1.Condition{{Type: releaseFailed, Status: metav1.ConditionTrue, Reason: "UpgradeError", Message: "pre-upgrade hook m has not succeeded"}}
		}
		before, _ := next(Status{}, observed(t, fails))
		after, _ := next(before, observed(t, func(o *observation) { fails(o); waits(o) }))
		got := after.condition(Ready)
		if got.Status != metav1.ConditionFalse || got.Reason != ReasonHookFailed || got.Message != "pre-upgrade hook m has not succeeded. "+told {
			t.Errorf("it is %+v", got)
		}
		ended, _ := next(after, observed(t, fails))
		if !equality.Semantic.DeepEqual(before, ended) {
			t.Errorf("it becomes %+v", ended.condition(Ready))
		}
		if events := slices.Concat(announce(before, after, false), announce(after, ended, false)); len(events) > 0 {
			t.Errorf("each attempt has these events: %v", events)
		}
	})
}

// Right after a pause nobody has looked yet whether something has drifted: who waits for Ready does not get it for that.
func TestNextAfterPause(t *testing.T) {
	paused, _ := next(Status{}, observed(t, nil))
	paused, _ = next(paused, observed(t, func(o *observation) {
		meta.SetStatusCondition(&o.reported, metav1.Condition{Type: pausedType, Status: metav1.ConditionTrue})
	}))
	resumed, _ := next(paused, observed(t, func(o *observation) {
		o.reported = []metav1.Condition{{Type: pausedType, Status: metav1.ConditionFalse}}
	}))
	if ready := resumed.condition(Ready); ready.Status != metav1.ConditionFalse || ready.Reason != ReasonProgressing || !strings.Contains(ready.Message, "pause") {
		t.Errorf("it is %+v", ready)
	}
	if looked, _ := next(resumed, observed(t, nil)); looked.condition(Ready).Status != metav1.ConditionTrue {
		t.Errorf("afterwards it is %+v", looked.condition(Ready))
	}
}

// A restart forgets which generation was applied, and a release that waits for its turn does not tell: the status does.
func TestNextAfterRestartDuringRollout(t *testing.T) {
	failed := func(o *observation) {
		o.generation = 4
		meta.SetStatusCondition(&o.reported, metav1.Condition{Type: irreconcilable, Status: metav1.ConditionTrue, Reason: "UpgradeError", Message: "refused"})
	}
	paused := func(o *observation) {
		o.generation = 4
		meta.SetStatusCondition(&o.reported, metav1.Condition{Type: pausedType, Status: metav1.ConditionTrue})
	}
	for name, c := range map[string]struct {
		before     func(*observation) // generation 3 is applied, and then reported once more
		older      bool               // that report is from a version that did not name the generation of the release
		generation int64
		ready      metav1.ConditionStatus
	}{
		"what was ready is, though others are upgraded first": {nil, false, 3, metav1.ConditionTrue},
		"an edit while there was no operator":                 {nil, false, 4, metav1.ConditionFalse},
		"an edit that failed":                                 {failed, false, 4, metav1.ConditionFalse},
		"an edit while it was paused":                         {paused, false, 4, metav1.ConditionFalse},
		"a status that does not know what was applied":        {nil, true, 3, metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := next(Status{}, observed(t, nil))
			if before.Release.Generation != 3 {
				t.Errorf("the release is of generation %d", before.Release.Generation)
			}
			before, _ = next(before, observed(t, c.before))
			if c.older {
				before.Release.Generation = 0
			}
			after, _ := next(before, observed(t, func(o *observation) {
				o.generation, o.state = c.generation, release.State{WaitFor: "10 are underway"}
			}))
			if ready := after.condition(Ready); ready.Status != c.ready {
				t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
			}
		})
	}
}

func TestDriftIsToldWhileItLasts(t *testing.T) {
	seen := observation{state: release.State{Revision: 1, Drift: release.Drift{Type: DriftLoop, Message: "somebody"}}, now: metav1.Now()}
	told, _ := next(Status{}, seen)
	if c := told.condition(DriftLoop); c.Status != metav1.ConditionTrue || c.Message != "somebody" || told.condition(Drifted).Type != "" {
		t.Errorf("the conditions are %v", told.Conditions)
	}
	seen.state.Drift = release.Drift{Type: Drifted, Message: "another"}
	if told, _ = next(told, seen); told.condition(Drifted).Message != "another" || told.condition(DriftLoop).Type != "" {
		t.Errorf("the conditions are %v", told.Conditions)
	}
	seen.state.Drift = release.Drift{}
	if over, _ := next(told, seen); over.condition(Drifted).Type != "" || len(told.Conditions) == len(over.Conditions) {
		t.Errorf("the conditions are %v", over.Conditions)
	}
}

// What carries no owner reference is proven by the status, as of the last release that was applied.
func TestNextListsWhatHasNoOwner(t *testing.T) {
	kept := object.Child{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data", UID: "1"}
	first, _ := next(Status{}, observed(t, func(seen *observation) {
		seen.state.Children = []object.Child{{APIVersion: "v1", Kind: "Service", Name: "hello"}, kept}
	}))
	want := []Unowned{{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data", UID: "1"}}
	if !slices.Equal(first.Release.Unowned, want) {
		t.Errorf("it lists %v", first.Release.Unowned)
	}
	if started, _ := next(first, observed(t, func(seen *observation) { seen.state = release.State{} })); !slices.Equal(started.Release.Unowned, want) {
		t.Errorf("after a restart it lists %v", started.Release.Unowned)
	}
	if dropped, _ := next(first, observed(t, func(*observation) {})); len(dropped.Release.Unowned) > 0 {
		t.Errorf("dropped, it is still listed: %v", dropped.Release.Unowned)
	}
}

// What became of tests is told once, about the spec that was tested, which may be older, and stays after a
// restart and further edits.
func TestNextTellsOfTests(t *testing.T) {
	of := func(tests release.Tests) func(*observation) {
		return func(seen *observation) { seen.state.Tests = tests }
	}
	told, _ := next(Status{}, observed(t, of(release.Tests{Asked: "one", Generation: 2, Run: []string{`Pod "a"`}})))
	if c := told.condition(Tested); told.Tested != "one" || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2 || c.Message != `Succeeded: Pod "a"` {
		t.Errorf("tested %q: %+v", told.Tested, c)
	}
	for name, later := range map[string]func(*observation){
		"a restart": func(seen *observation) { seen.generation, seen.state = 4, release.State{} },
		"an edit": func(seen *observation) {
			of(release.Tests{Asked: "one"})(seen)
			seen.generation = 4
		},
	} {
		if after, _ := next(told, observed(t, later)); after.Tested != "one" || after.condition(Tested) != told.condition(Tested) {
			t.Errorf("after %s: %q: %+v", name, after.Tested, after.condition(Tested))
		}
	}
	failed, v := next(told, observed(t, of(release.Tests{Asked: "two", Err: errors.New("pod a failed")})))
	if c := failed.condition(Tested); failed.Tested != "two" || c.Status != metav1.ConditionFalse || c.Reason != release.TestsFailed || c.Message != "pod a failed" {
		t.Errorf("tested %q: %+v", failed.Tested, c)
	}
	if v.ready != metav1.ConditionTrue {
		t.Error("failing tests change Ready")
	}
}

// What became of a reconcile that somebody has asked for is told once, whatever Ready says.
func TestNextAnswers(t *testing.T) {
	of := func(answer release.Answer) func(*observation) {
		return func(seen *observation) { seen.state.Answer = answer }
	}
	told, _ := next(Status{}, observed(t, of(release.Answer{Asked: "one", Generation: 2, Done: []string{"a", "b"}})))
	if c := told.condition(Reconciled); told.Reconciled != "one" || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2 || c.Message != "a; b" {
		t.Errorf("reconciled %q: %+v", told.Reconciled, c)
	}
	if after, _ := next(told, observed(t, of(release.Answer{Asked: "one"}))); after.condition(Reconciled) != told.condition(Reconciled) {
		t.Errorf("told again: %+v", after.condition(Reconciled))
	}
	later := metav1.NewTime(noon.Add(time.Hour))
	anew, _ := next(told, observed(t, func(seen *observation) { seen.state.Answer, seen.now = release.Answer{Asked: "next"}, later }))
	if at := anew.condition(Reconciled).LastTransitionTime; at != later {
		t.Errorf("the next answer is said to be of %s", at)
	}
	for _, answer := range []release.Answer{{Asked: "much", Done: []string{strings.Repeat("ü", maxMessage)}}, {Asked: "much", Err: errors.New(strings.Repeat("ü", maxMessage))}} {
		much, _ := next(told, observed(t, of(answer)))
		if got := much.condition(Reconciled).Message; len(got) < maxMessage/2 || len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("a message of %d bytes", len(got))
		}
	}
	failed, v := next(told, observed(t, of(release.Answer{Asked: "two", Err: errors.New("in vain")})))
	if c := failed.condition(Reconciled); failed.Reconciled != "two" || c.Status != metav1.ConditionFalse || c.Message != "in vain" || v.ready != metav1.ConditionTrue {
		t.Errorf("reconciled %q: %+v, %+v", failed.Reconciled, c, v)
	}
}

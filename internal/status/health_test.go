package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

func pod(name string, container corev1.ContainerStatus) corev1.Pod {
	container.Name, container.Image = "welcome", "example.com/welcome:v1"
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container}},
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// running is the state of a container that was started so long before noon.
func running(since time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}
}

func TestPodTrouble(t *testing.T) {
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	unschedulable := pod("a", corev1.ContainerStatus{})
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."}}
	gated := pod("a", corev1.ContainerStatus{})
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"}}
	going := pod("a", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")})
	going.DeletionTimestamp = &noon
	evicted := pod("a", corev1.ContainerStatus{State: crashed, RestartCount: 2})
	evicted.Status.Phase = corev1.PodFailed
	held := func(since time.Duration) corev1.Pod {
		pod := pod("a", corev1.ContainerStatus{State: waiting("ContainerCreating", "")})
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-since))}}
		return pod
	}
	for name, c := range map[string]struct {
		pods   []corev1.Pod
		reason string
		says   []string
	}{
		"nothing":                    {nil, "", nil},
		"a pod that starts":          {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: waiting("ContainerCreating", "")})}, "", nil},
		"a pod that goes":            {[]corev1.Pod{going}, "", nil},
		"the image is not there":     {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")})}, "ImagePullFailed", []string{`Pod "a"`, "example.com/welcome:v1: not found"}},
		"it is still not there":      {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: waiting("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`)})}, "ImagePullFailed", []string{"example.com/welcome:v1: not found"}},
		"a pod that has ended":       {[]corev1.Pod{evicted}, "", nil},
		"its volumes are under way":  {[]corev1.Pod{held(time.Minute)}, "", nil},
		"its volumes do not come":    {[]corev1.Pod{held(time.Hour)}, "ContainerFailed", []string{`Pod "a"`, "a Secret or ConfigMap that does not exist", "kubectl -n test describe pod a"}},
		"it crashes":                 {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: crashed})}, "CrashLooping", []string{"OOMKilled, exit code 137", "kubectl -n test logs a -c welcome --previous"}},
		"it crashes again just now":  {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: crashed, RestartCount: 2})}, "CrashLooping", []string{"OOMKilled"}},
		"it ran into that long ago":  {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: running(time.Hour), RestartCount: 2, LastTerminationState: crashed})}, "", nil},
		"it has just started again":  {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: running(time.Minute), RestartCount: 2, LastTerminationState: crashed})}, "CrashLooping", []string{"OOMKilled"}},
		"it was restarted and works": {[]corev1.Pod{pod("a", corev1.ContainerStatus{Ready: true, RestartCount: 7})}, "", nil},
		"it cannot be started":       {[]corev1.Pod{pod("a", corev1.ContainerStatus{State: waiting("CreateContainerConfigError", `secret "s" not found`)})}, "ContainerFailed", []string{`secret "s" not found`}},
		"no node takes it":           {[]corev1.Pod{unschedulable}, "Unschedulable", []string{"Insufficient cpu"}},
		"none may take it yet":       {[]corev1.Pod{gated}, "Unschedulable", []string{"scheduling gates"}},
		"the worst counts": {[]corev1.Pod{unschedulable, pod("b", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "")}), pod("c", corev1.ContainerStatus{State: waiting("ErrImagePull", "")})},
			"ImagePullFailed", []string{`Pod "c"`}},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := podTrouble(c.pods, noon.Time)
			if reason != c.reason {
				t.Fatalf("got %s: %s; want %s", reason, message, c.reason)
			}
			for _, part := range c.says {
				if !strings.Contains(message, part) {
					t.Errorf("%q does not say %q", message, part)
				}
			}
		})
	}
}

// What the operator does not see is not healthy, whatever it says of itself.
func TestHealthOfWhatLacksTheLabel(t *testing.T) {
	o := childState{Child: object.Child{APIVersion: "v1", Kind: "Service", Name: "hello"}, called: "welcome/hello -n test", live: parse(t, healthyService), unlabelled: true}
	v := o.health()
	if v == nil || v.reason != "LabelTakenOff" || !v.stalled || v.reconciling {
		t.Fatalf("it says %+v", v)
	}
	for _, part := range []string{`Service "hello"`, "webapp.demo.welcome.domain/managed-by=welcome-operator", "webhook or policy", "reconcile --force welcome/hello -n test"} {
		if !strings.Contains(v.message, part) {
			t.Errorf("%q does not say %q", v.message, part)
		}
	}
}

// Who has paused a rollout, or comes after them, learns why an edit does not reach the pods.
func TestHealthNamesAPausedRollout(t *testing.T) {
	paused := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "hello", "namespace": "test", "generation": int64(2)},
		"spec":     map[string]any{"replicas": int64(1), "paused": true},
		"status":   map[string]any{"observedGeneration": int64(2), "replicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1)},
	}}
	o := childState{Child: object.Child{APIVersion: "apps/v1", Kind: "Deployment", Name: "hello"}, live: paused}
	if v := o.health(); v == nil || !strings.Contains(v.message, "kubectl -n test rollout resume deployment/hello") {
		t.Errorf("it says %+v", v)
	}
}

// Who waits for an object to go learns what it waits for, as far as the cache has that.
func TestHealthNamesWhatKeepsAnObject(t *testing.T) {
	going := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "hello", "deletionTimestamp": "2026-01-01T00:00:00Z"}}}
	o := childState{Child: object.Named(going), live: going}
	if v := o.health(); v == nil || v.message != `Service "hello": it is being deleted.` {
		t.Errorf("it says %+v", v)
	}
	going.SetFinalizers([]string{"example.com/a", "example.com/b"})
	if v := o.health(); v == nil || v.message != `Service "hello": it is being deleted, and these finalizers keep it: example.com/a, example.com/b.` {
		t.Errorf("it says %+v", v)
	}
}

// A Job whose first pod does not run is not healthy. One that was, and whose pod is started again, stays so.
func TestHealthOfAJobThatStarts(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		before metav1.ConditionStatus
		ready  metav1.ConditionStatus
		reason string
	}{
		"its first pod does not run":   {"{startTime: '2026-01-01T00:00:00Z', active: 1, ready: 0}", metav1.ConditionFalse, metav1.ConditionFalse, "Progressing"},
		"its first pod runs":           {"{startTime: '2026-01-01T00:00:00Z', active: 1, ready: 1}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"it is between two pods":       {"{startTime: '2026-01-01T00:00:00Z', active: 1, ready: 0, succeeded: 1}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"it is tried again":            {"{startTime: '2026-01-01T00:00:00Z', active: 1, ready: 0, failed: 1}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"its pods are refused":         {"{startTime: '2026-01-01T00:00:00Z', ready: 0}", metav1.ConditionFalse, metav1.ConditionFalse, "JobHasNoPods"},
		"it has just begun":            {"{startTime: '2030-05-04T11:59:59Z', ready: 0}", metav1.ConditionFalse, metav1.ConditionFalse, "Progressing"},
		"nobody has seen it yet":       {"{}", metav1.ConditionFalse, metav1.ConditionFalse, "Progressing"},
		"its pods are refused anew":    {"{startTime: '2026-01-01T00:00:00Z', ready: 0}", metav1.ConditionTrue, metav1.ConditionTrue, "Healthy"},
		"it is to have no pods":        {"{startTime: '2026-01-01T00:00:00Z', ready: 0}, spec: {parallelism: 0}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"it is suspended":              {"{startTime: '2026-01-01T00:00:00Z', ready: 0}, spec: {suspend: true}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"it has ended without pods":    {"{startTime: '2026-01-01T00:00:00Z', conditions: [{type: Complete, status: 'True'}]}", metav1.ConditionFalse, metav1.ConditionTrue, "Healthy"},
		"its pod is started once more": {"{startTime: '2026-01-01T00:00:00Z', active: 1, ready: 0}", metav1.ConditionTrue, metav1.ConditionTrue, "Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			job := parse(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: test}, status: "+c.status+"}")
			previous := Status{Release: &Release{Revision: 1}, Conditions: []metav1.Condition{{Type: Ready, Status: c.before}}}
			seen := observation{now: noon, state: release.State{Revision: 1}, objects: []childState{{Child: object.Named(job), live: job}}}
			if v := health(previous, seen); v.ready != c.ready || v.reason != c.reason {
				t.Errorf("it says %+v", v)
			}
		})
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// seen is a Welcome of generation 2 with a status of that generation, and with conditions like
// "Ready=False:Reason:Message".
func seen(name string, conditions ...string) *unstructured.Unstructured {
	obj := kit.Welcome("shop", name)
	obj.SetUID("1")
	obj.SetGeneration(2)
	obj.SetCreationTimestamp(metav1.NewTime(start.Add(-24 * time.Hour)))
	var list []any
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		parts := strings.SplitN(rest, ":", 3)
		list = append(list, map[string]any{
			"type": kind, "status": parts[0], "reason": parts[1], "message": parts[2], "observedGeneration": int64(2),
			"lastTransitionTime": start.Add(-5 * time.Minute).Format(time.RFC3339),
		})
	}
	obj.Object["status"] = map[string]any{
		"observedGeneration": int64(2), "conditions": list, "url": "http://hello.shop.svc:8080/hello/", "operator": "system/lease",
		"release": map[string]any{
			"name": name, "revision": int64(3), "chart": "welcome", "version": "0.1.0", "status": "deployed", "generation": int64(2),
			"lastApplied": start.Add(-time.Hour).Format(time.RFC3339),
		},
	}
	return obj
}

const (
	healthy = "Ready=True:Healthy:The release is applied, and all of its objects are healthy."
	pulling = `Ready=False:ImagePullFailed:Pod "a" cannot pull the image b: not found`
	waits   = "Ready=True:Healthy:The release is applied, and all of its objects are healthy. The chart is not up to date: waiting for the rollout of the new version to others."
)

func with(obj *unstructured.Unstructured, edits ...kit.Edit) *unstructured.Unstructured {
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

// What an operator has said counts only as long as the objects do not contradict it: it may be gone.
func TestContradicted(t *testing.T) {
	of := func(health, message string) *node {
		return &node{Kind: "Service", Name: "hello", Health: health, Message: message}
	}
	for name, test := range map[string]struct {
		says    string
		objects []*node
		ready   metav1.ConditionStatus
		message string
		also    []string
	}{
		"all are well":            {healthy, []*node{of("Current", ""), of("Unknown", "you may not read it")}, "True", "The release is applied, and all of its objects are healthy.", nil},
		"one was deleted":         {healthy, []*node{of("Current", ""), of("NotFound", "somebody has deleted it")}, "Unknown", "The operator has yet to see: Service/hello NotFound (somebody has deleted it). " + elseDoctor + " Before, it was: The release is applied, and all of its objects are healthy.", nil},
		"several":                 {healthy, []*node{of("Failed", "x"), of("InProgress", "")}, "Unknown", "The operator has yet to see: Service/hello Failed (x), Service/hello InProgress. " + elseDoctor + " Before, it was: The release is applied, and all of its objects are healthy.", nil},
		"it says so already":      {pulling, []*node{of("Failed", "x")}, "False", `Pod "a" cannot pull the image b: not found`, nil},
		"an upgrade is under way": {healthy, []*node{of("InProgress", ""), of("NotFound", "")}, "True", "The release is applied, and all of its objects are healthy.", []string{"Reconciling=True:Healthy:x"}},
	} {
		r := reportOf(seen("a", append(test.also, test.says)...))
		r.contradictedBy(test.objects)
		if r.Ready != test.ready || r.Message != test.message {
			t.Errorf("%s: %s, %q", name, r.Ready, r.Message)
		}
		if isOld := r.Reason == notSeen && r.Turn == operators && r.Since == nil; isOld != (test.ready == "Unknown") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestReportOf(t *testing.T) {
	for name, test := range map[string]struct {
		obj     *unstructured.Unstructured
		ready   metav1.ConditionStatus
		turn    turn
		rank    int
		message string
	}{
		"healthy":                   {seen("a", healthy), "True", nobodys, 7, "all of its objects are healthy."},
		"bad image":                 {seen("a", pulling, "Reconciling=True:ImagePullFailed:x"), "False", yours, 0, "cannot pull"},
		"stalled":                   {seen("a", "Ready=False:NotAllowed:no", "Stalled=True:NotAllowed:no"), "False", yours, 0, "no"},
		"retried":                   {seen("a", "Ready=False:Conflict:somebody else writes"), "False", operators, 1, "somebody else"},
		"progressing":               {seen("a", "Ready=False:Progressing:Deployment \"a\": Available: 0/1."), "False", clusters, 2, "0/1"},
		"paused rollout":            {seen("a", `Ready=False:RolloutPaused:Deployment "a": Updated: 0/1. Somebody has paused its rollout: kubectl -n shop rollout resume deployment/a.`, "Reconciling=True:RolloutPaused:x"), "False", yours, 0, "rollout resume"},
		"deleted, and not put back": {seen("a", `Ready=False:ObjectDeleted:Service "a" was deleted.`), "False", yours, 0, "was deleted"},
		"job without pods":          {seen("a", `Ready=False:JobHasNoPods:Job "a" has no pods.`), "False", yours, 0, "has no pods"},
		"hook without pods":         {seen("a", "Ready=False:HookHasNoPods:"+status.NotApplied+`. It waits for hook Job "a", which is suspended (spec.suspend: true), to end.`), "False", yours, 0, "is suspended"},
		"not applied":               {seen("a", "Ready=False:Progressing:The release of this generation is not applied yet."), "False", operators, 2, "not applied"},
		"edited":                    {with(seen("a", healthy), func(o *unstructured.Unstructured) { o.SetGeneration(3) }), "Unknown", operators, 3, "has not looked at its spec"},
		"new":                       {kit.Welcome("shop", "a"), "Unknown", operators, 3, "is one running"},
		"paused":                    {with(seen("a", "Ready=Unknown:Paused:Nothing is applied"), kit.Pause(true)), "Unknown", yours, 4, "kubectl welcome resume a -n shop"},
		"resumed":                   {seen("a", "Ready=Unknown:Paused:Nothing is applied"), "Unknown", operators, 4, ""},
		"fight":                     {seen("a", healthy, "DriftLoop=True:DriftLoop:x"), "True", yours, 5, ""},
		"rollout":                   {seen("a", waits), "True", rollouts, 6, ""},
		"quota":                     {seen("a", `Ready=False:QuotaExceeded:Deployment "a": its pods are forbidden: exceeded quota: q. Raise the quota of the namespace, or ask for less.`), "False", yours, 0, "Raise"},
		"deleted, and nobody looks": {with(seen("a", healthy), func(o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(&metav1.Time{Time: start})
			o.SetGeneration(3) // as the API server does
			o.SetFinalizers([]string{status.Finalizer})
		}), "Unknown", operators, 3, "yet to see that it is to be deleted"},
		"deleted": {with(seen("a", healthy), func(o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(&metav1.Time{Time: start})
			o.SetFinalizers([]string{"example.com/theirs"})
		}), "True", othersTurn, 7, "example.com/theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reportOf(test.obj)
			if r.Ready != test.ready || r.Turn != test.turn || r.rank() != test.rank || !strings.Contains(r.Message, test.message) {
				t.Errorf("%s, turn of %s, rank %d: %s", r.Ready, r.Turn, r.rank(), r.Message)
			}
		})
	}
	if r := reportOf(seen("a", waits)); r.WaitsFor != "waiting for the rollout of the new version to others" || strings.Contains(r.Message, "chart") {
		t.Errorf("waits for %q: %q", r.WaitsFor, r.Message)
	}
	if r := reportOf(seen("a", "Ready=False:RenderFailed:x. "+release.Outdated+"quoted")); r.WaitsFor != "" || !strings.HasSuffix(r.Message, "quoted") {
		t.Errorf("waits for %q: %q", r.WaitsFor, r.Message)
	}
}

func TestWorstFirst(t *testing.T) {
	later := seen("later", pulling)
	later.Object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"] = start.Format(time.RFC3339)
	var reports []*report
	for _, obj := range []*unstructured.Unstructured{
		seen("b", healthy), seen("a", healthy), with(seen("paused", "Ready=Unknown:Paused:x"), kit.Pause(true)), seen("waits", waits), later, seen("bad", pulling),
		seen("coming", "Ready=False:Progressing:x"), kit.Welcome("shop", "new"),
	} {
		reports = append(reports, reportOf(obj))
	}
	worstFirst(reports)
	var order []string
	for _, r := range reports {
		order = append(order, r.Name)
	}
	if want := []string{"bad", "later", "coming", "new", "paused", "waits", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("%v, not %v", order, want)
	}
	if got, want := summary(reports), "8 Welcomes: 3 ready, 4 not (2 ImagePullFailed, 1 NotSeen, 1 Progressing), 1 paused; 1 wait for their turn in a rollout"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if allReady(reports) || !allReady(reports[6:]) || !allReady(nil) {
		t.Error("what is ready is mistaken")
	}
}

func TestNodeOfPod(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.NewTime(start)}},
	}}}
	const want = "CrashLoopBackOff, 0 of 1 ready, 3 restarts, the last after OOMKilled, exit code 137, at 2026-11-22T12:00:00Z"
	if n := nodeOfPod(pod); n.Message != want || n.Health != "InProgress" {
		t.Errorf("%+v", n)
	}
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Ready: true}
	if n := nodeOfPod(pod); n.Message != "Running, 1 of 1 ready" || n.Health != "Current" {
		t.Errorf("%+v", n)
	}

	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	ended := func(reason string, code int32, at time.Time) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metav1.NewTime(at)}}}
	}
	for name, test := range map[string]struct {
		phase       corev1.PodPhase
		init, main  []corev1.ContainerStatus
		says, looks string
	}{
		"it initializes":                {corev1.PodPending, []corev1.ContainerStatus{{}}, []corev1.ContainerStatus{waiting("PodInitializing")}, "PodInitializing, 0 of 1 ready", "InProgress"},
		"an init container crashes":     {corev1.PodPending, []corev1.ContainerStatus{waiting("CrashLoopBackOff")}, []corev1.ContainerStatus{waiting("PodInitializing")}, "CrashLoopBackOff, 0 of 1 ready", "InProgress"},
		"it has crashed a moment ago":   {corev1.PodRunning, nil, []corev1.ContainerStatus{ended("OOMKilled", 137, start)}, "Running, 0 of 1 ready, ended with OOMKilled, exit code 137, at 2026-11-22T12:00:00Z", "InProgress"},
		"its init container has failed": {corev1.PodFailed, []corev1.ContainerStatus{ended("Error", 3, start)}, []corev1.ContainerStatus{waiting("PodInitializing")}, "Failed, 0 of 1 ready, ended with Error, exit code 3, at 2026-11-22T12:00:00Z", "Failed"},
		"a failed Job's, with a sidecar that is ended then": {corev1.PodFailed, []corev1.ContainerStatus{ended("Error", 143, start.Add(time.Second))}, []corev1.ContainerStatus{ended("Error", 1, start)},
			"Failed, 0 of 1 ready, ended with Error, exit code 1, at 2026-11-22T12:00:00Z", "Failed"},
		"a done Job's":                {corev1.PodSucceeded, []corev1.ContainerStatus{ended("Error", 143, start)}, []corev1.ContainerStatus{ended("Completed", 0, start)}, "Succeeded", "Current"},
		"its node does not know when": {corev1.PodFailed, nil, []corev1.ContainerStatus{ended("ContainerStatusUnknown", 137, time.Time{})}, "Failed, 0 of 1 ready, ended with ContainerStatusUnknown, exit code 137", "Failed"},
	} {
		pod.Status = corev1.PodStatus{Phase: test.phase, InitContainerStatuses: test.init, ContainerStatuses: test.main}
		if n := nodeOfPod(pod); n.Message != test.says || n.Health != test.looks {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

func TestDriftIn(t *testing.T) {
	at := func(ago time.Duration, reason string) happening {
		return happening{Last: metav1.NewTime(start.Add(-ago)), Reason: reason}
	}
	drift := driftIn([]happening{at(time.Minute, "Upgraded"), at(time.Minute, "DriftCorrected"), at(59*time.Minute, "DriftLoop"), at(61*time.Minute, "DriftCorrected")}, start)
	if got := fmt.Sprintln(len(drift), drift[0].Reason, drift[1].Reason); got != "2 DriftCorrected DriftLoop\n" {
		t.Error(got)
	}
}

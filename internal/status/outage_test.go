package status

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/internal/object"
)

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

package integration

import (
	"testing"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// pause pauses the Welcome "hello", and waits until the operator leaves it alone.
func (s *scene) pause() {
	s.Helper()
	s.edit("hello", kit.Pause(true))
	s.awaitCondition("hello", "Paused", "True")
}

func TestPause(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))

	s.edit("hello", kit.Annotate(kit.Group+"/paused", "yes"))
	s.awaitCondition("hello", "IgnoredAnnotations", "True", kit.Group+"/paused (it is neither true nor false: write true)")
	s.edit("hello", kit.Annotate(kit.Group+"/paused", "True"))
	s.awaitCondition("hello", "Paused", "True")
	s.edit("hello", kit.Greet("while paused"))
	// Another custom resource, created later, is through: so the edit was seen, too.
	s.deploy("later")
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if got := kit.Greeting(deployment); got != "before" {
		t.Errorf("a paused Welcome was changed: it greets %q", got)
	}

	s.edit("hello", kit.Pause(false))
	s.awaitGreeting("hello", "while paused")
	s.awaitCondition("hello", "Paused", "False")
	s.awaitDeployed("hello")
}

func TestPauseDoesNotBlockDeletion(t *testing.T) {
	s := newScene(t)
	s.operator()
	cr := s.deploy("hello")
	s.pause()
	s.delete(cr)
	s.awaitGone(&appsv1.Deployment{}, "hello")
}

// What is done after a resume may take minutes. The status does not say meanwhile that the Welcome is paused,
// and who pauses it again and waits for that has it left alone afterwards.
func TestPauseAgainMidAction(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"post-upgrade"}, nil))
	s.deploy("hello", kit.Greet("before"))
	s.pause()
	s.edit("hello", kit.Greet("after"))
	s.edit("hello", kit.Pause(false))
	job := &batchv1.Job{}
	s.ran(job, "post-upgrade", "after")
	s.awaitReason("hello", "HookHasNoPods")
	s.awaitCondition("hello", "Paused", "False")
	s.awaitEvent("hello", "Resumed", "")

	got := s.plugin("pause", "hello", "--wait", "--timeout=3s")
	s.expect(got, 1, "not done after 3s")
	s.endHook(job)
	s.expect(s.plugin("pause", "hello", "--wait"), 0, "paused already")
	if newest := s.records("hello"); newest[len(newest)-1].Labels["status"] != string(release.StatusDeployed) {
		t.Errorf("the operator was not done: %v", names(newest))
	}
}

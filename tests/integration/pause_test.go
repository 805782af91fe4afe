package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// pause has the operator leave the Welcome "hello" alone, and waits until it does.
func (s *scene) pause() {
	s.Helper()
	s.edit("hello", kit.Pause(true))
	s.awaitCondition("hello", "Paused", "True")
}

func TestPause(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))

	s.pause()
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

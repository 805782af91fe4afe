package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// pause has the operator leave the Welcome "hello" alone, and waits until it does.
func (s *scene) pause() {
	s.Helper()
	s.edit("hello", func(w *fixture) { w.annotate(paused, "true") })
	s.awaitCondition("hello", "Paused", "True")
}

func TestPause(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create(welcome("hello").greeting("before"))
	s.awaitDeployed("hello")

	s.pause()
	s.edit("hello", func(w *fixture) { w.greeting("while paused") })
	// Another custom resource, created later, is through: so the edit was seen, too.
	s.create(welcome("later"))
	s.awaitDeployed("later")
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if got := greetingOf(deployment); got != "before" {
		t.Errorf("a paused Welcome was changed: it greets %q", got)
	}

	s.edit("hello", func(w *fixture) { w.annotate(paused, "false") })
	s.awaitGreeting("hello", "while paused")
	s.awaitCondition("hello", "Paused", "False")
	s.awaitDeployed("hello")
}

func TestPauseDoesNotBlockDeletion(t *testing.T) {
	s := newScene(t)
	s.operator()
	cr := s.create(welcome("hello"))
	s.awaitDeployed("hello")
	s.pause()
	s.must(env.client.Delete(ctx, cr))
	s.awaitGone(newWelcome(), "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
}

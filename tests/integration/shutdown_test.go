package integration

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// An operator that is told to stop while Helm waits for a webhook that does not answer ends within the grace period of its
// pod, and the next one goes on from there.
func TestStoppedWhileInstalling(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	asked, letGo := s.holdDeployments()
	s.create(welcome("hello").greeting("myfriends"))
	<-asked
	start := time.Now()
	first.stop() // kills it after 30 seconds
	took := time.Since(start)
	t.Logf("it ended after %s", took.Round(time.Millisecond))
	if took >= 30*time.Second {
		t.Errorf("it had to be killed\n%s", s.dump())
	}
	letGo()

	s.ownOperator(only)
	s.awaitGreeting("hello", "myfriends")
	s.awaitDeployed("hello")
}

// What an interrupted upgrade has made, and nobody wants any more, goes.
func TestLeftoversOfAnInterruptedUpgrade(t *testing.T) {
	for name, end := range map[string]func(s *scene){
		"edited back": func(s *scene) {
			s.edit("hello", func(w *fixture) { w.with("networkPolicy.enabled", false).greeting("after") })
		},
		"deleted": func(s *scene) { s.must(env.client.Delete(ctx, welcome("hello").in(s.namespace))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}}
			first := s.ownOperator(only)
			s.create(welcome("hello").greeting("before"))
			s.awaitDeployed("hello")
			s.settled(first)
			before := &appsv1.Deployment{}
			s.get(before, "hello")
			s.edit("hello", func(w *fixture) { w.with("networkPolicy.enabled", true) })
			s.await("a second record", func() error { return s.hasRecords("hello", 2) })
			s.awaitDeployed("hello")
			first.stop()
			// As if it had been killed when all objects were applied, and the records not yet brought to their end.
			for i, record := range s.records("hello") {
				record.Labels["status"] = []string{"deployed", "pending-upgrade"}[i]
				s.must(env.client.Update(ctx, &record))
			}
			s.get(&networkingv1.NetworkPolicy{}, "hello")
			end(s)

			s.ownOperator(only)
			s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
			if name == "deleted" {
				s.awaitGone(newWelcome(), "hello")
				s.awaitGone(&appsv1.Deployment{}, "hello")
				s.must(s.hasRecords("hello", 0))
				return
			}
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			after := &appsv1.Deployment{}
			s.get(after, "hello")
			if after.UID != before.UID {
				t.Error("the Deployment was made anew")
			}
		})
	}
}

// Killed again before the next attempt has a record, an interrupted upgrade still knows what it has made. A quota stands for
// the kill: it keeps the record from being written.
func TestLeftoversWithoutANewRecord(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	s.create(welcome("hello").greeting("before"))
	s.awaitDeployed("hello")
	s.settled(first)
	s.edit("hello", func(w *fixture) { w.with("networkPolicy.enabled", true) })
	s.await("a second record", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	first.stop()
	for i, record := range s.records("hello") {
		record.Labels["status"] = []string{"deployed", "pending-upgrade"}[i]
		s.must(env.client.Update(ctx, &record))
	}
	lift := s.none(corev1.ResourceConfigMaps, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")})
	s.ownOperator(only)
	s.awaitCondition("hello", "Ready", "False", "quota")
	s.edit("hello", func(w *fixture) { w.with("networkPolicy.enabled", false) })
	lift()
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
}

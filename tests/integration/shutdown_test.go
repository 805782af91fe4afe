package integration

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// An operator that is told to stop while Helm waits for a webhook that does not answer ends within the grace period of its
// pod, and the next one goes on from there.
func TestStoppedWhileInstalling(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	asked, letGo := s.holdDeployments()
	s.create("hello", kit.Greet("myfriends"))
	asked()
	start := time.Now()
	first.Stop() // kills it after 30 seconds
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

// interrupted leaves a Welcome as if its operator had been killed in an upgrade after all objects were
// applied, among them a new NetworkPolicy, and before records and status were written. It returns the
// Deployment of before.
func (s *scene) interrupted(only settings) *appsv1.Deployment {
	s.Helper()
	first := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	s.settled(first)
	before := &appsv1.Deployment{}
	s.get(before, "hello")
	applied, _, _ := unstructured.NestedMap(s.welcome("hello").Object, "status", "release")
	s.edit("hello", kit.Set("networkPolicy.enabled", true))
	s.await("a second record", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	first.Stop()
	for i, record := range s.records("hello") {
		record.Labels["status"] = []string{"deployed", "pending-upgrade"}[i]
		s.must(env.Client.Update(ctx, &record))
	}
	cr := s.welcome("hello")
	s.must(unstructured.SetNestedMap(cr.Object, applied, "status", "release"))
	s.must(env.Client.Status().Update(ctx, cr))
	return before
}

// What an interrupted upgrade has made, and nobody wants any more, goes.
func TestLeftoversOfAnInterruptedUpgrade(t *testing.T) {
	for name, end := range map[string]func(s *scene){
		"edited back": func(s *scene) {
			s.edit("hello", kit.Set("networkPolicy.enabled", false), kit.Greet("after"))
		},
		"deleted": func(s *scene) { s.must(env.Client.Delete(ctx, kit.Welcome(s.namespace, "hello"))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}}
			before := s.interrupted(only)
			s.get(&networkingv1.NetworkPolicy{}, "hello")
			end(s)

			s.ownOperator(only)
			s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
			if name == "deleted" {
				s.awaitGone(kit.Welcome(s.namespace, "hello"), "hello")
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
	s.interrupted(only)
	lift := s.none(corev1.ResourceConfigMaps, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")})
	s.ownOperator(only)
	s.awaitCondition("hello", "Ready", "False", "quota")
	s.edit("hello", kit.Set("networkPolicy.enabled", false))
	lift()
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
}

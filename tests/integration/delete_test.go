package integration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Nothing collects garbage here: what is gone, Helm has uninstalled.
func TestDelete(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	cr := s.create(welcome("hello").with("networkPolicy.enabled", true))
	s.create(welcome("other"))
	s.awaitDeployed("hello")
	s.awaitDeployed("other")
	s.edit("hello", func(w *fixture) { w.greeting("two revisions") })
	s.await("a second record", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	s.settled(operator)

	before := s.record()
	s.must(env.client.Delete(ctx, cr))
	s.awaitGone(newWelcome(), "hello")
	t.Logf("a deletion costs %s", before.of(operator))
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.awaitGone(&corev1.Service{}, "hello")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
	s.must(s.hasRecords("hello", 0))

	s.get(&appsv1.Deployment{}, "other")
	s.get(&corev1.Service{}, "other")
	s.must(s.hasRecords("other", 1))
}

// A name can be used again at once, although the first one's objects are just going.
func TestDeleteAndCreateAgain(t *testing.T) {
	s := newScene(t)
	s.operator()
	for _, greeting := range []string{"first", "second", "third"} {
		cr := s.create(welcome("hello").greeting(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
		s.must(env.client.Delete(ctx, cr))
		s.awaitGone(newWelcome(), "hello")
	}
}

// Somebody's policy does not let an object go. The custom resource says so, is tried again, but not all the time, and goes
// when it can.
func TestDeleteRefused(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	cr := s.create(welcome("hello"))
	s.awaitDeployed("hello")
	lift := s.refuse(admissionregistrationv1.Delete, "", "services", "Services stay", func() error {
		return env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}, client.DryRunAll)
	})
	s.settled(operator)

	before, reconciles := s.record(), operator.reconciles(t)
	s.must(env.client.Delete(ctx, cr))
	s.awaitCondition("hello", "ReleaseFailed", "True", "Services stay")
	s.awaitCondition("hello", "Ready", "False", "Services stay")
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-reconciles, 5) })
	if written := before.of(operator).statuses(); len(written) > 3 {
		t.Errorf("%d reconciles wrote %d statuses, each of which causes one more reconcile", operator.reconciles(t)-reconciles, len(written))
	}

	lift()
	s.awaitGone(newWelcome(), "hello")
	s.awaitGone(&corev1.Service{}, "hello")
}

func TestDeleteWithoutRelease(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.must(env.client.Create(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	cr := s.create(welcome("hello")) // can never be installed
	s.awaitCondition("hello", "Deployed", "False")
	s.must(env.client.Delete(ctx, cr))
	s.awaitGone(newWelcome(), "hello")
	s.get(&corev1.Service{}, "hello")
}

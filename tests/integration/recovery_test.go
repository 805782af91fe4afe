package integration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kill ends the operator as the kernel does when memory runs out.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// The operator dies while Helm is at work. The next one goes on from there.
func TestKilledWhileInstalling(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	asked, letGo := s.holdDeployments()
	s.create(welcome("hello").greeting("myfriends"))
	<-asked
	first.kill()
	letGo()
	if records := s.records("hello"); len(records) != 1 || records[0].Labels["status"] != "pending-install" {
		t.Fatalf("the operator was not in the middle of an install: %v", names(records))
	}

	s.ownOperator(only)
	s.awaitGreeting("hello", "myfriends")
	s.awaitDeployed("hello")
}

func TestKilledWhileUpgrading(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	s.create(welcome("hello").greeting("before"))
	s.awaitDeployed("hello")
	s.settled(first)
	asked, letGo := s.holdDeployments()
	s.pause()
	s.must(env.client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.edit("hello", func(w *fixture) { w.annotate(paused, "false").greeting("after") })
	<-asked // Helm makes the Deployment again
	first.kill()
	letGo()

	s.ownOperator(only)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// An upgrade that cannot succeed leaves what there was, is tried again without a new revision for each attempt, and goes
// through when it can.
func TestUpgradeRefused(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.create(welcome("hello").greeting("before"))
	s.awaitDeployed("hello")
	lift := s.refuse(admissionregistrationv1.Create, "networking.k8s.io", "ingresses", "no more ingresses", func() error {
		return env.client.Create(ctx, &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		}}, client.DryRunAll)
	})

	before, reconciles := s.record(), operator.reconciles(t)
	s.edit("hello", func(w *fixture) {
		w.greeting("after").with("ingress.enabled", true).with("ingress.host", "example.com")
	}) // Helm makes it last
	s.awaitCondition("hello", "ReleaseFailed", "True", "no more ingresses")
	s.awaitCondition("hello", "Ready", "False", "no more ingresses")
	s.awaitDeployment("hello", "the Deployment is rolled back", greets("before"))
	rolledBack := &appsv1.Deployment{}
	s.get(rolledBack, "hello")
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-reconciles, 5) })
	if written := before.of(operator).statuses(); len(written) > 3 {
		t.Errorf("%d reconciles wrote %d statuses", operator.reconciles(t)-reconciles, len(written))
	}
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if got := greetingOf(deployment); got != "before" || deployment.Generation != rolledBack.Generation {
		t.Errorf("half an upgrade stayed, or every attempt rolls the pods: it greets %q, and has generation %d after %d", got, deployment.Generation, rolledBack.Generation)
	}
	if records := s.records("hello"); len(records) > 2 {
		t.Errorf("every attempt left a revision: %v", names(records))
	}

	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitCondition("hello", "ReleaseFailed", "False")
}

// An object that the spec no longer wants, and that cannot be deleted, is not forgotten.
func TestDeletionRefused(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create(welcome("hello").greeting("before").with("networkPolicy.enabled", true))
	s.awaitDeployed("hello")
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "hello")
	lift := s.refuse(admissionregistrationv1.Delete, "networking.k8s.io", "networkpolicies", "no fewer policies", func() error {
		return env.client.Delete(ctx, policy, client.DryRunAll)
	})
	s.edit("hello", func(w *fixture) { w.greeting("after").with("networkPolicy.enabled", false) })
	s.awaitCondition("hello", "Ready", "False", "no fewer policies")
	s.awaitDeployment("hello", "the Deployment is rolled back", greets("before"))
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitGone(policy, "hello")
}

// A restart finds everything as it should be, and so changes nothing.
func TestRestart(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	for _, name := range []string{"one", "two", "three"} {
		s.create(welcome(name))
	}
	for _, name := range []string{"one", "two", "three"} {
		s.awaitDeployed(name)
	}
	s.settled(first)
	before := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"one", "two", "three"} {
		before[name] = s.welcome(name)
	}
	first.stop()
	if first.err != nil {
		t.Errorf("the first ended with %v\n%s", first.err, s.dump())
	}

	from := s.record()
	second := s.ownOperator(only)
	s.await("all are reconciled", func() error { return atLeast(second.reconciles(t), 3) })
	s.settled(second)
	requests := from.of(second)
	t.Logf("a start with three releases costs %s", requests)
	for _, request := range requests {
		if request.writes() {
			t.Errorf("a restart writes: %s", request)
		}
	}
	for name, welcome := range before {
		if now := s.welcome(name); now.GetResourceVersion() != welcome.GetResourceVersion() {
			t.Errorf("Welcome %s was changed: %v", name, now.Object["status"])
		}
	}
}

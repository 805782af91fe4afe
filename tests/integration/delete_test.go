package integration

import (
	"errors"
	"fmt"
	"slices"
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
	t.Logf("a deletion costs %s", summary(before.of(operator)))
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
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: objectMeta("", s.namespace),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "Services stay"}},
		},
	}
	s.must(env.client.Create(ctx, policy))
	s.must(env.client.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: objectMeta("", s.namespace),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}))
	s.await("the policy holds", func() error {
		err := env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}, client.DryRunAll)
		if err == nil {
			return errors.New("a deletion would go through")
		}
		return nil
	})
	s.settled(operator)

	before, reconciles := s.record(), operator.reconciles(t)
	s.must(env.client.Delete(ctx, cr))
	s.awaitCondition("hello", "ReleaseFailed", "True", "Services stay")
	s.awaitCondition("hello", "Ready", "False", "Services stay")
	s.await("it is tried again", func() error {
		if got := operator.reconciles(t) - reconciles; got < 5 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	requests := before.of(operator)
	written := slices.DeleteFunc(slices.Clone(requests), func(r request) bool { return r.Verb != "update" || r.ObjectRef.Subresource != "status" })
	if len(written) > 3 {
		t.Errorf("%d reconciles wrote %d statuses, each of which causes one more reconcile: %s", operator.reconciles(t)-reconciles, len(written), summary(requests))
	}

	s.must(env.client.Delete(ctx, policy))
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

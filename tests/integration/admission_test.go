package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// refuse creates somebody else's policy that forbids an operation on a resource in the namespace of the test,
// until lift is called. try is such an operation, as a dry run: it tells whether the policy is in force.
func (s *scene) refuse(operation admissionregistrationv1.OperationType, group, resource, message string, try func() error) (lift func()) {
	s.Helper()
	return s.deny(admissionregistrationv1.Validation{Expression: "false", Message: message}, operation, group, resource, try)
}

// mutate creates somebody else's policy that changes a resource when it is written in the namespace of the
// test, until lift is called. holds tells whether the policy is in force.
func (s *scene) mutate(expression, resource string, holds func() error, operations ...admissionregistrationv1.OperationType) (lift func()) {
	s.Helper()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: objectMeta("", s.namespace), Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: operations,
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}}},
		},
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression}}},
	}}
	s.must(env.Client.Create(ctx, policy))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, policy)) })
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: objectMeta("", s.namespace), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name}}
	s.must(env.Client.Create(ctx, binding))
	s.await("the policy holds", holds)
	return func() { s.must(env.Client.Delete(ctx, binding)) }
}

// deny is refuse for what does not pass a validation.
func (s *scene) deny(validation admissionregistrationv1.Validation, operation admissionregistrationv1.OperationType, group, resource string, try func() error) (lift func()) {
	s.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: objectMeta("", s.namespace),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{operation},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{validation},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: objectMeta("", s.namespace),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	lift = sync.OnceFunc(func() {
		if err := errors.Join(env.Client.Delete(ctx, binding), env.Client.Delete(ctx, policy)); err != nil {
			s.Errorf("lift the policy: %v", err)
		}
	})
	s.must(env.Client.Create(ctx, policy))
	s.must(env.Client.Create(ctx, binding))
	s.Cleanup(lift)
	s.await("the policy holds", func() error {
		err := try()
		if err == nil {
			return errors.New("the operation would go through")
		}
		return says(err.Error(), []string{"ValidatingAdmissionPolicy '" + s.namespace})
	})
	return lift
}

// holdDeployments is hold for creations of Deployments.
func (s *scene) holdDeployments() (asked, letGo func()) {
	s.Helper()
	return s.hold(admissionregistrationv1.Create, "apps", "deployments", func(probe context.Context) error {
		return env.Client.Create(probe, probeDeployment(s.namespace), client.DryRunAll)
	})
}

// killWaiting kills an operator in the middle of a write that a webhook holds. It returns when the API server
// has given the write up, because otherwise that might still happen.
func (s *scene) killWaiting(operator *process) {
	s.Helper()
	for len(s.givenUp) > 0 {
		<-s.givenUp // a try
	}
	operator.Kill()
	s.receive("the API server gives up the write", s.givenUp) // when the webhook's time is over, at the latest
}

// receive waits for a message of a webhook.
func (s *scene) receive(what string, from <-chan struct{}) {
	s.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		s.Fatalf("waited %s: %s\n%s", patience, what, s.dump())
	}
}

// hold creates somebody else's webhook that does not answer an operation on a resource in the namespace of
// the test, until letGo is called. asked waits for a request that is held; try makes one, by a dry run.
func (s *scene) hold(operation admissionregistrationv1.OperationType, group, resource string, try func(context.Context) error) (asked, letGo func()) {
	s.Helper()
	waiting, probed, answer := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	s.webhook(operation, group, resource, func(request context.Context, asked *admissionv1.AdmissionRequest) (objection string) {
		told := waiting
		if !strings.HasPrefix(asked.UserInfo.Username, "system:serviceaccount:") { // as operators are
			told = probed
		}
		told <- struct{}{}
		select {
		case <-answer:
		case <-request.Done():
			s.givenUp <- struct{}{}
		}
		return ""
	})
	// Until the API server has heard of the webhook, it would let them pass.
	s.await("the webhook is asked", func() error {
		probe, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_ = try(probe)
		select {
		case <-probed:
			return nil
		default:
			return errors.New("it is not")
		}
	})
	return func() {
		s.Helper()
		s.receive("an operator asks for what is held", waiting)
	}, func() { close(answer) }
}

// webhook creates somebody else's webhook that is asked for its objection to an operation on a resource in
// the namespace of the test.
func (s *scene) webhook(operation admissionregistrationv1.OperationType, group, resource string, objection func(context.Context, *admissionv1.AdmissionRequest) string) {
	s.Helper()
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said := objection(r.Context(), review.Request)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: said == "", Result: &metav1.Status{Message: said}}
		_ = json.NewEncoder(w).Encode(review) // the API server has gone if this fails
	}))
	hook.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	hook.StartTLS()
	s.Cleanup(hook.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	s.webhookAt(admissionregistrationv1.WebhookClientConfig{URL: new(hook.URL), CABundle: certificate}, operation, group, resource)
}

// webhookAt registers a webhook at an address, until the test ends.
func (s *scene) webhookAt(there admissionregistrationv1.WebhookClientConfig, operation admissionregistrationv1.OperationType, group, resource string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	s.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: objectMeta("", s.namespace+"-"+strings.ReplaceAll(resource, "/", "-")),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "objects.example.com",
			ClientConfig:            there,
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{operation},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}},
		}},
	}
	s.must(env.Client.Create(ctx, configuration))
	s.Cleanup(func() { _ = env.Client.Delete(ctx, configuration) })
	return configuration
}

// holdStatuses holds writes of the status of the Welcome hello.
func (s *scene) holdStatuses() (asked, letGo func()) {
	s.Helper()
	return s.hold(admissionregistrationv1.Update, kit.Group, "welcomes/status", func(probe context.Context) error {
		return env.Client.Status().Update(probe, s.welcome("hello"), client.DryRunAll)
	})
}

// probeDeployment is a Deployment that the API server accepts, unless a policy or webhook objects.
func probeDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "probe"}
	return &appsv1.Deployment{ObjectMeta: objectMeta(namespace, "probe"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: image}}},
		},
	}}
}

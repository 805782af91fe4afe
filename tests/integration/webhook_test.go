package integration

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A webhook of somebody else that does not answer holds up the custom resource that it is asked about, and no other.
func TestHangingWebhook(t *testing.T) {
	s := newScene(t)
	s.operator()
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review) // the API server has gone if this fails
	}))
	hook.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	hook.StartTLS()
	t.Cleanup(hook.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: objectMeta("", s.namespace),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "hangs.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hook.URL), CABundle: certificate},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](30),
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	s.must(env.client.Create(ctx, configuration))
	t.Cleanup(func() { _ = env.client.Delete(ctx, configuration) })

	s.create(welcome("held"))
	<-asked
	other := &scene{T: t, namespace: s.newNamespace("free-"), operators: s.operators}
	for _, name := range []string{"one", "two", "three"} {
		other.create(welcome(name))
		other.awaitDeployed(name)
	}
	if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "held"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the webhook held up nothing: %v", err)
	}
	close(answer)
	s.awaitDeployed("held")
}

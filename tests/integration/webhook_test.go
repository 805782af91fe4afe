package integration

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// A webhook that does not answer holds up the custom resource that it is asked about, and no other.
func TestHangingWebhook(t *testing.T) {
	s := newScene(t)
	s.operator()
	asked, letGo := s.holdDeployments()
	s.create("held")
	asked()
	other := &scene{T: t, namespace: s.newNamespace("free-"), operators: s.operators}
	for _, name := range []string{"one", "two", "three"} {
		other.deploy(name)
	}
	if err := s.find(&appsv1.Deployment{}, "held"); !apierrors.IsNotFound(err) {
		t.Errorf("the webhook held up nothing: %v", err)
	}
	letGo()
	s.awaitDeployed("held")
}

// A webhook that is not there is told of in words that say what to do, whatever it is to be asked about. When
// it is taken away, all comes to order by itself.
func TestWebhookThatIsNotThere(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	failing := func(group, resource string, probe client.Object, parts ...string) (lift func()) {
		t.Helper()
		configuration := s.webhookAt(admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: s.namespace, Name: "gone"}},
			admissionregistrationv1.OperationAll, group, resource)
		s.await("the webhook is asked", func() error {
			once := probe.DeepCopyObject().(client.Object) // a dry run that succeeds writes into it what is refused the next time
			if err := env.Client.Create(ctx, once, client.DryRunAll); !apierrors.IsInternalError(err) {
				return fmt.Errorf("it is not: %w", err)
			}
			return nil
		})
		return func() {
			t.Helper()
			s.awaitReason("hello", "WebhookFailed", append(parts, `webhook "objects.example.com"`, `service "gone" not found`, "kubectl get validatingwebhookconfigurations")...)
			s.awaitCondition("hello", "Stalled", "False")
			s.must(env.Client.Delete(ctx, configuration))
		}
	}
	lift := failing("", "configmaps", &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}, "create release record sh.helm.release.v1.hello.v1: ")
	s.create("hello", kit.Greet("before"))
	lift()
	s.awaitDeployed("hello")
	s.must(s.hasRecords("hello", 1))

	lift = failing("apps", "deployments", probeDeployment(s.namespace), `patch Deployment "hello"`)
	s.edit("hello", kit.Greet("after"))
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")

	lift = failing("", "services", &corev1.Service{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}, `delete Service "hello"`)
	welcome := s.welcome("hello")
	s.must(env.Client.Delete(ctx, welcome))
	lift()
	s.awaitGone(welcome, "hello")
	s.must(s.hasRecords("hello", 0))
}

package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// foreignService is one that somebody else made.
func (s *scene) foreignService(namespace, name string) *corev1.Service {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: objectMeta(namespace, name),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "precious"}, Ports: []corev1.ServicePort{{Port: 1234}}},
	}
	s.must(env.Client.Create(ctx, service))
	return service
}

// unharmed fails if a foreign object is not what it was.
func (s *scene) unharmed(service *corev1.Service) {
	s.Helper()
	now := &corev1.Service{}
	s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(service), now))
	if now.UID != service.UID || now.ResourceVersion != service.ResourceVersion {
		s.Errorf("Service %s/%s was changed: %v", service.Namespace, service.Name, now)
	}
}

func TestForeignObjectInTheWay(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := s.foreignService(s.namespace, "hello")
	s.create("hello")
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "exists")
	s.unharmed(foreign)

	s.must(env.Client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&appsv1.Deployment{}, "hello")
}

// Whoever dresses an object up as Helm's does not give it to the operator.
func TestForeignObjectDressedUp(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := s.foreignService(s.namespace, "hello")
	foreign.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", kit.ManagedBy: "welcome-operator"}
	foreign.Annotations = map[string]string{"meta.helm.sh/release-name": "hello", "meta.helm.sh/release-namespace": s.namespace}
	s.must(env.Client.Update(ctx, foreign))
	cr := s.create("hello")
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.awaitCondition("hello", "Deployed", "False")
	s.unharmed(foreign)

	s.delete(cr)
	s.unharmed(foreign)
}

// An object may come into the way later: when an edit asks for one more, or in the place of one that was deleted.
func TestForeignObjectComesLater(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"), kit.Set("replicas", 0))
	s.pause()
	s.deleteService("hello")
	foreign := s.foreignService(s.namespace, "hello")
	s.edit("hello", kit.Pause(false))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.unharmed(foreign)

	s.must(env.Client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&corev1.Service{}, "hello")
}

// An object in the way of one repair is none in the way of the others.
func TestForeignObjectAndRepair(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.pause()
	s.deleteService("hello")
	foreign := s.foreignService(s.namespace, "hello")
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.edit("hello", kit.Pause(false))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.awaitGreeting("hello", "before")
	s.unharmed(foreign)
}

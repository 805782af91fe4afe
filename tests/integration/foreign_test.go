package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foreignService is one that somebody else made.
func (s *scene) foreignService(namespace, name string) *corev1.Service {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: objectMeta(namespace, name),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "precious"}, Ports: []corev1.ServicePort{{Port: 1234}}},
	}
	s.must(env.client.Create(ctx, service))
	return service
}

// unharmed fails if a foreign object is not what it was.
func (s *scene) unharmed(service *corev1.Service) {
	s.Helper()
	now := &corev1.Service{}
	s.must(env.client.Get(ctx, client.ObjectKeyFromObject(service), now))
	if now.UID != service.UID || now.ResourceVersion != service.ResourceVersion {
		s.Errorf("Service %s/%s was changed: %v", service.Namespace, service.Name, now)
	}
}

func TestForeignObjectInTheWay(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := s.foreignService(s.namespace, "hello")
	s.create(welcome("hello"))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "exists")
	s.unharmed(foreign)

	s.must(env.client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&appsv1.Deployment{}, "hello")
}

// Whoever dresses an object up as Helm's does not give it to the operator.
func TestForeignObjectDressedUp(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := s.foreignService(s.namespace, "hello")
	foreign.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", managedBy: "welcome-operator"}
	foreign.Annotations = map[string]string{"meta.helm.sh/release-name": "hello", "meta.helm.sh/release-namespace": s.namespace}
	s.must(env.client.Update(ctx, foreign))
	cr := s.create(welcome("hello"))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.awaitCondition("hello", "Deployed", "False")
	s.unharmed(foreign)

	s.must(env.client.Delete(ctx, cr))
	s.awaitGone(newWelcome(), "hello")
	s.unharmed(foreign)
}

// An object may come into the way later: when an edit asks for one more, or in the place of one that was deleted.
func TestForeignObjectComesLater(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create(welcome("hello").greeting("before").with("replicas", int64(0)))
	s.awaitDeployed("hello")
	s.pause()
	s.must(env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))
	foreign := s.foreignService(s.namespace, "hello")
	s.edit("hello", func(w *fixture) { w.annotate(paused, "false") })
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.unharmed(foreign)

	s.must(env.client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&corev1.Service{}, "hello")
}

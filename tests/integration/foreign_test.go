package integration

import (
	"context"
	"reflect"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// foreignService creates a Service of somebody else.
func (s *scene) foreignService(namespace, name string) *corev1.Service {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: objectMeta(namespace, name),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "precious"}, Ports: []corev1.ServicePort{{Port: 1234}}},
	}
	s.must(env.Client.Create(ctx, service))
	return service
}

// unharmed fails if somebody has written to an object since it was read, or made it anew.
func (s *scene) unharmed(object client.Object) {
	s.Helper()
	now := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(object), now))
	if now.GetUID() != object.GetUID() || now.GetResourceVersion() != object.GetResourceVersion() {
		s.Errorf("%T %s was changed: %+v", object, client.ObjectKeyFromObject(object), now)
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

// A hook that has the name of somebody else's object is told as any other object is, at an installation as at
// an upgrade. What of the last release is deleted then is told, too.
func TestForeignObjectInTheWayOfAHook(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Values.name }}, annotations: {helm.sh/hook: "pre-install,pre-upgrade", meta.helm.sh/release-name: {{ .Values.name }}}}`)})
	for i, name := range []string{"installed", "upgraded"} {
		foreign := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, name)}
		s.must(env.Client.Create(ctx, foreign))
		if i == 0 {
			s.create("hello", kit.Greet(name))
		} else {
			s.edit("hello", kit.Greet(name))
		}
		s.awaitReason("hello", "ObjectInTheWay", `ConfigMap "`+name+`"`, "delete or rename one of the two")
		s.awaitCondition("hello", "Stalled", "True")
		s.unharmed(foreign)
		if i == 0 {
			s.must(env.Client.Delete(ctx, foreign))
			s.awaitDeployed("hello")
			hook := &corev1.ConfigMap{}
			if s.get(hook, name); hook.Annotations["meta.helm.sh/release-name"] != "hello" {
				t.Errorf("what the operator writes itself is the chart's: %v", hook.Annotations)
			}
		}
	}
	s.delete(s.welcome("hello"))
	s.awaitEvent("hello", "Uninstalled", "Deleted: ", "Service hello", "Deployment hello")
}

// foreignDeployment creates a Deployment of somebody else with the name of the Welcome hello, whose own
// Deployment is created after its other objects.
func (s *scene) foreignDeployment() *appsv1.Deployment {
	s.Helper()
	foreign := probeDeployment(s.namespace)
	foreign.Name = "hello"
	s.must(env.Client.Create(ctx, foreign))
	return foreign
}

// What is in the way is found when another object is made already. That goes again, once, and nothing of the
// attempt is left.
func TestForeignObjectInTheWayOfTheLast(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	foreign, from := s.foreignDeployment(), s.record()
	s.create("hello")
	s.awaitCondition("hello", "Ready", "False", `Deployment "hello"`, "exists")
	s.awaitCondition("hello", "Deployed", "False")
	s.must(s.isGone(&corev1.Service{}, "hello"))
	s.must(s.hasRecords("hello", 0))
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t), 4) })
	made := 0
	for _, request := range from.of(operator) {
		if request.Verb == "create" && request.ObjectRef.Resource == "services" {
			made++
		}
	}
	if made > 1 {
		t.Errorf("the Service is made anew at each of %d attempts", made)
	}
	s.unharmed(foreign)

	s.must(env.Client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&corev1.Service{}, "hello")
	s.must(s.hasRecords("hello", 1))
}

// Killed between what is in the way and the removal of what was made before it, the operator has left an
// object of the Welcome: it is gone on from, or goes with the Welcome.
func TestKilledBeforeItIsTakenBack(t *testing.T) {
	for name, end := range map[string]func(s *scene, foreign *appsv1.Deployment){
		"the way is free": func(s *scene, foreign *appsv1.Deployment) {
			service := &corev1.Service{}
			s.get(service, "hello")
			s.must(env.Client.Delete(ctx, foreign))
			s.awaitDeployed("hello")
			now := &corev1.Service{}
			if s.get(now, "hello"); now.UID != service.UID {
				s.Error("the Service was made anew")
			}
		},
		"deleted": func(s *scene, _ *appsv1.Deployment) {
			s.delete(s.welcome("hello"))
			s.awaitGone(&corev1.Service{}, "hello")
			s.must(s.hasRecords("hello", 0))
			s.get(&appsv1.Deployment{}, "hello")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}}
			first := s.ownOperator(only)
			foreign, probe := s.foreignDeployment(), s.foreignService(s.namespace, "probe")
			asked, letGo := s.hold(admissionregistrationv1.Delete, "", "services", func(ctx context.Context) error { return env.Client.Delete(ctx, probe, client.DryRunAll) })
			s.create("hello")
			asked()
			s.killWaiting(first)
			letGo()

			s.ownOperator(only)
			s.awaitCondition("hello", "Ready", "False", `Deployment "hello"`, "exists")
			end(s, foreign)
		})
	}
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

// An object may come into the way later, in the place of one that was deleted. It is none in the way of the
// repair of others.
func TestForeignObjectComesLater(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"), kit.Set("replicas", 0))
	s.pause()
	s.deleteService("hello")
	foreign := s.foreignService(s.namespace, "hello")
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.edit("hello", kit.Pause(false))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource")
	s.awaitGreeting("hello", "before")
	s.unharmed(foreign)

	s.must(env.Client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
	s.get(&corev1.Service{}, "hello")
}

// To delete what is being deleted already, and kept by a finalizer, is of no use: who waits for that is told so.
func TestWhatIsInTheWayIsGoing(t *testing.T) {
	s := newScene(t)
	s.operator()
	cr := s.deploy("hello", kit.Set("replicas", 0))
	keep := func(object client.Object, finalizers string) {
		t.Helper()
		object.SetNamespace(s.namespace)
		object.SetName("hello")
		s.must(env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))))
	}
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	keep(deployment, `["example.com/theirs"]`)
	s.must(env.Client.Delete(ctx, deployment))
	s.awaitReason("hello", "Progressing", `Deployment "hello"`, "is being deleted", "example.com/theirs")
	keep(deployment, "null")

	s.bringUp("hello")
	keep(service, `["example.com/theirs"]`)
	s.must(env.Client.Delete(ctx, service)) // which changes no generation and no status of it
	s.awaitReason("hello", "Progressing", `Service "hello"`, "is being deleted", "example.com/theirs")
	s.delete(cr)
	s.create("hello", kit.Set("replicas", 0))
	s.awaitReason("hello", "ObjectInTheWay", `Service "hello"`, "is being deleted", "example.com/theirs")
	keep(service, "null")
	s.awaitDeployed("hello")
}

// Two that swap the names of their objects are in each other's way: whose an object is, is told.
func TestObjectOfAnotherInTheWay(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.name }}}")})
	s.deploy("one", kit.Greet("first"))
	s.deploy("two", kit.Greet("second"))
	s.edit("one", kit.Greet("second"))
	s.awaitReason("one", "ObjectInTheWay", `ConfigMap "second"`, `by Welcome "two"`)
	s.edit("two", kit.Greet("first"))
	s.awaitReason("two", "ObjectInTheWay", `ConfigMap "first"`, `by Welcome "one"`)
	s.delete(s.welcome("one"))
	s.awaitDeployed("two")
}

// An owner reference to the Welcome that somebody has written by hand makes an object none of the release. What it lacks
// is told, and is enough.
func TestObjectInTheWayLacksController(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := s.foreignService(s.namespace, "hello")
	welcome := s.create("hello")
	s.awaitReason("hello", "ObjectInTheWay", `Service "hello"`, "delete or rename")
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: welcome.GetAPIVersion(), Kind: welcome.GetKind(), Name: "hello", UID: welcome.GetUID()}}
	s.must(env.Client.Update(ctx, foreign))
	const marks = "mark it, and it is taken over: "
	s.awaitReason("hello", "ObjectInTheWay", `Service "hello"`, "lacks controller: true", marks)
	s.unharmed(foreign)
	ready, err := s.condition("hello", "Ready")
	s.must(err)
	_, missing, _ := strings.Cut(ready.Message, marks)
	foreign.Labels, foreign.Annotations = map[string]string{}, map[string]string{}
	for _, mark := range strings.Split(missing, ", ") {
		sort, mark, _ := strings.Cut(mark, " ")
		key, value, _ := strings.Cut(mark, "=")
		map[string]map[string]string{"label": foreign.Labels, "annotation": foreign.Annotations}[sort][key] = value
	}
	s.must(env.Client.Update(ctx, foreign))
	s.bringUp("hello")
	now := &corev1.Service{}
	if s.get(now, "hello"); now.UID != foreign.UID || len(now.OwnerReferences) != 1 || !metav1.IsControlledBy(now, welcome) {
		t.Errorf("it is not taken over: %v", now)
	}
}

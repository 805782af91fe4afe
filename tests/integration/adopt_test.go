package integration

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	adoptFor = kit.Group + "/adopt-for"
	adopts   = "  allow: {adopt: true}\n"
)

// adopter returns an operator whose Welcomes may take over what is given to them.
func (s *scene) adopter(more string) *process {
	s.Helper()
	return s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: watchesWith(adopts + more)})
}

// installByHelm installs the chart with helm as a plain release, and returns its Deployment and Service.
func (s *scene) installByHelm(name string) (*appsv1.Deployment, *corev1.Service) {
	s.Helper()
	s.helmInstall(name, "--set=name=helm,service.type=LoadBalancer")
	objects := s.objectsOf(name)
	return objects[0].(*appsv1.Deployment), objects[1].(*corev1.Service)
}

// give annotates an object, as its author can, as given to a custom resource of the namespace.
func (s *scene) give(object client.Object, to string) {
	s.Helper()
	if !strings.Contains(to, "/") {
		to = "Welcome." + kit.Group + "/" + s.namespace + "/" + to
	}
	s.must(env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, adoptFor, to))))
}

// selected are the labels of the pods of a Welcome.
func selected(name string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "welcome", "app.kubernetes.io/instance": name, "welcome": name}
}

// nobodys is nil if an object is as before, without an owner, and given to "hello" again.
func (s *scene) nobodys(object client.Object) error {
	uid := object.GetUID()
	if err := s.find(object, "hello"); err != nil {
		return err
	}
	if object.GetUID() != uid || len(object.GetOwnerReferences()) > 0 || object.GetLabels()[kit.ManagedBy] != "" || object.GetDeletionTimestamp() != nil ||
		object.GetAnnotations()[adoptFor] != "Welcome."+kit.Group+"/"+s.namespace+"/hello" {
		return fmt.Errorf("%T is %+v", object, object)
	}
	return nil
}

// What helm install has made goes on under a Welcome as it is, if it is given to that: nothing is made anew,
// and no pod restarts.
func TestAdopt(t *testing.T) {
	s := newScene(t)
	operator := s.adopter("")
	deployment, service := s.installByHelm("hello")
	s.give(deployment, "hello")
	cr := s.create("hello", kit.Greet("helm"))
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource", "kubectl welcome adopt", "it has no annotation "+adoptFor)
	s.unharmed(deployment) // where one object may not be taken, no other one is
	s.must(s.hasRecords("hello", 0))
	s.give(service, "hello")
	s.awaitDeployed("hello")
	s.awaitEvent("hello", "Installed", "taken over: Service hello, Deployment hello")
	for _, before := range []client.Object{deployment, service} {
		now := before.DeepCopyObject().(client.Object)
		s.get(now, "hello")
		if now.GetUID() != before.GetUID() || !metav1.IsControlledBy(now, cr) || now.GetLabels()[kit.ManagedBy] == "" || now.GetAnnotations()[adoptFor] != "" {
			t.Errorf("%T became %+v", before, now)
		}
	}
	now := &appsv1.Deployment{}
	s.get(now, "hello")
	if !reflect.DeepEqual(now.Spec, deployment.Spec) { // its generation counts annotations, too
		t.Errorf("it is another one: %v", now.Spec)
	}
	s.settled(operator)
	s.edit("hello", kit.Greet("operators"))
	s.awaitGreeting("hello", "operators")

	s.delete(cr) // it is theirs now
	s.awaitGone(deployment, "hello")
	s.awaitGone(service, "hello")
}

// Of a release with another name, too, where the chart makes the same of it. Its chart may not give anything
// to itself, nor is what it says a drift.
func TestAdoptFromAReleaseOfAnotherName(t *testing.T) {
	s := newScene(t)
	s.serveKind("Adopter")
	chart := chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: shop, version: 0.1.0}",
		"templates/config.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: shop, annotations: {` + adoptFor + `: "Adopter.` + kindsGroup + `/{{ .Release.Namespace }}/hello"}}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-kept, annotations: {helm.sh/resource-policy: keep}}
data: {a: b}
`,
	})
	_, err := s.helmCommand("install", "old", chart)
	s.must(err)
	given, kept := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	s.get(given, "shop")
	s.get(kept, "shop-kept")
	s.give(kept, "Adopter."+kindsGroup+"/"+s.namespace+"/hello")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Adopter", chart, adopts)})
	cr := s.createOf("Adopter", "hello")
	s.awaitOf("Adopter", "hello", "Ready")
	s.settled(operator)
	for _, before := range []*corev1.ConfigMap{given, kept} {
		now := &corev1.ConfigMap{}
		s.get(now, before.Name)
		if _, still := now.Annotations[adoptFor]; still || now.UID != before.UID || metav1.IsControlledBy(now, cr) != (before == given) || now.Annotations["meta.helm.sh/release-name"] != "hello" {
			t.Errorf("%s became %+v", before.Name, now.ObjectMeta)
		}
	}
	s.await("the status proves what is kept", func() error {
		listed, _, _ := unstructured.NestedSlice(s.of("Adopter", "hello").Object, "status", "release", "unowned")
		return says(fmt.Sprint(listed), []string{string(kept.UID)})
	})
}

// Who may write Welcomes takes nothing that is not given to just that one, and nothing is deleted to be made anew.
func TestAdoptRefuses(t *testing.T) {
	s := newScene(t)
	s.adopter("  recreate: [Deployment.apps, Service]\n")
	recipient := func(kind, namespace, name string) string {
		return kind + "." + kit.Group + "/" + namespace + "/" + name
	}
	cases := map[string]struct {
		change func(*appsv1.Deployment, *corev1.Service)
		says   string
	}{
		"service-not-given": {func(_ *appsv1.Deployment, v *corev1.Service) { v.Annotations = nil }, "it has no annotation " + adoptFor},
		"another-resource": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.Annotations[adoptFor] = recipient("Welcome", s.namespace, "other")
		}, "names Welcome"},
		"another-kind": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.Annotations[adoptFor] = recipient("Farewell", s.namespace, d.Name)
		}, "names Farewell"},
		"another-group": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.Annotations[adoptFor] = "Welcome.example.com/" + s.namespace + "/" + d.Name
		}, "names Welcome.example.com"},
		"another-namespace": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.Annotations[adoptFor] = recipient("Welcome", "other", d.Name)
		}, "names Welcome"},
		"owned": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"}}
		}, "it is owned by ConfigMap theirs"},
		"deployment-selector": {func(d *appsv1.Deployment, _ *corev1.Service) {
			d.Spec.Selector.MatchLabels["a"], d.Spec.Template.Labels["a"] = "b", "b"
		}, "its selector is not that of the chart"},
		"service-selector": {func(_ *appsv1.Deployment, v *corev1.Service) { v.Spec.Selector["a"] = "b" }, "its selector is not that of the chart"},
		"other-field":      {func(_ *appsv1.Deployment, v *corev1.Service) { v.Spec.ClusterIP = corev1.ClusterIPNone }, "cannot be changed"},
		"leaving":          {func(d *appsv1.Deployment, _ *corev1.Service) { d.Finalizers = []string{"example.com/test"} }, "it is being deleted"},
	}
	foreign := map[string][]client.Object{}
	for name, c := range cases {
		meta := objectMeta(s.namespace, name)
		meta.Annotations = map[string]string{adoptFor: recipient("Welcome", s.namespace, name)}
		deployment := &appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selected(name)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected(name)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "welcome", Image: "theirs"}}}},
		}}
		service := &corev1.Service{ObjectMeta: *meta.DeepCopy(), Spec: corev1.ServiceSpec{Selector: selected(name), Ports: []corev1.ServicePort{{Name: "theirs", Port: 1234}}}}
		c.change(deployment, service)
		foreign[name] = []client.Object{deployment, service}
		for _, object := range foreign[name] {
			s.must(env.Client.Create(ctx, object))
		}
		if deployment.Finalizers != nil {
			s.must(env.Client.Delete(ctx, deployment))
			s.get(deployment, name)
			s.Cleanup(func() {
				s.must(env.Client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			})
		}
		s.create(name)
	}
	for name, c := range cases {
		s.awaitCondition(name, "Irreconcilable", "True", `"`+name+`"`, c.says)
		for _, before := range foreign[name] {
			now := before.DeepCopyObject().(client.Object)
			if s.get(now, name); now.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("%s: %T was changed: %+v", name, now, now)
			}
		}
		if err := s.hasRecords(name, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without allow.adopt, an annotation gives nothing away, and the Welcome says what is missing.
func TestAdoptThatIsNotAllowed(t *testing.T) {
	s := newScene(t)
	s.operator()
	deployment, service := s.installByHelm("hello")
	s.give(deployment, "hello")
	s.give(service, "hello")
	s.create("hello")
	s.awaitCondition("hello", "Irreconcilable", "True", `Service "hello"`, "not controlled by this custom resource", "allow: {adopt: true}")
	s.unharmed(service)
	s.must(s.nobodys(deployment))
}

// What was taken over for an installation or an upgrade of which nothing comes is never deleted: it is given
// back. If that is tried again, by another operator after a crash even, it goes on.
func TestAdoptOfWhichNothingComes(t *testing.T) {
	s := newScene(t)
	operator := s.adopter("")
	deployment, service := s.installByHelm("hello")
	s.must(env.Client.Delete(ctx, deployment))
	s.awaitGone(deployment, "hello")
	s.give(service, "hello")
	creation := func() error { return env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll) }
	lift := s.refuse(admissionregistrationv1.Create, "apps", "deployments", "not today", creation)
	cr := s.create("hello")
	s.awaitCondition("hello", "Irreconcilable", "True", "not today")
	s.await("the Service is taken over", func() error {
		if s.get(service, "hello"); !metav1.IsControlledBy(service, cr) {
			return errors.New("it is not")
		}
		return nil
	})
	s.delete(cr)
	s.must(s.nobodys(service))

	s.create("hello")
	s.awaitCondition("hello", "Irreconcilable", "True", "not today")
	operator.Kill()
	lift()
	s.await("Deployments may be made", creation)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.namespace, watches: watchesWith(adopts)})
	s.awaitDeployed("hello")
	uid := service.UID
	if s.get(service, "hello"); service.UID != uid || !metav1.IsControlledBy(service, s.welcome("hello")) {
		t.Errorf("the Service became %v", service.ObjectMeta)
	}

	policy := &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selected("hello")}}}
	s.must(env.Client.Create(ctx, policy))
	s.give(policy, "hello")
	lift = s.refuse(admissionregistrationv1.Create, "policy", "poddisruptionbudgets", "nor tomorrow", func() error {
		return env.Client.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
	})
	s.edit("hello", kit.Set("networkPolicy.enabled", true), kit.Set("podDisruptionBudget.enabled", true), kit.Set("podDisruptionBudget.maxUnavailable", 1))
	s.awaitCondition("hello", "Irreconcilable", "True", "nor tomorrow")
	s.await("the NetworkPolicy is given back", func() error { return s.nobodys(policy) })
	lift()
	s.awaitDeployed("hello")
	uid = policy.UID
	if s.get(policy, "hello"); policy.UID != uid || !metav1.IsControlledBy(policy, s.welcome("hello")) {
		t.Errorf("the NetworkPolicy became %v", policy.ObjectMeta)
	}

	s.delete(s.welcome("hello"))
	s.awaitGone(policy, "hello")
	s.awaitGone(service, "hello")
}

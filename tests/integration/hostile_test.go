package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/hostile"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// childKinds are the kinds of objects that a Welcome can become, and of those that it must not.
var childKinds = []*unstructured.UnstructuredList{
	kit.List("apps/v1", "Deployment"), kit.List("v1", "Service"), kit.List("networking.k8s.io/v1", "Ingress"), kit.List("networking.k8s.io/v1", "NetworkPolicy"),
	kit.List("autoscaling/v2", "HorizontalPodAutoscaler"), kit.List("policy/v1", "PodDisruptionBudget"),
	kit.List("v1", "Secret"), kit.List("v1", "Pod"), kit.List("batch/v1", "Job"), kit.List("rbac.authorization.k8s.io/v1", "RoleBinding"),
}

// Every hostile Welcome is refused with a message that helps, or becomes what every other becomes.
func TestHostileWelcomes(t *testing.T) {
	s := newScene(t)
	s.operator()
	accepted, welcomes := map[string]*scene{}, map[string]*unstructured.Unstructured{}
	for _, c := range hostile.Cases {
		t.Run(c.Name, func(t *testing.T) {
			object, err := c.Object()
			s.must(err)
			own := &scene{T: t, namespace: s.namespace, operators: s.operators}
			if c.Refused == "" {
				own.namespace = s.newNamespace("hostile-")
			}
			object.SetNamespace(own.namespace)
			err = env.Client.Create(ctx, object)
			switch {
			case c.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.Refused == "":
				accepted[c.Name], welcomes[c.Name] = own, object
			case err == nil:
				t.Errorf("accepted; must be refused with %q", c.Refused)
			case !strings.Contains(err.Error(), c.Refused):
				t.Errorf("refused with %.500q; must say %q", err, c.Refused)
			}
		})
	}
	for name, own := range accepted {
		t.Run("deployed: "+name, func(t *testing.T) {
			own.T = t
			own.awaitDeployed(welcomes[name].GetName())
			stored := own.welcome(welcomes[name].GetName())
			var objects []*unstructured.Unstructured
			for _, kind := range childKinds {
				list := kind.DeepCopy()
				own.must(env.Client.List(ctx, list, client.InNamespace(own.namespace)))
				for i := range list.Items {
					objects = append(objects, &list.Items[i])
				}
			}
			for _, harm := range hostile.Harm(stored, objects, image) {
				t.Error(harm)
			}
			own.must(env.Client.Delete(ctx, stored))
		})
	}
	for name, own := range accepted {
		own.T = t
		own.awaitGone(welcomes[name], welcomes[name].GetName())
	}
	t.Logf("%d refused, %d deployed", len(hostile.Cases)-len(accepted), len(accepted))
}

// Numbers whose digits nobody can write down take neither the operator's time nor its memory: in a spec they
// are refused, and in an object of a tenant's not added up.
func TestEndlessNumbers(t *testing.T) {
	s := newScene(t)
	with, profiles := s.profiled(settings{namespaces: []string{s.namespace}})
	operator := s.ownOperator(with)
	cr := s.deploy("hello")
	before := s.held(operator, profiles)
	s.create("endless", kit.Greet("1e-300000000"))
	s.awaitCondition("endless", "Ready", "False", "1e-300000000 is not a valid number. Correct the spec.")
	requesting := func(name, request string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request), corev1.ResourceMemory: resource.MustParse(request)},
		}}
	}
	for i := range 20 {
		theirs := probeDeployment(s.namespace)
		theirs.Name = fmt.Sprintf("theirs-%d", i)
		theirs.Labels = map[string]string{"webapp.demo.welcome.domain/managed-by": "welcome-operator"}
		theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cr, cr.GroupVersionKind())}
		theirs.Spec.Template.Spec.Containers = []corev1.Container{requesting("a", "1e3000000"), requesting("b", "1")}
		s.must(env.Client.Create(ctx, theirs))
	}
	s.deploy("other")
	s.takesNoMemory(operator, profiles, before, 50, "numbers that nobody can write down")
}

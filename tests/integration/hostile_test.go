package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/hostile"
)

// childKinds are all kinds that a Welcome can become, and those that it must not.
var childKinds = []*unstructured.UnstructuredList{
	listOf("apps/v1", "Deployment"), listOf("v1", "Service"), listOf("networking.k8s.io/v1", "Ingress"), listOf("networking.k8s.io/v1", "NetworkPolicy"),
	listOf("autoscaling/v2", "HorizontalPodAutoscaler"), listOf("policy/v1", "PodDisruptionBudget"),
	listOf("v1", "Secret"), listOf("v1", "Pod"), listOf("batch/v1", "Job"), listOf("rbac.authorization.k8s.io/v1", "RoleBinding"),
}

// Every hostile Welcome is refused with a message that helps, or becomes what every other becomes.
func TestHostileWelcomes(t *testing.T) {
	s := newScene(t)
	s.operator()
	accepted := map[string]*scene{}
	names := map[string]string{}
	for _, c := range hostile.Cases {
		t.Run(c.Name, func(t *testing.T) {
			object, err := c.Object()
			s.must(err)
			own := &scene{T: t, namespace: s.namespace, operators: s.operators}
			if c.Refused == "" {
				own.namespace = s.newNamespace("hostile-")
			}
			object.SetNamespace(own.namespace)
			err = env.client.Create(ctx, object)
			switch {
			case c.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.Refused == "":
				accepted[c.Name], names[c.Name] = own, object.GetName()
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
			own.awaitDeployed(names[name])
			stored := own.welcome(names[name])
			var objects []*unstructured.Unstructured
			for _, kind := range childKinds {
				list := kind.DeepCopy()
				own.must(env.client.List(ctx, list, client.InNamespace(own.namespace)))
				for i := range list.Items {
					objects = append(objects, &list.Items[i])
				}
			}
			for _, harm := range hostile.Harm(stored, objects, image) {
				t.Error(harm)
			}
			own.must(env.client.Delete(ctx, stored))
		})
	}
	for name, own := range accepted {
		own.T = t
		own.awaitGone(newWelcome(), names[name])
	}
	t.Logf("%d refused, %d deployed", len(hostile.Cases)-len(accepted), len(accepted))
}

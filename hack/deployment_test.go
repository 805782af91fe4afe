package hack

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// deployed is the one object of a kind in what make deploy applies, with variables of the environment.
func deployed[T any](t *testing.T, kind string, variables ...string) T {
	t.Helper()
	out, err := deployment(variables...)
	if err != nil {
		t.Fatalf("%v (make bin/kustomize)\n%s", err, out)
	}
	found := objects[T](t, out, kind)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return found[0]
}

// objects are those of a kind in a text.
func objects[T any](t *testing.T, out, kind string) []T {
	t.Helper()
	var found []T
	for document := range strings.SplitSeq(out, "\n---\n") {
		var header struct{ Kind string }
		var object T
		if err := yaml.Unmarshal([]byte(document), &header); err != nil {
			t.Fatal(err)
		}
		if header.Kind != kind {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		found = append(found, object)
	}
	return found
}

func deployment(variables ...string) (string, error) {
	cmd := exec.Command("./deployment.sh", "example.com/operator:v1", "example.com/page:v1")
	cmd.Env = append(cmd.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Kustomize gives the ServiceAccount its name and namespace, and does not know that the policy is about it.
func TestDeployedPolicyIsAboutTheOperator(t *testing.T) {
	account := deployed[corev1.ServiceAccount](t, "ServiceAccount")
	policy := deployed[admissionregistrationv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy")
	binding := deployed[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, "ValidatingAdmissionPolicyBinding")
	if want := fmt.Sprintf(`"system:serviceaccount:%s:%s:"`, account.Namespace, account.Name); !strings.HasPrefix(policy.Spec.MatchConditions[0].Expression, want) {
		t.Errorf("it is about %s, not about %s", policy.Spec.MatchConditions[0].Expression, want)
	}
	if binding.Spec.PolicyName != policy.Name || policy.Namespace != "" || binding.Namespace != "" {
		t.Errorf("the binding %s/%s is about %q, the policy is %s/%s", binding.Namespace, binding.Name, binding.Spec.PolicyName, policy.Namespace, policy.Name)
	}
}

func TestPortOfTheAPIServer(t *testing.T) {
	for setting, want := range map[string][]int{"": {443, 6443}, "16443": {443, 6443, 16443}} {
		policy := deployed[networkingv1.NetworkPolicy](t, "NetworkPolicy", "API_SERVER_PORT="+setting)
		var ports []int
		for _, port := range policy.Spec.Egress[0].Ports {
			ports = append(ports, port.Port.IntValue())
		}
		if !slices.Equal(ports, want) {
			t.Errorf("API_SERVER_PORT=%s: the operator reaches %v, not %v", setting, ports, want)
		}
	}
	if out, err := deployment("API_SERVER_PORT=https"); err == nil || !strings.Contains(out, "API_SERVER_PORT is https, which is no number") {
		t.Errorf("%v: %s", err, out)
	}
}

// Who has only install.yaml is told a policy of their own, which is about the operator's pods, too.
func TestPortOfTheAPIServerOfARelease(t *testing.T) {
	text, err := os.ReadFile("../docs/release.md")
	if err != nil {
		t.Fatal(err)
	}
	_, applied, _ := strings.Cut(string(text), "<<'YAML'\n")
	applied, _, _ = strings.Cut(applied, "\nYAML\n")
	told := objects[networkingv1.NetworkPolicy](t, applied, "NetworkPolicy")
	policy := deployed[networkingv1.NetworkPolicy](t, "NetworkPolicy")
	if len(told) != 1 || told[0].Namespace != policy.Namespace || told[0].Name == policy.Name || !reflect.DeepEqual(told[0].Spec.PodSelector, policy.Spec.PodSelector) || told[0].Spec.Egress[0].Ports[0].Port.IntValue() != 16443 {
		t.Errorf("docs/release.md has %+v, and the operator %+v", told, policy)
	}
}

// What stands behind the last colon of an image is its tag, or the port of its registry.
func TestImagesOfARegistryWithAPort(t *testing.T) {
	deploy := func(image string) (string, error) {
		out, err := exec.Command("./deployment.sh", image, "example.com/page:v1").CombinedOutput()
		return string(out), err
	}
	for _, image := range []string{"localhost:5000/operator:v1", "localhost:5000/operator@sha256:" + strings.Repeat("0", 64)} {
		out, err := deploy(image)
		if err != nil {
			t.Fatalf("%v (make bin/kustomize)\n%s", err, out)
		}
		if got := objects[appsv1.Deployment](t, out, "Deployment")[0].Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("%s is deployed as %s", image, got)
		}
	}
	for _, image := range []string{"localhost:5000/operator", "example.com/operator"} {
		if out, err := deploy(image); err == nil || !strings.Contains(out, image+" has no tag: name one") {
			t.Errorf("%s: %v: %s", image, err, out)
		}
	}
}

// The shards have the images that they are deployed with, a budget of their own each, pods that no other
// Deployment selects, and the right to publish.
func TestShardsAreDeployed(t *testing.T) {
	out, err := exec.Command("./deployment.sh", "example.com/operator:v1", "example.com/page:v1", "config/shards").CombinedOutput()
	if err != nil {
		t.Fatalf("%v (make bin/kustomize)\n%s", err, out)
	}
	deployments, budgets := objects[appsv1.Deployment](t, string(out), "Deployment"), objects[policyv1.PodDisruptionBudget](t, string(out), "PodDisruptionBudget")
	if len(deployments) != 2 || len(budgets) != 2 {
		t.Fatalf("%d Deployments, %d PodDisruptionBudgets", len(deployments), len(budgets))
	}
	published := objects[rbacv1.Role](t, string(out), "Role")[0].Rules[2].ResourceNames
	for i, deployment := range deployments {
		container := deployment.Spec.Template.Spec.Containers[0]
		page := slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool {
			return v.Name == "RELATED_IMAGE_WELCOME" && v.Value == "example.com/page:v1"
		})
		if container.Image != "example.com/operator:v1" || !page {
			t.Errorf("%s has image %s and the variables %v", deployment.Name, container.Image, container.Env)
		}
		for j := range deployments {
			pods := labels.Set(deployments[j].Spec.Template.Labels)
			if own := i == j; labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).Matches(pods) != own || labels.SelectorFromSet(budgets[i].Spec.Selector.MatchLabels).Matches(pods) != own {
				t.Errorf("%s, or its budget, has the pods of %s: %v", deployment.Name, deployments[j].Name, !own)
			}
		}
		_, shard, _ := strings.Cut(strings.Join(container.Args, " "), "--shard=")
		shard, _, _ = strings.Cut(shard, " ")
		if lease := "welcome-operator.webapp.demo.welcome.domain-" + shard; shard == "" || !slices.Contains(published, lease) {
			t.Errorf("%s may not publish %s, but %v", deployment.Name, lease, published)
		}
	}
}

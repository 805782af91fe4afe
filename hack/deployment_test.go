package hack

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// deployed is the one object of a kind in what make deploy applies, with variables of the environment.
func deployed[T any](t *testing.T, kind string, variables ...string) T {
	t.Helper()
	out, err := deployment(variables...)
	if err != nil {
		t.Fatalf("%v (make bin/kustomize)\n%s", err, out)
	}
	var found []T
	for _, document := range strings.Split(out, "\n---\n") {
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
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return found[0]
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

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestOperatorHasNoRightOnSecrets(t *testing.T) {
	needsCluster(t, "the right to ask in the name of others")
	s := newScene(t)
	as := fmt.Sprintf("--as=system:serviceaccount:%s:%s", operatorNamespace, operatorName)
	for _, namespace := range []string{s.namespace, operatorNamespace, "default", "kube-system"} {
		rights := s.kubectl("--namespace="+namespace, "auth", "can-i", "--list", as)
		var resources []string
		for _, right := range lines(rights)[1:] {
			if right[0] != ' ' { // a right on a URL, not on a resource
				resources = append(resources, strings.Fields(right)[0])
			}
		}
		if !slices.Contains(resources, "configmaps") {
			t.Errorf("in %s, the operator may not keep release records:\n%s", namespace, rights)
		}
		for _, resource := range resources {
			if strings.HasPrefix(resource, "secrets") || strings.HasPrefix(resource, "*") {
				t.Errorf("in %s, the operator has a right on %s:\n%s", namespace, resource, rights)
			}
		}
	}
}

func TestPodsAreRestricted(t *testing.T) {
	needsCluster(t, "namespaces with a pod security standard")
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")

	for _, namespace := range []string{s.namespace, operatorNamespace} {
		if level := s.kubectl("get", "namespace", namespace, `--output=jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`); level != "restricted" {
			t.Errorf("namespace %s enforces the pod security standard %q", namespace, level)
		}
		roots := s.kubectl("--namespace="+namespace, "get", "pods", "--field-selector=status.phase=Running",
			"--output=jsonpath={.items[*].spec.containers[*].securityContext.readOnlyRootFilesystem}")
		if len(roots) == 0 || strings.ReplaceAll(roots, "true", "") != strings.Repeat(" ", strings.Count(roots, " ")) {
			t.Errorf("read-only root file systems of the containers in %s: %q", namespace, roots)
		}
	}
	// The namespace enforces the standard: the cluster refuses a pod that violates it.
	if out, err := s.tryKubectl("", "run", "root", "--image=example.com/root"); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a pod that may be root: %s %v", out, err)
	}
}

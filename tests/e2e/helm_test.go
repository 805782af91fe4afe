package e2e

import (
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// The chart can be installed by Helm, without the operator.
func TestHelmInstall(t *testing.T) {
	s := newScene(t)
	// The operator's image of the page is one that the cluster can pull.
	image := s.kubectl("--namespace="+operatorNamespace, "get", "deployment", operatorName,
		`--output=jsonpath={.spec.template.spec.containers[0].env[?(@.name=="RELATED_IMAGE_WELCOME")].value}`)
	notes := s.helm("install", "hello", kit.File("helm-charts/welcome"),
		"--set=name=helm,image="+image+",service.type=NodePort", "--wait", "--timeout="+patience.String())
	if !strings.Contains(notes, "/hello/") {
		t.Errorf("the notes don't say where the page is:\n%s", notes)
	}
	s.awaitPage(s.url("hello"), "Hello helm")
	s.helm("upgrade", "hello", kit.File("helm-charts/welcome"), "--reuse-values", "--set=name=world", "--wait")
	s.awaitPage(s.url("hello"), "Hello world")
	s.helm("uninstall", "hello", "--wait")
	if left := s.kubectl("get", "deployments,services", "--output=name"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func (s *scene) helm(args ...string) string {
	s.Helper()
	out, err := kit.Output(kit.Tool(s.Context(), "helm", append([]string{"--namespace=" + s.namespace}, args...)...))
	s.must(err)
	return out
}

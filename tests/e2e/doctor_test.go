package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// kubectl finds the plugin on PATH, and its doctor finds nothing wrong with the operator of make deploy.
func TestDoctor(t *testing.T) {
	needsCluster(t, "the rights of who is on call for the operator")
	s := newScene(t)
	s.welcome("hello")
	s.awaitReady("hello")
	dir := t.TempDir()
	s.must(kit.Build(filepath.Join(dir, "kubectl-welcome"), "cmd/kubectl-welcome"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	out, err := kubectl("", "welcome", "doctor", "--namespace="+s.namespace)
	if err != nil { // something else may be wrong, for example a deletion of another test that has not ended
		out += err.Error()
	}
	for _, healthy := range []string{"OK       operator: " + operatorNamespace + "/" + operatorName, "OK       CRDs: ", "OK       rights: ", "OK       lease: " + operatorName + "-", "OK       admission: ", "OK       images: "} {
		if !strings.Contains(out, healthy) {
			t.Errorf("it does not say %q, but:\n%s", healthy, out)
		}
	}
}

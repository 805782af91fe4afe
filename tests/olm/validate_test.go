package olm

import (
	"encoding/json"
	"os"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestValidate has operator-sdk validate the repository's bundle with every suite that catalogs require, and then
// the architectures of the bundle with images by digest, which are in the registry.
func TestValidate(t *testing.T) {
	for _, suite := range []string{
		"suite=operatorframework", "name=good-practices", "name=capabilities", "name=categories",
		"name=operatorhubv2", "name=alpha-deprecated-apis",
	} {
		t.Run(suite, func(t *testing.T) {
			validate(t, kit.File("bundle"), "--select-optional", suite)
		})
	}
	t.Run("name=multiarch", func(t *testing.T) {
		t.Setenv("PATH", kit.File("tests", "olm", "podman")+":"+os.Getenv("PATH"))
		validate(t, bundleDir, "--select-optional", "name=multiarch", "--optional-values", "container-tools=podman")
	})
}

// validate also fails for a warning, with which operator-sdk itself succeeds.
func validate(t *testing.T, dir string, args ...string) {
	t.Helper()
	out := run(t, "operator-sdk", append([]string{"bundle", "validate", dir, "--output", "json-alpha1"}, args...)...)
	var result struct {
		Passed  bool
		Outputs []struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("operator-sdk bundle validate printed no JSON: %v\n%s", err, out)
	}
	t.Log(out)
	if !result.Passed || len(result.Outputs) > 0 {
		t.Errorf("operator-sdk bundle validate has something to say:\n%s", out)
	}
}

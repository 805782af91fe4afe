package olm

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestUnreachableRegistry checks that a make target that needs a registry fails at once, and says in its last line
// before make's own what it could not do.
func TestUnreachableRegistry(t *testing.T) {
	for _, test := range []struct{ target, dir, want string }{
		{"bundle-build bundle-push", "dist/olm", "cannot push 127.0.0.1:1/welcome-operator-bundle:v0.1.0"},
		{"catalog-build", "dist/olm", "127.0.0.1:1/welcome-operator-bundle:v0.1.0.*connection refused"},
		{"bundle", t.TempDir(), "cannot generate the bundle"},
	} {
		t.Run(test.target, func(t *testing.T) {
			args := append(strings.Fields(test.target), "--no-print-directory", "IMAGE_TAG_BASE=127.0.0.1:1/welcome-operator",
				"BUNDLE_DIR="+test.dir, "USE_IMAGE_DIGESTS=true", "VERSION=0.1.0", "CATALOG_TEMPLATE=tests/olm/template.yaml")
			cmd := exec.CommandContext(t.Context(), "make", args...)
			cmd.Dir = kit.Root()
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("make %s succeeded:\n%s", test.target, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if last := lines[max(0, len(lines)-2)]; !regexp.MustCompile(test.want).MatchString(last) {
				t.Errorf("make %s ended with %q, want %q\n%s", test.target, last, test.want, out)
			}
		})
	}
}

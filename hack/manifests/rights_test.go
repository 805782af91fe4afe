package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
)

// The right to Secrets is there if an entry asks for it, and goes with that.
func TestRightToSecrets(t *testing.T) {
	inCopy(t)
	watches, before := read(t, "watches.yaml"), read(t, "config/rbac/role.yaml")
	for _, c := range []struct{ watches, want string }{{watches + "  secrets: true\n", strings.Replace(before, "# Make services:\n", secretRule+"# Make services:\n", 1)}, {watches, before}} {
		write(t, "watches.yaml", c.watches)
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, read(t, "config/rbac/role.yaml")); diff != "" || strings.Contains(c.want, "secrets]") != (c.watches != watches) {
			t.Errorf("the role is (-want +got):\n%s", diff)
		}
	}
}

// The tests of a chart get rights where they may be run, and what they say of their pods is no field, but for a number.
func TestRightsOfTests(t *testing.T) {
	inCopy(t)
	created, err := chartutil.Create("created", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(created, "templates/tests/test-connection.yaml")
	write(t, test, read(t, test)+"\n  nodeName: {{ .Values.service.type | quote }}\n")
	if err := makeKind(wanted{chart: created, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	const crd = "config/crd/bases/example.com_goodbyes.yaml"
	if strings.Contains(read(t, "config/rbac/role.yaml"), "test-connection.yaml") || strings.Contains(read(t, crd), "service.type: ") {
		t.Errorf("tests count that may not be run:\n%s", read(t, "config/rbac/role.yaml"))
	}
	write(t, watchesFile, read(t, watchesFile)+"  tests: true\n")
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if role := read(t, "config/rbac/role.yaml"); !strings.Contains(role, "# - Goodbye: test-connection.yaml\n") || !strings.Contains(role, "pods") {
		t.Errorf("no right to make the test:\n%s", role)
	}
	if text := read(t, crd); !strings.Contains(text, "service.type: reaches its pods' spec.nodeName") || strings.Contains(text, "service.port: ") {
		t.Errorf("the fields are:\n%s", text)
	}
}

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

package guard

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"
)

// What is asked for in place of an object is called so that it meets what policies say of how names begin and end.
func TestProbeName(t *testing.T) {
	const uid = "79101148-03f3-4dff-8771-d51db4fcf358"
	long := strings.Repeat("x", 44)
	for _, c := range []struct{ namespace, name, want string }{
		{"a", "hello", "hello-79101148"},
		{"a", "hello-config", "hello-79101148-config"},
		{"", "a.hello-reader", "a.hello-79101148-reader"},
		{"a", "config", "config-79101148"},
		{"a", "phello-hello", "phello-hello-79101148"},
		{"a", long, "dry-run-" + uid},
		{"", long, long + "-79101148"},
	} {
		if got := probeName(&resource.Info{Namespace: c.namespace, Name: c.name}, "hello", uid); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

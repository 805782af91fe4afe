package release

import (
	"testing"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// What was deleted is named as far as it is known.
func TestDeleted(t *testing.T) {
	other := object.Child{APIVersion: "example.com/v1", Kind: "Widget", Name: "c"} // which was made in another version of its API
	before := other
	before.APIVersion = "example.com/v1beta1"
	a, b := object.Child{APIVersion: "v1", Kind: "Service", Name: "a"}, object.Child{APIVersion: "v1", Kind: "ConfigMap", Name: "b"}
	for want, c := range map[string]struct{ children, kept []object.Child }{
		"Deleted: Service a, ConfigMap b":                  {[]object.Child{a, b}, nil},
		"Deleted: Service a; kept: ConfigMap b":            {[]object.Child{a, b}, []object.Child{b}},
		"Kept: ConfigMap b":                                {[]object.Child{b}, []object.Child{b}},
		"Deleted: Service a; kept: Widget c":               {[]object.Child{a, before}, []object.Child{other}},
		"Deleted: what there was of it":                    {},
		"Deleted: what there was of it; kept: ConfigMap b": {nil, []object.Child{b}},
	} {
		if got := deleted(c.children, c.kept); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

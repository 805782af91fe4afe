package release

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// What a namesake has left is not forgotten when a custom resource is taken over from a stock operator, too.
func TestInheritedFromTwo(t *testing.T) {
	l, heir := newLedger(), object.Empty(schema.GroupVersionKind{})
	heir.SetUID("heir")
	kind := &Kind{clients: &Clients{ledger: l}}
	kind.Inherit(heir, "of a namesake")
	kind.Inherit(heir, "of a stock operator")
	if got, want := l.read("heir").inherited, []string{"of a namesake", "of a stock operator"}; !slices.Equal(got, want) {
		t.Errorf("it inherits %q, not %q", got, want)
	}
	if l.forget("heir"); len(l.read("heir").inherited) > 0 {
		t.Error("what it inherits is kept when it is gone")
	}
}

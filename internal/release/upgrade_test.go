package release

import (
	"context"
	"errors"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// empty is a cluster in which there is nothing.
type empty struct{ client.Reader }

func (empty) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// Each tenth attempt is in earnest where the API server may take an object only once another one is there: not while one
// cannot be changed, but once people have deleted that, and something else is refused.
func TestRehearses(t *testing.T) {
	blocked := &guard.Unchangeable{Err: errors.New("it cannot be changed"), Objects: []object.Child{{APIVersion: "v1", Kind: "ConfigMap", Name: "frozen"}}}
	for name, test := range map[string]struct {
		failures  []error // the last of which repeats
		rehearses bool
	}{
		"something else is refused":                               {[]error{errors.New("it needs another one")}, false},
		"one cannot be changed":                                   {[]error{blocked}, true},
		"that was deleted by hand, and something else is refused": {[]error{blocked, errors.New("it needs another one")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := kit.Welcome("test", "hello")
			kind := &Kind{clients: &Clients{ledger: newLedger(), cached: empty{}, live: empty{}}, schedule: &schedule{}, rollout: newRollout(Limits{}, func(bool) {})}
			a := &actionClient{Kind: kind, ctx: t.Context(), owner: owner, desired: desired{wanted: "inputs"}, current: &record.Record{Status: release.StatusFailed, Inputs: "inputs"}}
			for i := range 10 {
				if i > 0 && !a.rehearses() {
					t.Errorf("attempt %d is not rehearsed", i+1)
				}
				a.failed(test.failures[min(i, len(test.failures)-1)])
			}
			if a.rehearses() != test.rehearses {
				t.Errorf("after ten failures, it is rehearsed: %t", !test.rehearses)
			}
		})
	}
}

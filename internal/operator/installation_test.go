package operator

import "testing"

// Replicas and successors have the same name, other installations another one.
func TestOperatorName(t *testing.T) {
	name := func(options Options) string {
		t.Helper()
		name, err := options.operator()
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got := name(Options{LeaderElectionNamespace: "system", LeaderElectionID: "mine"}); got != "system/mine" {
		t.Errorf("got %q", got)
	}
	first, second := name(Options{LeaderElectionID: "mine"}), name(Options{LeaderElectionID: "mine"})
	if first != second || first == "system/mine" {
		t.Errorf("without a lease, it is %q and %q", first, second)
	}
}

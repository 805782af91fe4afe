package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// named is a custom resource with the same name and UID.
func named(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetName(name)
	object.SetUID(types.UID(name))
	return object
}

func TestRolloutAdmitsAFewAtATime(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2})
	for _, uid := range []string{"a", "b", "a"} {
		if wait := r.admit(named(uid)); wait != "" {
			t.Fatalf("%s has to wait: %s", uid, wait)
		}
	}
	if r.admit(named("c")) == "" {
		t.Fatal("a third one is let in while two are underway")
	}
	r.observe(named("a"), progressing)
	if r.admit(named("c")) == "" {
		t.Fatal("a third one is let in while two are progressing")
	}
	r.observe(named("a"), healthy)
	if wait := r.admit(named("c")); wait != "" {
		t.Fatalf("nobody follows a healthy one: %s", wait)
	}
}

func TestRolloutStopsAfterFailuresAndGoesOn(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2})
	r.admit(named("a"))
	r.admit(named("b"))
	r.observe(named("a"), broken)
	if wait := r.admit(named("c")); wait != "" {
		t.Fatalf("one failure of two stops the rollout: %s", wait)
	}
	r.observe(named("b"), broken)
	r.observe(named("c"), healthy)
	if wait := r.admit(named("d")); !strings.Contains(wait, "stopped") {
		t.Fatalf("two failures do not stop the rollout: %q", wait)
	}
	if wait := r.admit(named("a")); wait != "" {
		t.Fatalf("a broken one may not be repaired: %s", wait)
	}
	r.observe(named("a"), healthy)
	if wait := r.admit(named("d")); wait != "" {
		t.Fatalf("the rollout does not go on when the cause is gone: %s", wait)
	}
	r.leave(named("b"))
	if len(r.failed) != 0 {
		t.Fatal("a deleted one still counts as broken")
	}
}

func TestRolloutIgnoresWhatItDidNotAdmit(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1})
	r.observe(named("x"), broken)
	if wait := r.admit(named("a")); wait != "" {
		t.Fatalf("one that was broken before stops the rollout: %s", wait)
	}
}

func TestRolloutWakesWhoseTurnItIs(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1})
	r.admit(named("a"))
	for _, waiting := range []string{"b", "c"} {
		if r.admit(named(waiting)) == "" {
			t.Fatalf("%s does not wait", waiting)
		}
	}
	if next := r.observe(named("a"), progressing); len(next) != 0 {
		t.Fatalf("%v are woken while one is underway", next)
	}
	if next := r.observe(named("a"), broken); len(next) != 2 {
		t.Fatalf("%v are woken, not both, to say that the rollout has stopped", next)
	}
	if next := r.observe(named("a"), broken); len(next) != 0 {
		t.Fatalf("%v are woken although it is still stopped", next)
	}
	if next := r.observe(named("a"), healthy); len(next) != 2 {
		t.Fatalf("%v are woken, not both, to say that the rollout goes on", next)
	}
	r.admit(named("b"))
	if next := r.leave(named("b")); len(next) != 1 || next[0].Name != "c" {
		t.Fatalf("%v are woken, not the last one", next)
	}
}

// Only a release that was made from the custom resource as it is now waits for its turn.
func TestAdmitLetsEditsPass(t *testing.T) {
	for name, c := range map[string]struct {
		status map[string]any
		waits  bool
	}{
		"applied before the operator started":           {map[string]any{"observedGeneration": int64(2), "release": map[string]any{"generation": int64(2)}}, true},
		"edited, which failed or while it was paused":   {map[string]any{"observedGeneration": int64(2), "release": map[string]any{"generation": int64(1)}}, false},
		"edited, as far as this status can tell":        {map[string]any{"observedGeneration": int64(2), "release": map[string]any{}}, false},
		"never released, as far as the status can tell": {map[string]any{"observedGeneration": int64(2)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &unstructured.Unstructured{Object: map[string]any{"status": c.status}}
			owner.SetUID("waiting")
			owner.SetGeneration(2)
			client := &actionClient{
				Kind:    &Kind{clients: &Clients{ledger: newLedger()}, rollout: newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1})},
				owner:   owner,
				current: &record{status: release.StatusDeployed},
			}
			client.rollout.admit(named("another"))
			if waitFor := client.admit(); (waitFor != "") != c.waits {
				t.Errorf("it waits for %q", waitFor)
			}
		})
	}
}

package release

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestRolloutAdmitsAFewAtATime(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2})
	for _, uid := range []string{"a", "b", "a"} {
		if wait := r.admit(types.UID(uid)); wait != "" {
			t.Fatalf("%s has to wait: %s", uid, wait)
		}
	}
	if r.admit("c") == "" {
		t.Fatal("a third one is let in while two are underway")
	}
	r.observe("a", progressing)
	if r.admit("c") == "" {
		t.Fatal("a third one is let in while two are progressing")
	}
	r.observe("a", healthy)
	if wait := r.admit("c"); wait != "" {
		t.Fatalf("nobody follows a healthy one: %s", wait)
	}
}

func TestRolloutStopsAfterFailuresAndGoesOn(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2})
	r.admit("a")
	r.admit("b")
	r.observe("a", broken)
	if wait := r.admit("c"); wait != "" {
		t.Fatalf("one failure of two stops the rollout: %s", wait)
	}
	r.observe("b", broken)
	r.observe("c", healthy)
	if wait := r.admit("d"); !strings.Contains(wait, "stopped") {
		t.Fatalf("two failures do not stop the rollout: %q", wait)
	}
	if wait := r.admit("a"); wait != "" {
		t.Fatalf("a broken one may not be repaired: %s", wait)
	}
	r.observe("a", healthy)
	if wait := r.admit("d"); wait != "" {
		t.Fatalf("the rollout does not go on when the cause is gone: %s", wait)
	}
	r.forget("b")
	if len(r.failed) != 0 {
		t.Fatal("a deleted one still counts as broken")
	}
}

func TestRolloutIgnoresWhatItDidNotAdmit(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1})
	r.observe("x", broken)
	if wait := r.admit("a"); wait != "" {
		t.Fatalf("one that was broken before stops the rollout: %s", wait)
	}
}

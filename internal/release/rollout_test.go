package release

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/internal/record"
)

// named is a custom resource with the same name and UID.
func named(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetName(name)
	object.SetUID(types.UID(name))
	return object
}

func TestRolloutAdmitsAFewAtATime(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2}, func(bool) {})
	for _, uid := range []string{"a", "b", "a"} {
		if wait := r.admit(named(uid), true); wait != "" {
			t.Fatalf("%s has to wait: %s", uid, wait)
		}
	}
	if r.admit(named("c"), true) == "" {
		t.Fatal("a third one is let in while two are underway")
	}
	r.observe(named("a"), progressing)
	if r.admit(named("c"), true) == "" {
		t.Fatal("a third one is let in while two are progressing")
	}
	r.observe(named("a"), healthy)
	if wait := r.admit(named("c"), true); wait != "" {
		t.Fatalf("nobody follows a healthy one: %s", wait)
	}
}

func TestRolloutStopsAfterFailuresAndGoesOn(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 2}, func(bool) {})
	r.admit(named("a"), true)
	r.admit(named("b"), true)
	r.observe(named("a"), broken)
	if wait := r.admit(named("c"), true); wait != "" {
		t.Fatalf("one failure of two stops the rollout: %s", wait)
	}
	r.observe(named("b"), broken)
	r.observe(named("c"), healthy)
	if wait := r.admit(named("d"), true); !strings.Contains(wait, "stopped") {
		t.Fatalf("two failures do not stop the rollout: %q", wait)
	}
	if wait := r.admit(named("a"), true); wait != "" {
		t.Fatalf("a broken one may not be repaired: %s", wait)
	}
	r.observe(named("a"), healthy)
	if wait := r.admit(named("d"), true); wait != "" {
		t.Fatalf("the rollout does not go on when the cause is gone: %s", wait)
	}
	r.leave(named("b"))
	if len(r.failed) != 0 {
		t.Fatal("a deleted one still counts as broken")
	}
}

// That a rollout has stopped is told once, when somebody has to wait for that, and that it goes on, when
// nobody has to in any namespace.
func TestRolloutTellsThatItStopsAndGoesOn(t *testing.T) {
	var told []bool
	r := newRollout(Limits{MaxConcurrent: 4, MaxFailures: 2}, func(stopped bool) { told = append(told, stopped) })
	steps := []struct {
		what string
		do   func()
		told []bool
	}{
		{"two of a namespace are broken", func() {
			for _, name := range []string{"a", "b"} {
				r.admit(named(name), true)
				r.observe(named(name), broken)
			}
		}, nil},
		{"two others wait", func() { r.admit(named("c"), true); r.admit(named("d"), true) }, []bool{true}},
		{"another one leaves", func() { r.leave(named("d")) }, []bool{true}},
		{"one recovers", func() { r.observe(named("a"), healthy) }, []bool{true, false}},
		{"the other one does", func() { r.observe(named("b"), healthy) }, []bool{true, false}},
	}
	for _, step := range steps {
		if step.do(); !slices.Equal(told, step.told) {
			t.Fatalf("%s: told %v, not %v", step.what, told, step.told)
		}
	}
}

func TestRolloutIgnoresWhatItDidNotAdmit(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1}, func(bool) {})
	r.observe(named("x"), broken)
	if wait := r.admit(named("a"), true); wait != "" {
		t.Fatalf("one that was broken before stops the rollout: %s", wait)
	}
}

func TestRolloutWakesWhoseTurnItIs(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1}, func(bool) {})
	r.admit(named("a"), true)
	for _, waiting := range []string{"b", "c"} {
		if r.admit(named(waiting), true) == "" {
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
	r.admit(named("b"), true)
	if next := r.leave(named("b")); len(next) != 1 || next[0].Name != "c" {
		t.Fatalf("%v are woken, not the last one", next)
	}
}

// in is a custom resource of a namespace.
func in(namespace, name string) *unstructured.Unstructured {
	object := named(namespace + "/" + name)
	object.SetNamespace(namespace)
	return object
}

// What is broken in one namespace, whoever made it so, counts as one elsewhere.
func TestNamespaceStopsItselfOnly(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 9, MaxFailures: 3}, func(bool) {})
	breaks := func(namespace, name string) {
		t.Helper()
		if wait := r.admit(in(namespace, name), true); wait != "" {
			t.Fatalf("%s/%s has to wait: %s", namespace, name, wait)
		}
		r.observe(in(namespace, name), broken)
	}
	for _, name := range []string{"1", "2", "3"} {
		breaks("a", name)
	}
	if wait := r.admit(in("a", "4"), true); !strings.Contains(wait, "stopped") {
		t.Errorf("three failures do not stop the rollout in their namespace: %q", wait)
	}
	if wait := r.admit(in("a", "last"), false); !strings.Contains(wait, "stopped") {
		t.Errorf("one that was not ready goes all the same: %q", wait)
	}
	breaks("b", "1")
	if wait := r.admit(in("c", "1"), true); wait != "" {
		t.Errorf("two namespaces of three stop it elsewhere: %s", wait)
	}
	if wait := r.admit(in("b", "2"), true); wait != "" {
		t.Errorf("one failure of its own and another namespace stop it: %s", wait)
	}
	r.observe(in("c", "1"), broken)
	if wait := r.admit(in("d", "1"), true); !strings.Contains(wait, "stopped") {
		t.Errorf("failures in three namespaces do not stop it: %q", wait)
	}
	if next := r.leave(in("b", "1")); len(next) != 1 || next[0].Namespace != "d" {
		t.Errorf("%v are told that it goes on, not only the one for whom it does", next)
	}
	r.observe(in("a", "1"), healthy)
	r.observe(in("a", "2"), healthy)
	if wait := r.admit(in("a", "4"), true); wait != "" {
		t.Errorf("it does not go on where two of three are healthy again: %s", wait)
	}
}

// Those that are not ready wait until the others have gone, and nobody waits for them.
func TestThoseNotReadyGoLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1}, func(bool) {})
		goes := func(name string, ready, want bool) {
			t.Helper()
			if wait := r.admit(named(name), ready); (wait == "") != want {
				t.Fatalf("%s waits for %q", name, wait)
			}
		}
		goes("x", false, false)
		goes("y", false, false)
		goes("a", true, true)
		goes("b", true, false)
		time.Sleep(lastDelay)
		if next := r.observe(named("a"), healthy); len(next) != 1 || next[0].Name != "b" {
			t.Fatalf("%v are woken, not the one that is ready", next)
		}
		goes("x", false, false)
		goes("b", true, true)
		if next := r.edited(named("b")); len(next) != 1 || next[0].Name == "b" {
			t.Fatalf("%v are woken, not one of the last", next)
		}
		goes("x", false, true)
		if next := r.observe(named("x"), progressing); len(next) != 1 || next[0].Name != "y" {
			t.Fatalf("%v are woken, not the last one", next)
		}
		goes("y", false, true)
		r.observe(named("y"), broken)
		goes("c", true, true)
		goes("z", false, false)
		time.Sleep(lastDelay)
		r.observe(named("c"), healthy)
		goes("z", false, true)
		r.observe(named("z"), healthy)
		if len(r.underway)+len(r.failed)+len(r.waiting)+len(r.last) > 0 {
			t.Errorf("something is left: %+v", r)
		}
	})
}

// A place is no possession: who does not become healthy loses it, and whoever does not ask again holds up nobody.
func TestPlacesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 2}, func(bool) {})
		r.admit(in("a", "slow"), true)
		r.admit(in("b", "silent"), true)
		r.admit(in("b", "last"), false)
		time.Sleep(placeTime)
		if wait := r.admit(in("b", "last"), false); wait != "" {
			t.Errorf("a place is kept for ever: %s", wait)
		}
		if len(r.failed) != 1 {
			t.Errorf("%v count as broken", r.failed)
		}
		r.observe(in("a", "slow"), healthy)
		if len(r.failed) != 0 {
			t.Error("it counts although it is healthy by now")
		}
	})
}

// One whose upgrade could not begin gives its place to another one, and is never broken by that; what is broken stays so.
func TestWhatHasNotBegunIsNotBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1}, func(bool) {})
		r.admit(in("a", "waits"), true)
		r.admit(in("b", "next"), true)
		if next := r.notBegun(in("a", "waits")); len(next) != 1 || next[0].Name != in("b", "next").GetName() {
			t.Errorf("woken are %v", next)
		}
		time.Sleep(placeTime)
		r.admit(in("b", "next"), true)
		if len(r.failed) != 0 {
			t.Errorf("%v count as broken", r.failed)
		}
		r.observe(in("b", "next"), broken)
		r.notBegun(in("b", "next"))
		if len(r.failed) != 1 {
			t.Error("what is broken does not count any more")
		}
	})
}

// What a custom resource becomes after an edit, the edit has done, unless it was broken before.
func TestEditsDoNotCount(t *testing.T) {
	r := newRollout(Limits{MaxConcurrent: 2, MaxFailures: 1}, func(bool) {})
	r.admit(named("a"), true)
	r.edited(named("a"))
	r.observe(named("a"), broken)
	if wait := r.admit(named("b"), true); wait != "" {
		t.Errorf("an edit stops the rollout: %s", wait)
	}
	r.observe(named("b"), broken)
	r.edited(named("b"))
	if wait := r.admit(named("c"), true); !strings.Contains(wait, "stopped") {
		t.Errorf("an edit of a broken one has the next break: %q", wait)
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
				Kind:    &Kind{clients: &Clients{ledger: newLedger()}, rollout: newRollout(Limits{MaxConcurrent: 1, MaxFailures: 1}, func(bool) {})},
				owner:   owner,
				current: &record.Record{Status: release.StatusDeployed},
			}
			client.rollout.admit(named("another"), true)
			if waitFor, err := client.admit(); err != nil || (waitFor != "") != c.waits {
				t.Errorf("it waits for %q, %v", waitFor, err)
			}
		})
	}
}

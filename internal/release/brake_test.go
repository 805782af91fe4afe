package release

import (
	"strings"
	"testing"
	"time"
)

func TestBrake(t *testing.T) {
	now := time.Now()
	c := &churn{}
	upgrade := func(after time.Duration, answer string) {
		now = now.Add(after)
		c.notice(now, surroundings{Lookups: answer}, map[string]string{"configmaps it in namespace here": answer})
		c.upgraded(now, 1, "chart")
	}
	held := func(generation int64, chart string) string { return c.holds(now, generation, chart) }

	upgrade(0, "edited") // which made it this generation
	for _, answer := range []string{"a", "b"} {
		upgrade(time.Minute, answer)
		if why := held(1, "chart"); why != "" {
			t.Fatalf("held too early: %s", why)
		}
	}
	upgrade(time.Minute, "c")
	if why := held(1, "chart"); !strings.Contains(why, "3 revisions within 10m0s") || !strings.Contains(why, "configmaps it in namespace here") || !strings.HasSuffix(why, ". Keep that the same, or remove the lookup or .Capabilities from the chart; what was applied goes on running") {
		t.Errorf("not held, or not why: %q", why)
	}
	if held(2, "chart") != "" || held(1, "new") != "" {
		t.Error("an edit of the custom resource or of the chart is held up")
	}
	now = now.Add(9 * time.Minute)
	c.notice(now, surroundings{Lookups: "d"}, nil)
	now = now.Add(9 * time.Minute)
	if held(1, "chart") == "" {
		t.Error("what has changed 9 minutes ago is not settled")
	}
	now = now.Add(time.Minute)
	if why := held(1, "chart"); why != "" {
		t.Errorf("it is settled: %s", why)
	}
	upgrade(0, "d")
	upgrade(time.Minute, "e")
	if why := held(1, "chart"); why != "" {
		t.Errorf("what was before it had settled counts: %s", why)
	}
}

func TestRareRevisionsAreNotHeld(t *testing.T) {
	now, c := time.Now(), &churn{}
	for range 10 {
		now = now.Add(brakeWindow / 2)
		c.notice(now, surroundings{Lookups: now.String()}, nil)
		c.upgraded(now, 1, "chart")
		if why := c.holds(now, 1, "chart"); why != "" {
			t.Fatal(why)
		}
	}
}

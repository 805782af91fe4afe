package guard

import (
	"context"
	"testing"
	"time"
)

// One of the few goes before the many that came before it, who gives up waits no longer, and no slot is lost.
func TestSlots(t *testing.T) {
	slots := NewSlots(2)
	take := func(ctx context.Context, namespace string) chan error {
		slots.mu.Lock()
		taken, length := make(chan error, 1), len(slots.waiting)
		slots.mu.Unlock()
		go func() { taken <- slots.Take(ctx, namespace) }()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			slots.mu.Lock()
			waits := len(slots.waiting) > length
			slots.mu.Unlock()
			if waits || len(taken) > 0 {
				return taken
			}
			if time.Now().After(deadline) {
				t.Fatal("it neither has a slot nor waits")
			}
		}
	}
	has := func(taken chan error) {
		t.Helper()
		select {
		case err := <-taken:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it has no slot")
		}
	}
	has(take(t.Context(), "many"))
	has(take(t.Context(), "many"))
	second, third := take(t.Context(), "many"), take(t.Context(), "many")
	ctx, giveUp := context.WithCancel(t.Context())
	gone := take(ctx, "few")
	giveUp()
	if err := <-gone; err == nil {
		t.Error("it has a slot although nobody has given one back")
	}
	few := take(t.Context(), "few")
	slots.Give("many")
	has(few)
	slots.Give("many")
	has(second)
	slots.Give("few")
	has(third)
	slots.Give("many")
	slots.Give("many")
	if slots.free != 2 || len(slots.waiting)+len(slots.taken) > 0 {
		t.Errorf("in the end, there are %+v", slots.waiting)
	}
}

package guard

import (
	"context"
	"testing"
	"testing/synctest"
)

// One of the few goes before the many that came before it, who gives up waits no longer, and no slot is lost.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(2)
		take := func(ctx context.Context, namespace string) chan error {
			taken := make(chan error, 1)
			go func() { taken <- slots.Take(ctx, namespace) }()
			synctest.Wait() // until it has a slot, or waits
			return taken
		}
		has := func(taken chan error) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-taken:
				if err != nil {
					t.Fatal(err)
				}
			default:
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
	})
}

package guard

import (
	"context"
	"fmt"
)

// Slots bound how many actions of a kind run at once. An action that waits for a hook gives its slot
// to another: for minutes it needs nothing, and a few hooks that never end would hold up everybody.
type Slots chan struct{}

// Take waits for a slot, or fails with the end of ctx.
func (s Slots) Take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other actions: %w", ctx.Err())
	}
}

// Give ends what Take began.
func (s Slots) Give() { <-s }

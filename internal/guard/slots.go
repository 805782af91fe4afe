package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Slots bound how many actions of a kind run at once. An action that waits for a hook lends its slot to
// another: for minutes it does nothing, and a few hooks that never end would hold up everybody.
//
// Of those that wait for a slot, one of the namespace with the fewest slots is next. Otherwise a namespace with
// many custom resources would hold up all others.
type Slots struct {
	mu      sync.Mutex
	free    int
	taken   map[string]int // by namespace
	waiting []waiting      // who came first is first
}

type waiting struct {
	namespace string
	given     chan struct{} // closed when it has a slot
}

// NewSlots returns so many.
func NewSlots(count int) *Slots { return &Slots{free: count, taken: map[string]int{}} }

// Take waits for a slot, or fails with the end of ctx.
func (s *Slots) Take(ctx context.Context, namespace string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.taken[namespace]++
		s.mu.Unlock()
		return nil
	}
	w := waiting{namespace, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return nil // it was given one meanwhile
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return fmt.Errorf("wait for other actions: %w", ctx.Err())
}

// Give ends what Take began.
func (s *Slots) Give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	next := slices.MinFunc(s.waiting, func(a, b waiting) int { return cmp.Compare(s.taken[a.namespace], s.taken[b.namespace]) }) // the first of these
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiting) bool { return w == next })
	s.taken[next.namespace]++
	close(next.given)
}

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

var edits = flag.Int("edits", 5, "how often TestReadyMeansTheNewPage edits a greeting")

// Whoever waits for Ready after an edit gets the new page, never the old one. Meanwhile, no request of a few visitors
// fails. They are so few that an old pod mostly has no connection to drain, and ends at once.
func TestReadyMeansTheNewPage(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")
	url := s.url("hello")
	s.awaitPage(url, "Hello ")

	ctx, leave := context.WithCancel(t.Context())
	refused := make(chan int)
	go func() {
		failures := 0
		for visits := 0; ctx.Err() == nil; visits++ {
			if err := kit.Page(t.Context(), url, "Hello "); err != nil {
				failures++
				t.Errorf("a visitor was turned away: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(4 * time.Second)):
			}
		}
		refused <- failures
	}()
	old, took := 0, make([]time.Duration, *edits)
	for i := range took {
		start := time.Now()
		name := fmt.Sprintf("friend-%d", i)
		s.patch("hello", fmt.Sprintf(`{"name":%q}`, name))
		s.kubectl("wait", "welcome/hello", "--for=condition=Ready", "--timeout="+patience.String())
		took[i] = time.Since(start)
		if err := kit.Page(t.Context(), url, "<title>Hello "+name+"</title>"); err != nil {
			old++
			t.Errorf("edit %d, right after Ready: %v", i+1, err)
		}
	}
	leave()
	failures := <-refused
	slices.Sort(took)
	t.Logf("%d edits: %d old answers, %d visitors turned away; from edit to Ready %s (median), %s (at most)",
		len(took), old, failures, took[len(took)/2].Round(100*time.Millisecond), took[len(took)-1].Round(100*time.Millisecond))
}

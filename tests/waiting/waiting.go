// Package waiting waits for something, and reports what for if that takes long.
package waiting

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// long is when a wait is first reported, and how often from then on.
const long = 10 * time.Second

// Logf reports to people; (*testing.T).Logf is one.
type Logf func(format string, args ...any)

// Stderr is the Logf for waits outside of tests.
func Stderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// For calls check every pause until it returns nil. When limit is over, it returns check's last error.
func For(ctx context.Context, logf Logf, what string, limit, pause time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last atomic.Pointer[error]
	stop := every(long, func(waited time.Duration) {
		if err := last.Load(); err != nil {
			why, _, _ := strings.Cut((*err).Error(), "\n")
			logf("still waiting: %s (%s of %s): %s", what, waited, limit, why)
		} else { // the first check hangs
			logf("still waiting: %s (%s of %s)", what, waited, limit)
		}
	})
	defer stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last.Load() == nil || ctx.Err() == nil { // otherwise err only says that the time is over
			last.Store(&err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s in vain: %s: %w", limit, what, *last.Load())
		case <-time.After(pause):
		}
	}
}

// While reports a wait that the caller does itself, until stop is called.
func While(logf Logf, what string) (stop func()) {
	return every(long, func(waited time.Duration) { logf("still waiting: %s (%s)", what, waited) })
}

func every(interval time.Duration, tell func(waited time.Duration)) (stop func()) {
	start, stopping, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(interval)
		defer ticks.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-ticks.C:
				tell(time.Since(start).Round(time.Second))
			}
		}
	}()
	// A test that has ended must not be logged to.
	return func() { close(stopping); <-stopped }
}

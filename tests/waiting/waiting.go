// Package waiting waits, and tells people what is awaited when that takes long.
package waiting

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// long is after how much time people are told what is awaited, and how often from then on.
const long = 10 * time.Second

// Logf tells people something; (*testing.T).Logf is one.
type Logf func(format string, args ...any)

// Stderr is for what is awaited outside of tests.
func Stderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// For asks check every pause, until it returns nil or limit is over: then its last error comes back.
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
		if last.Load() == nil || ctx.Err() == nil { // else it says no more than that the time is over
			last.Store(&err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s in vain: %s: %w", limit, what, *last.Load())
		case <-time.After(pause):
		}
	}
}

// While is for what waits by itself: it tells people what is awaited, until stop is called.
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
	// Nobody may write to the log of a test that is over.
	return func() { close(stopping); <-stopped }
}

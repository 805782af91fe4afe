package release

import (
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// lastRollout bounds the delay where each attempt changes objects and rolls them back, which replaces pods
	// twice.
	lastRollout = 10 * time.Minute
)

// retryDelay is how long to leave failing inputs alone after so many failures in a row, at most last.
func retryDelay(failures int, last time.Duration) time.Duration {
	return min(firstRetry<<min(failures-1, 10), last)
}

// scheduled is the error of an action that is held back until its next attempt is due. It is terminal for the
// controller, which would else retry it eight times within a second, only to log the same each time. The error
// of an attempt itself is not: the retry that follows it at once repairs and watches what was applied last.
type scheduled struct{ error }

func (s scheduled) Unwrap() error { return s.error }

// Is makes it match reconcile.TerminalError. To wrap it in one would put "terminal error:" in front of what
// people read.
func (scheduled) Is(target error) bool { return errors.Is(reconcile.TerminalError(nil), target) }

// hold returns the last failure, and schedules its next attempt. That has to be done anew, since the event that
// has caused this reconcile has taken the place of the attempt in the queue.
func (a *actionClient) hold(failed failure) error {
	a.again(time.Until(failed.until))
	return failed.err
}

// again schedules the next attempt, and marks that nothing is to be done until then.
func (a *actionClient) again(delay time.Duration) {
	a.schedule.after(a.owner, delay)
	a.scheduled = true
}

// retries is whether the last action has failed.
func (a *actionClient) retries() bool { return a.failure().count > 0 }

package release

import (
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// lastRollout bounds it where each attempt changes objects and puts them back: pods are replaced twice.
	lastRollout = 10 * time.Minute
)

// retryDelay is how long to leave failing inputs alone after so many failures in a row, at most last.
func retryDelay(failures int, last time.Duration) time.Duration {
	return min(firstRetry<<min(failures-1, 10), last)
}

// scheduled is an error of what is held back until the next attempt has its time. The controller takes it for a terminal one: it would try again at once, eight times in a second, only to be
// held back and to log the same once more. Right after an attempt it does so once: what stands is repaired and watched then.
type scheduled struct{ error }

func (s scheduled) Unwrap() error { return s.error }

// Is has it be one of reconcile.TerminalError, whose own text would be in front of what people read.
func (scheduled) Is(target error) bool { return errors.Is(reconcile.TerminalError(nil), target) }

// hold is the failure of a moment ago. It is to be tried again when its time has come: whatever has asked for this reconcile took the place of that in the controller's
// queue, and its own next one may be a quarter of an hour away.
func (a *actionClient) hold(failed failure) error {
	a.again(time.Until(failed.until))
	return failed.err
}

// again schedules the next attempt, and has nothing done until then.
func (a *actionClient) again(delay time.Duration) {
	a.schedule.after(a.owner, delay)
	a.scheduled = true
}

// retries is whether the last action has failed.
func (a *actionClient) retries() bool { return a.failure().count > 0 }

package release

import "time"

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

// hold is the failure of a moment ago. It is to be tried again when its time has come: whatever has asked for this reconcile took the place of that in the controller's
// queue, and its own next one may be a quarter of an hour away.
func (a *actionClient) hold(failed failure) error {
	a.schedule.after(a.owner, time.Until(failed.until))
	return failed.err
}

// retries is whether the last action has failed.
func (a *actionClient) retries() bool { return a.failure().count > 0 }

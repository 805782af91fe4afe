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

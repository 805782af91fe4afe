package release

import "time"

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// retryDelay is how long to leave failing inputs alone after so many failures in a row.
func retryDelay(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

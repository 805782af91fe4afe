package operator

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// leaseDuration is for how long a leader may write after it has begun to renew its lease, unless an option says otherwise. Nobody else takes it before. With
// what follows from it below, a standby is at work 7 s after its leader died, at the latest, and within a second of one that was told to stop.
const leaseDuration = 5 * time.Second

// renewDeadline is for how long a leader tries to renew its lease before it ends.
func renewDeadline(lease time.Duration) time.Duration { return lease * 4 / 5 }

// retryPeriod is how often a leader renews its lease, by a write. A standby looks at it after once to 2.2 times that, by a read.
func retryPeriod(lease time.Duration) time.Duration { return lease * 2 / 25 }

// fence keeps a leader that has not renewed its lease in time from writing: it stood still, frozen or without a processor, and another one may be at
// work. So it does from when the API server refuses a renewal, because somebody else has written the lease, until another renewal succeeds or the lease is gone.
// Leader election ends the process, too, but only after it has tried for some seconds to get the lease back, with everything going on meanwhile.
// A lease that has lapsed is not renewed either, even if nobody has taken it: what was going on when the process stood still goes by old facts.
type fence struct {
	name    string // of the lease
	lease   time.Duration
	renewed atomic.Pointer[time.Time] // when the last renewal that succeeded began, nil if there was none
	refused atomic.Pointer[string]    // the path of the lease if the API server refused the last renewal
}

// around has all requests of clients of config pass the fence.
func (f *fence) around(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{f, next} })
}

type fenced struct {
	*fence
	next http.RoundTripper
}

// RoundTrip refuses to send what may change something once the lease has lapsed.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		response, err := f.next.RoundTrip(request)
		if refused := f.refused.Load(); refused != nil && request.URL.Path == *refused && err == nil && response.StatusCode == http.StatusNotFound {
			f.refused.Store(nil) // somebody has deleted it, which refuses a renewal, too: it is made anew, by this process or another one
		}
		return response, err
	}
	now := time.Now()
	// Leader election alone updates: a lease that a chart has is patched, and is no renewal, whatever it is called.
	renews := request.Method == http.MethodPut && strings.HasSuffix(request.URL.Path, "/leases/"+f.name)
	if renewed := f.renewed.Load(); renewed != nil && (between(*renewed, now) > f.lease || f.refused.Load() != nil && !renews) {
		if request.Body != nil {
			_ = request.Body.Close() // as whoever sends a request does
		}
		return nil, fmt.Errorf("not sent: the lease was last renewed %s ago, and somebody else may be at work by now", between(*renewed, now).Round(time.Second))
	}
	response, err := f.next.RoundTrip(request)
	switch {
	case !renews || err != nil:
	case response.StatusCode < http.StatusMultipleChoices:
		f.renewed.Store(&now)
		f.refused.Store(nil)
	case response.StatusCode == http.StatusConflict:
		f.refused.Store(new(request.URL.Path))
	}
	return response, err
}

// between is the time from a to b by whichever of the two clocks says more: the monotonic one stands still while a machine is suspended, and the other one may be
// set back. One that is set forward by more than a lease ends the process, which starts again.
func between(a, b time.Time) time.Duration { return max(b.Sub(a), b.Round(0).Sub(a.Round(0))) }

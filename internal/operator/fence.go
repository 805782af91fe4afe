package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// leaseDuration is for how long a leader may write after it began to renew its lease, unless an option says
// otherwise. Nobody else takes the lease before that. With the periods derived from it below, a standby is at
// work at most 7 s after its leader died, and within a second of one that was told to stop.
const leaseDuration = 5 * time.Second

// renewDeadline is for how long a leader tries to renew its lease before it ends.
func renewDeadline(lease time.Duration) time.Duration { return lease * 4 / 5 }

// retryPeriod is how often a leader renews its lease, by a write. A standby reads it after 1 to 2.2 times that.
func retryPeriod(lease time.Duration) time.Duration { return lease * 2 / 25 }

// fence keeps a leader from writing if it has not renewed its lease in time: it was frozen or without a
// processor, and another one may be at work. It also does so after a refused renewal, until one succeeds: somebody
// else has written or deleted the lease. Leader election ends the process as well, but only after some seconds, in
// which it tries to get the lease back while everything goes on. A lapsed lease is not renewed even if nobody has
// taken it: what was under way when the process was frozen works from outdated facts.
//
// Once etcd was restored from a backup, nobody writes, not even a standby: what the caches hold has never happened,
// and their watches tell nothing until the cluster has come as far as before. The lease, which is written all the
// time, shows that, and the process ends, to start with other caches.
type fence struct {
	name     string // of the lease
	lease    time.Duration
	renewed  atomic.Pointer[time.Time] // when the last renewal that succeeded began, nil if there was none
	refused  atomic.Pointer[string]    // the path of the lease if the API server refused the last renewal
	version  atomic.Pointer[string]    // of the lease as leader election has seen it last, nil before
	restored chan struct{}             // closed once that was an earlier one than before
}

func newFence(name string, lease time.Duration) *fence {
	return &fence{name: name, lease: lease, restored: make(chan struct{})}
}

// around makes all requests of the clients of config pass the fence.
func (f *fence) around(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{f, next} })
}

type fenced struct {
	*fence
	next http.RoundTripper
}

// RoundTrip refuses requests that may change something once the lease has lapsed, or etcd was restored.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		response, err := f.next.RoundTrip(request)
		return f.look(request, response, err)
	}
	now := time.Now()
	// Only leader election updates it: a Lease of a chart is patched, and so no renewal, whatever its name.
	renews := request.Method == http.MethodPut && strings.HasSuffix(request.URL.Path, "/leases/"+f.name)
	refused := f.refused.Load()
	// The renewal of a deleted lease is refused, too. Leader election then creates the lease anew, and renews that.
	creates := refused != nil && request.Method == http.MethodPost && request.URL.Path == path.Dir(*refused)
	var why error
	if renewed := f.renewed.Load(); f.isRestored() {
		why = errRestored
	} else if renewed != nil && (between(*renewed, now) > f.lease || refused != nil && !renews && !creates) {
		why = fmt.Errorf("the lease was last renewed %s ago, and somebody else may be at work by now", between(*renewed, now).Round(time.Second))
	}
	if why != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper has to
		}
		return nil, fmt.Errorf("not sent: %w", why)
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
	return f.look(request, response, err)
}

// look compares the version of the lease that leader election is told with the one before. Others may read the lease at
// the same time, for the metrics, and get an earlier version after a later one.
func (f *fence) look(request *http.Request, response *http.Response, err error) (*http.Response, error) {
	if err != nil || !strings.HasSuffix(request.UserAgent(), "/leader-election") || !strings.HasSuffix(request.URL.Path, "/leases/"+f.name) {
		return response, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read
	if err != nil {
		return nil, fmt.Errorf("read the lease: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	decoded, _, _ := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil) // mostly protobuf
	lease, ok := decoded.(*coordinationv1.Lease)
	if !ok { // a refusal, or what leader election cannot read either
		return response, nil
	}
	if last := f.version.Swap(&lease.ResourceVersion); last != nil && !f.isRestored() {
		if order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, *last); err == nil && order < 0 {
			close(f.restored) // leader election asks one thing at a time
		}
	}
	return response, nil
}

func (f *fence) isRestored() bool {
	select {
	case <-f.restored:
		return true
	default:
		return false
	}
}

var errRestored = errors.New("etcd was restored from a backup: starting anew, for what is in the caches has never happened")

// Start ends the process once etcd was restored.
func (f *fence) Start(ctx context.Context) error {
	select {
	case <-f.restored:
		return errRestored
	case <-ctx.Done():
		return nil
	}
}

// NeedLeaderElection is false: the caches of a standby are wrong, too.
func (*fence) NeedLeaderElection() bool { return false }

// between is the time from a to b by the clock that says more: the monotonic one stands still while a machine
// is suspended, and the wall clock may be set back. One that is set forward by more than a lease ends the
// process, which starts again.
func between(a, b time.Time) time.Duration { return max(b.Sub(a), b.Round(0).Sub(a.Round(0))) }

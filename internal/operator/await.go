package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// awaitPeriod is how often it is checked whether an entry can be served.
const awaitPeriod = 2 * time.Second

// await separates the entries that can be served from the others. If none can be, since the cluster lacks
// something or they are broken, it logs that once and waits until one can: whoever installs the CRD after the
// operator need not restart it. Meanwhile the process is alive and not ready, at the address of the probes.
func (s *servable) await(ctx context.Context, entries []Entry, refused []broken, probes string) ([]Entry, []broken, error) {
	log := ctrl.Log.WithName("start")
	told := ""
	for waiting := false; ; {
		served, unserved, err := s.split(ctx, entries, slices.Clone(refused))
		none := noneLeft(served, unserved)
		lacks := slices.ContainsFunc(unserved, func(each broken) bool { return each.lacks })
		if err != nil && !waiting || err == nil && (none == nil || !lacks) {
			return served, unserved, errors.Join(err, none)
		}
		if err != nil && err.Error() != told { // the API server may be away for a moment
			told = err.Error()
			log.Info("Still waiting: " + told)
		}
		if !waiting {
			waiting = true
			log.Info("Nothing can be served yet. The operator continues by itself once this is fixed: " + none.Error())
			listener, err := net.Listen("tcp", probes)
			if err != nil {
				return nil, nil, fmt.Errorf("serve --health-probe-bind-address: %w", err)
			}
			server := &http.Server{Handler: http.HandlerFunc(aliveNotReady), ReadHeaderTimeout: time.Second}
			go func() { _ = server.Serve(listener) }() // it ends when it is closed
			defer func() {
				_ = server.Close() // the manager listens there next
				log.Info("Going on")
			}()
		}
		select {
		case <-ctx.Done():
			return nil, nil, nil
		case <-time.After(awaitPeriod):
		}
	}
}

// aliveNotReady answers the kubelet.
func aliveNotReady(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" {
		http.Error(w, "there is nothing to serve yet: the log says what is waited for", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok") // a failed write concerns nobody else
}

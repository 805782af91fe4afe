package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// drainDelay is how long a terminating pod keeps serving before it closes its listener. Deleting a pod and removing
	// its address from every kube-proxy (which syncs once a second by default), ingress and load balancer run side by
	// side; until all of them know, requests still arrive here and must not be refused.
	drainDelay = 5 * time.Second
	// quietDelay replaces drainDelay if nobody has come meanwhile and nobody is connected. Then a late
	// request is unlikely, and an edit is done sooner, for Ready waits until this pod is gone.
	quietDelay = 3 * time.Second
	// shutdownTimeout is how long requests that are still running may take after that. With drainDelay it stays below
	// the 30 s (default terminationGracePeriodSeconds) after which kubelet kills the process.
	shutdownTimeout = 20 * time.Second
)

// Paths of the kubelet's probes.
const healthz, readyz = "/healthz", "/readyz"

// server runs the page with probes and a drain that loses no request.
type server struct {
	http        *http.Server
	connections *connections
	log         *slog.Logger
	draining    atomic.Bool
	visited     atomic.Bool // while draining, by a request that is no probe
}

// newServer serves the page that greets g, /healthz (the process answers) and /readyz (it wants traffic). Its limits keep
// a slow or hostile client from holding a connection or memory for long; an honest request is one small GET.
func newServer(g greeting, log *slog.Logger) (*server, error) {
	s := &server{connections: newConnections(), log: log}
	mux := http.NewServeMux()
	if err := addPage(mux, g); err != nil {
		return nil, err
	}
	mux.HandleFunc("GET "+healthz, func(w http.ResponseWriter, _ *http.Request) { probe(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET "+readyz, s.readyz)
	s.http = &http.Server{
		Handler:           s.wrap(secured(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		// Longer than the keep-alive of common load balancers (60 s), so that they close idle connections first;
		// the other way round a request can cross with our close and fail.
		IdleTimeout:    90 * time.Second,
		MaxHeaderBytes: 4 << 10,
		ConnState:      s.connections.changed,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// serve answers on listener until ctx ends, then drains: not ready first, still serving for drainDelay
// (quietDelay if nobody comes), then no new connections, and at most shutdownTimeout for what still runs. It
// returns nil after a complete drain.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	s.log.Info("serving", "address", listener.Addr().String())
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(bounded{listener, s.connections}) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}

	s.draining.Store(true)
	s.log.Info("draining: not ready, still serving", "delay", drainDelay.String(), "unless visited", quietDelay.String())
	quiet, over := time.After(quietDelay), time.After(drainDelay)
	for draining := true; draining; {
		select {
		case err := <-failed:
			return fmt.Errorf("serve while draining: %w", err)
		case <-quiet:
			draining = s.visited.Load() || s.connections.count() > 0
		case <-over:
			draining = false
		}
	}

	timeout, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(timeout); err != nil {
		return fmt.Errorf("requests still running after %s: %w", shutdownTimeout, errors.Join(err, s.http.Close()))
	}
	s.log.Info("stopped")
	return nil
}

// wrap asks clients to leave while draining, and logs requests at level debug.
func (s *server) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A kept-alive connection stays with this pod whatever the Service says, so its client is told to open a new
		// one. http.Server.SetKeepAlivesEnabled(false) would also close idle connections this instant, under the feet
		// of requests on their way.
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
			if r.URL.Path != healthz && r.URL.Path != readyz {
				s.visited.Store(true)
			}
		}
		start := time.Now()
		next.ServeHTTP(w, r)
		s.log.Debug("request", "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr, "duration", time.Since(start).String())
	})
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		probe(w, http.StatusServiceUnavailable, "draining")
		return
	}
	probe(w, http.StatusOK, "ok")
}

// probe answers a health check, which nobody may cache.
func probe(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone needs no answer
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// timeout bounds one request; a page that takes longer counts as failed.
const timeout = 10 * time.Second

// errElsewhere refuses to load what isn't a machine of one's own.
var errElsewhere = errors.New("neither a loopback nor a private address")

// testNetwork is set aside for tests of networks (RFC 2544); the local cluster lies in it.
var testNetwork = netip.MustParsePrefix("198.18.0.0/15")

// generate sends rate requests a second for duration, or until ctx ends. The load is open: a request is sent when it is
// due, whether or not earlier ones were answered, and its latency counts from that moment. A slow server can therefore
// not make itself look fast by slowing down its client.
func generate(ctx context.Context, url string, rate int, duration time.Duration) *report {
	client := &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: timeout, Control: onlyNearby}).DialContext,
			MaxIdleConnsPerHost: 256,
			// As browsers do, the transport sends a GET again on a new connection if the server closed a kept one
			// before it read the request. The report counts these.
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()

	result := &report{errors: map[string]int{}}
	var running sync.WaitGroup
	start := time.Now()
	for i := range int(duration.Seconds() * float64(rate)) {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			retried, err := get(client, url)
			result.add(time.Since(due), retried, err)
		})
	}
	running.Wait()
	result.took = time.Since(start)
	return result
}

// get reads the page at url to its end; retried tells whether it took a second connection.
func get(client *http.Client, url string) (retried bool, err error) {
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections++ }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return connections > 1, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return connections > 1, err
	}
	if resp.StatusCode != http.StatusOK {
		return connections > 1, fmt.Errorf("status %d", resp.StatusCode)
	}
	return connections > 1, nil
}

// onlyNearby is asked with the address that is really dialled, after name resolution.
func onlyNearby(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := ap.Addr().Unmap(); !ip.IsLoopback() && !ip.IsPrivate() && !testNetwork.Contains(ip) {
		return fmt.Errorf("%s: %w", ip, errElsewhere)
	}
	return nil
}

// kind names an error without what differs from request to request, so that equal failures are counted together.
func kind(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, errElsewhere):
		return errElsewhere.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	default:
		return err.Error()
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func newTestServer(t *testing.T, g greeting) *server {
	t.Helper()
	s, err := newServer(g, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDrain follows a termination: first not ready but serving, then no new connections while what runs may finish.
func TestDrain(t *testing.T) {
	s := newTestServer(t, greeting{Name: "myfriends"})
	started, finish := make(chan struct{}), make(chan struct{})
	page := s.http.Handler
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "slow" {
			close(started)
			<-finish
		}
		page.ServeHTTP(w, r)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	ctx, terminate := context.WithCancel(context.Background())
	defer terminate()
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, listener) }()

	if status, _ := get(t, url+"/readyz"); status != http.StatusOK {
		t.Fatalf("before the drain /readyz answers %d, want 200", status)
	}
	slow := make(chan int, 1)
	go func() {
		status, _ := get(t, url+"/hello/?slow")
		slow <- status
	}()
	<-started
	terminate()
	begin := time.Now()

	await(t, "the server is not ready", func() bool {
		status, _ := get(t, url+"/readyz")
		return status == http.StatusServiceUnavailable
	})
	if status, _ := get(t, url+"/healthz"); status != http.StatusOK {
		t.Errorf("while draining /healthz answers %d, so kubelet would restart the container", status)
	}
	status, closed := get(t, url+"/hello/")
	if status != http.StatusOK {
		t.Errorf("while draining the page answers %d, want 200", status)
	}
	if !closed {
		t.Error("while draining the client may keep its connection, and would stay with this pod")
	}

	await(t, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if after := time.Since(begin); after < drainDelay {
		t.Errorf("new connections are refused after %s, want not before %s", after, drainDelay)
	}
	select {
	case err := <-served:
		t.Fatalf("the server stopped (%v) with a request running", err)
	default:
	}
	close(finish)
	if status := <-slow; status != http.StatusOK {
		t.Errorf("the running request ends with %d, want 200", status)
	}
	if err := <-served; err != nil {
		t.Errorf("after a complete drain serve returns %v", err)
	}
}

func TestDrainFitsIntoTheGracePeriod(t *testing.T) {
	const gracePeriod = 30 * time.Second // the default of terminationGracePeriodSeconds
	if drainDelay+shutdownTimeout >= gracePeriod {
		t.Errorf("kubelet kills the process after %s, in the middle of a drain of up to %s", gracePeriod, drainDelay+shutdownTimeout)
	}
}

func TestServeReportsWhyItFailed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := newTestServer(t, greeting{Name: "x"}).serve(context.Background(), listener); err == nil || !strings.HasPrefix(err.Error(), "serve: ") {
		t.Errorf("serving on a closed listener returns %v", err)
	}
}

func TestRequestsAreLoggedAtDebugOnly(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var out bytes.Buffer
		s, err := newServer(greeting{Name: "x"}, slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
		if err != nil {
			t.Fatal(err)
		}
		s.http.Handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hello/", nil))
		var line struct{ Msg, Method, Path string }
		_ = json.Unmarshal(out.Bytes(), &line) // no line at level info
		if got := line.Msg == "request" && line.Method == http.MethodGet && line.Path == "/hello/"; got != want {
			t.Errorf("at level %s the log is %q", level, out.String())
		}
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	s := newTestServer(t, greeting{Name: "x"})
	page := httptest.NewUnstartedServer(nil)
	page.Config = s.http
	page.Start()
	defer page.Close()
	r, err := http.NewRequest(http.MethodGet, page.URL+"/hello/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Huge", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers are answered with %d, want 431", resp.StatusCode)
	}
}

// get returns the status of the answer, 0 if there is none, and whether the server asked to close the connection.
func get(t *testing.T, url string) (status int, closed bool) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Logf("GET %s: %v", url, err)
		return 0, false
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("read %s: %v", url, err)
	}
	return resp.StatusCode, resp.Close
}

// await polls until done, and fails the test after half a minute.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s until %s", what)
		}
	}
}

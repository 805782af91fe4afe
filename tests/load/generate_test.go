package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestGenerateKeepsItsRate(t *testing.T) {
	var served atomic.Int64
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		time.Sleep(300 * time.Millisecond) // a slow server gets no fewer requests
	}))
	defer page.Close()
	r := generate(context.Background(), page.URL, 100, time.Second)
	if served.Load() != 100 || len(r.latencies) != 90 || r.errors["status 503"] != 10 {
		t.Errorf("the server saw %d requests, want 100, 90 of them well:\n%s", served.Load(), r)
	}
	if r.percentile(1) < 300*time.Millisecond {
		t.Errorf("the server takes 300 ms, the report says:\n%s", r)
	}
}

func TestGenerateNamesFailures(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer page.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, want := range map[string]string{
		page.URL:           "connection closed",
		gone.URL:           "connection refused",
		"http://192.0.2.1": errElsewhere.Error(),
	} {
		if r := generate(context.Background(), url, 5, time.Second); r.errors[want] != 5 {
			t.Errorf("%s: want 5 × %s:\n%s", url, want, r)
		}
	}
}

func TestOnlyNearby(t *testing.T) {
	for address, want := range map[string]error{
		"127.0.0.1:80":              nil,
		"[::1]:80":                  nil,
		"10.96.0.10:8080":           nil,
		"192.168.1.1:80":            nil,
		"[fd00::1]:80":              nil,
		"198.18.79.250:31435":       nil,
		"203.0.113.7:80":            errElsewhere,
		"[2001:db8::1]:443":         errElsewhere,
		"[::ffff:203.0.113.7]:8080": errElsewhere,
	} {
		if got := onlyNearby("tcp", address, nil); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}

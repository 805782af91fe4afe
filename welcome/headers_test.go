package main

import (
	"strings"
	"testing"
)

func TestEveryAnswerIsSecured(t *testing.T) {
	for _, path := range []string{"/", "/hello/", "/hello/style.css", "/hello/emblem.svg", "/healthz", "/readyz", "/nothing"} {
		header := request(t, greeting{Name: "myfriends"}, "GET", path, nil).Header()
		for key, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := header.Get(key); got != want {
				t.Errorf("%s: %s is %q, want %q", path, key, got, want)
			}
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the content security policy is too wide: %q", path, policy)
		}
	}
}

package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: http.NoBody}, nil
}

// A request that would change something is not sent.
func TestOnlyDryRuns(t *testing.T) {
	for _, c := range []struct {
		method, query, body string
		passes              bool
	}{
		{method: "GET", passes: true},
		{method: "PATCH", query: "?dryRun=All", passes: true},
		{method: "POST", query: "?dryRun=All&fieldManager=a", passes: true},
		{method: "DELETE", body: `{"dryRun":["All"]}`, passes: true},
		{method: "PATCH"},
		{method: "POST", query: "?dryRun="},
		{method: "POST", body: `{"dryRun":["All"]}`},
		{method: "PUT", query: "?dryRun=All&dryRun=None"},
		{method: "DELETE"},
		{method: "DELETE", body: `{}`},
		{method: "DELETE", query: "?dryRun=All", body: `{}`},
		{method: "DELETE", body: "k8s\x00"},
	} {
		request, err := http.NewRequest(c.method, "https://localhost/api/v1/x"+c.query, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := onlyDryRuns{answering{}}.RoundTrip(request)
		if passes := err == nil; passes != c.passes || err != nil && !errors.Is(err, errNoDryRun) {
			t.Errorf("%s %s %s: %v", c.method, c.query, c.body, err)
		}
		if response != nil {
			_ = response.Body.Close() // there is none
		}
	}
}

package release

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLookedUp(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1": "", "/api": "", "/apis": "", "/apis/apps/v1": "", "/version": "", "/": "",
		"/api/v1/namespaces/here/configmaps/it":       "configmaps it in namespace here",
		"/api/v1/namespaces/here/configmaps":          "configmaps in namespace here",
		"/api/v1/namespaces/here":                     "namespaces here",
		"/api/v1/nodes":                               "nodes",
		"/apis/apps/v1/namespaces/here/deployments/a": "deployments a in namespace here",
	} {
		if got, _, _ := lookedUp(path); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

// Whoever may fill a namespace with ConfigMaps does not fill the operator's memory by a chart that lists them.
func TestLargeLookup(t *testing.T) {
	answer := func(size int) roundTripper {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat(" ", size)))}, nil
		}
	}
	owner := &unstructured.Unstructured{}
	owner.SetNamespace("here")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/namespaces/here/configmaps", nil)
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]bool{maxLookup: true, maxLookup + 1: false} {
		response, err := notingTransport{next: answer(size), lookups: &lookups{owner: owner}}.RoundTrip(request)
		if fits != (err == nil) {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
		if err == nil {
			if text, err := io.ReadAll(response.Body); err != nil || len(text) != size {
				t.Errorf("of %d bytes, %d are passed on: %v", size, len(text), err)
			}
			_ = response.Body.Close()
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip answers a request.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestLookups(t *testing.T) {
	owner := &unstructured.Unstructured{}
	owner.SetUID("1")
	digest := func(code int, text string) string {
		l := &lookups{owner: owner}
		l.note("it", code, []byte(text))
		return l.digest()
	}
	const own, foreign = `{"metadata":{"name":"own","ownerReferences":[{"uid":"1","controller":true}]},"data":{"a":"b"}}`, `{"metadata":{"name":"foreign","resourceVersion":"1"},"data":{"a":"b"}}`
	nothing := digest(http.StatusNotFound, `{"kind":"Status"}`)
	if got := digest(http.StatusOK, own); got != nothing {
		t.Error("an object of the release counts")
	}
	if got := digest(http.StatusOK, foreign); got == nothing || got != digest(http.StatusOK, `{"metadata":{"name":"foreign","resourceVersion":"2","managedFields":[{}]},"data":{"a":"b"}}`) {
		t.Error("another object does not count, or its version does")
	}
	if digest(http.StatusOK, foreign) == digest(http.StatusOK, `{"metadata":{"name":"foreign"},"data":{"a":"c"}}`) {
		t.Error("what is in it does not count")
	}
	if got, want := digest(http.StatusOK, `{"metadata":{"resourceVersion":"7"},"items":[`+own+","+foreign+`]}`), digest(http.StatusOK, `{"metadata":{"resourceVersion":"8"},"items":[`+foreign+`]}`); got != want {
		t.Error("an object of the release counts in a list, or the version of the list does")
	}
	if (&lookups{}).digest() != "" {
		t.Error("a chart that does not look has a digest")
	}
}

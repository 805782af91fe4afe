package release

import (
	"net/http"
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
		if got, _ := lookedUp(path); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

func TestLookups(t *testing.T) {
	owner := &unstructured.Unstructured{}
	owner.SetUID("1")
	digest := func(code int, text string) string {
		l := newLookups(owner, nil)
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
	if newLookups(owner, nil).digest() != "" {
		t.Error("a chart that does not look has a digest")
	}
}

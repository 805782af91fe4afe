package operator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type sender func(*http.Request) (*http.Response, error)

func (send sender) RoundTrip(request *http.Request) (*http.Response, error) { return send(request) }

func TestFence(t *testing.T) {
	const leases, object = "https://cluster/apis/coordination.k8s.io/v1/namespaces/a/leases", "https://cluster/api/v1/namespaces/a/configmaps"
	const lease = leases + "/b"
	synctest.Test(t, func(t *testing.T) {
		answer, takes := http.StatusOK, time.Duration(0)
		through := fenced{newFence("b", leaseDuration), sender(func(*http.Request) (*http.Response, error) {
			time.Sleep(takes)
			return &http.Response{StatusCode: answer, Body: http.NoBody}, nil
		})}
		passes := func(method, url string) bool {
			response, err := through.RoundTrip(httptest.NewRequest(method, url, http.NoBody))
			if err == nil {
				_ = response.Body.Close()
			}
			return err == nil
		}
		expect := func(when string, writes bool) {
			t.Helper()
			for method, want := range map[string]bool{http.MethodGet: true, http.MethodPost: writes, http.MethodPut: writes, http.MethodPatch: writes, http.MethodDelete: writes} {
				if passes(method, object) != want {
					t.Errorf("%s: %s passes: %v", when, method, !want)
				}
			}
		}
		time.Sleep(time.Hour)
		expect("a standby", true) // authenticates those who read its metrics
		passes(http.MethodPut, lease)
		time.Sleep(leaseDuration)
		expect("in the last moment of a lease", true)
		passes(http.MethodPut, lease)
		time.Sleep(leaseDuration - time.Second)
		passes(http.MethodPut, lease+"-of-a-chart")
		passes(http.MethodPatch, lease)
		expect("renewed", true)
		answer = http.StatusInternalServerError
		passes(http.MethodPut, lease)
		expect("a renewal that failed", true)
		answer = http.StatusConflict
		passes(http.MethodPut, lease)
		expect("a renewal that was refused", false)
		answer = http.StatusOK
		passes(http.MethodGet, lease)
		expect("another one has it", false)
		if !passes(http.MethodPost, leases) {
			t.Error("a lease that somebody has deleted can't be created anew")
		}
		expect("created anew", false)
		passes(http.MethodPut, lease)
		expect("renewed after that", true)
		time.Sleep(leaseDuration + time.Second)
		expect("a lease that has lapsed", false)
		if passes(http.MethodPut, lease) {
			t.Error("a lease that has lapsed is renewed")
		}
		expect("after that", false)
		if !passes(http.MethodGet, lease) {
			t.Error("leader election can't look who has it")
		}

		through.fence = newFence("b", leaseDuration)
		answer = http.StatusConflict
		passes(http.MethodPut, lease)
		answer = http.StatusOK
		expect("another standby was faster", true)
		time.Sleep(time.Second)
		takes = leaseDuration + time.Second // frozen between the renewal and its answer
		passes(http.MethodPut, lease)
		takes = 0
		expect("a renewal whose answer came late", false)
	})
}

// Once leader election sees the lease in an earlier version than before, nothing is written any more, and the process ends.
func TestFenceOfARestoredCluster(t *testing.T) {
	const lease, election, metrics = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "operator/v1 (linux/amd64)/leader-election", "operator/v1"
	f, version := newFence("b", leaseDuration), ""
	through := fenced{f, sender(func(*http.Request) (*http.Response, error) {
		text := `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"resourceVersion": "` + version + `"}}`
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
	})}
	answers := func(agent, method, path, itsVersion string) error {
		version = itsVersion
		request := httptest.NewRequest(method, "https://cluster"+path, http.NoBody)
		request.Header.Set("User-Agent", agent)
		response, err := through.RoundTrip(request)
		if err != nil {
			return err
		}
		if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), version) {
			t.Errorf("the answer to %s %s is %q, %v", method, path, text, err)
		}
		return response.Body.Close()
	}
	for _, request := range [][4]string{
		{election, http.MethodGet, lease, "9"}, {election, http.MethodPut, lease, "10"}, {election, http.MethodGet, lease, "10"},
		{metrics, http.MethodGet, lease, "9"}, {election, http.MethodPost, "/api/v1/namespaces/a/events", "2"}, {election, http.MethodPut, lease, "11"},
	} {
		if err := answers(request[0], request[1], request[2], request[3]); err != nil || f.isRestored() {
			t.Fatalf("after %q: %v", request, err)
		}
	}
	for range 2 {
		if err := answers(election, http.MethodGet, lease, "5"); err != nil || !f.isRestored() {
			t.Errorf("an earlier version: %v", err)
		}
	}
	if err := answers(metrics, http.MethodPatch, "/api/v1/namespaces/a/configmaps/b", "6"); err == nil {
		t.Error("it still writes")
	}
	if err := f.Start(t.Context()); err == nil {
		t.Error("the process goes on")
	}
}

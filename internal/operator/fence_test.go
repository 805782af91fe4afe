package operator

import (
	"net/http"
	"net/http/httptest"
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
		through := fenced{&fence{name: "b", lease: leaseDuration}, sender(func(*http.Request) (*http.Response, error) {
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

		through.fence = &fence{name: "b", lease: leaseDuration}
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

package integration

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var metricsReaderToken = sync.OnceValues(func() (string, error) {
	if err := env.client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta("default", "prometheus")}); err != nil {
		return "", err
	}
	if err := env.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", "prometheus"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"}},
	}); err != nil {
		return "", err
	}
	return token("default", "prometheus")
})

// metricsReader is the token of one who may read metrics.
func metricsReader(t *testing.T) string {
	t.Helper()
	login, err := metricsReaderToken()
	if err != nil {
		t.Fatal(err)
	}
	return login
}

func TestMetrics(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.must(env.client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "nobody")}))
	powerless, err := token(s.namespace, "nobody")
	s.must(err)

	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"without a token":     {"", http.StatusUnauthorized},
		"with a made-up one":  {"made-up", http.StatusUnauthorized},
		"without the right":   {powerless, http.StatusForbidden},
		"with metrics-reader": {metricsReader(t), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := operator.scrape(t, c.token)
			if status != c.want {
				t.Errorf("got %d, want %d: %s", status, c.want, body)
			}
			if has := strings.Contains(body, "controller_runtime_reconcile_total"); has != (c.want == http.StatusOK) {
				t.Errorf("there are metrics: %v", has)
			}
		})
	}
}

// What was done to releases is counted by action, result and reason, never by the name of a Welcome.
func TestReleaseMetrics(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	foreign := s.foreignService(s.namespace, "failing")
	s.create(welcome("failing"))
	s.awaitReason("failing", "ObjectInTheWay")
	s.must(env.client.Delete(ctx, foreign))
	s.create(welcome("hello").with("replicas", int64(2)))
	for _, name := range []string{"failing", "hello"} {
		s.runsAll(name)
		s.awaitReady(name)
	}
	s.must(env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.awaitEvent("hello", "DriftCorrected", "created again")
	s.settled(operator)

	for _, c := range []struct {
		metric, labels string
		want           float64
	}{
		{"welcome_operator_resources", `condition="Ready".*status="True"`, 2},
		{"welcome_operator_resources", `condition="Stalled".*status="True"`, 0},
		{"welcome_operator_release_actions_total", `action="drift-correction".*reason="",result="success"`, 1},
		{"welcome_operator_release_actions_total", `action="install",.*result="success"`, 2},
		{"welcome_operator_namespace_resources", s.namespace, 2},
		{"welcome_operator_namespace_replicas", s.namespace, 3},
		{"welcome_operator_namespace_requested_cpu_cores", s.namespace, 0.3},
		{"welcome_operator_namespace_requested_memory_bytes", s.namespace, 3 * 32 << 20},
		{"welcome_operator_build_info", "", 1},
	} {
		if got := operator.metric(t, c.metric, c.labels); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s{%s} is %v, not %v", c.metric, c.labels, got, c.want)
		}
	}
	if got := operator.metric(t, "welcome_operator_release_actions_total", `result="failure"`); got < 1 {
		t.Errorf("%v failures", got)
	}
	if got := operator.metric(t, "welcome_operator_release_actions_total", `reason="ObjectInTheWay",result="failure"`); got < 1 {
		t.Errorf("%v failures because of an object in the way", got)
	}
	if got := operator.metric(t, "rest_client_requests_total", `method="`); got < 1 {
		t.Errorf("%v requests by verb", got)
	}
	if got := operator.metric(t, "welcome_operator_resource_condition", ""); got != 0 {
		t.Error("there are metrics of single Welcomes, and nobody has asked for them")
	}
}

// Whoever pauses a Welcome and then lowers its requests pays for the pods, which go on as they are.
func TestMeteringOfWhatRuns(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create(welcome("hello").with("replicas", int64(2)))
	s.runsAll("hello")
	s.awaitReady("hello")
	s.pause()
	s.edit("hello", func(w *fixture) { w.with("resources.requests.cpu", "1m") })
	s.await("the edit is seen", func() error {
		object := s.welcome("hello")
		if seen, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); seen != object.GetGeneration() {
			return fmt.Errorf("generation %d, not %d", seen, object.GetGeneration())
		}
		return nil
	})
	if got := operator.metric(t, "welcome_operator_namespace_requested_cpu_cores", s.namespace); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("%v cores, not 0.2", got)
	}
	if got := operator.metric(t, "welcome_operator_longest_not_ready_seconds", ""); got != 0 {
		t.Errorf("a paused Welcome has not been ready for %v s", got)
	}
}

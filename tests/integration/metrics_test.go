package integration

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

var metricsReaderToken = sync.OnceValues(func() (string, error) {
	if err := env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta("default", "prometheus")}); err != nil {
		return "", err
	}
	if err := env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", "prometheus"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"}},
	}); err != nil {
		return "", err
	}
	return env.Token(ctx, "default", "prometheus")
})

// metricsReader is a token with the right to read metrics.
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
	s.deploy("of-no-series")
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "nobody")}))
	powerless, err := env.Token(ctx, s.namespace, "nobody")
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
			if has := strings.Contains(body, "welcome_operator_build_info"); has != (c.want == http.StatusOK) {
				t.Errorf("there are metrics: %v", has)
			}
			if strings.Contains(body, "of-no-series") {
				t.Errorf("there are series of single custom resources\n%s", body)
			}
		})
	}
}

// Whoever tries tokens makes the operator ask the API server a few times, and keeps nobody from reading the metrics.
func TestMetricsAskLittle(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	reader := metricsReader(t)
	// asked is how many questions try made the operator ask.
	asked := func(try func()) int {
		t.Helper()
		from, err := env.Mark(ctx)
		s.must(err)
		try()
		asked, err := env.Requests(ctx, from, func(one controlplane.Request) bool {
			return slices.Contains(one.User.Extra["authentication.kubernetes.io/credential-id"], operator.credential) && one.AsksForRights()
		})
		s.must(err)
		t.Log(asked)
		return len(asked)
	}
	scrape := func(client *http.Client, token string, want ...int) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+operator.Metrics+"/metrics", nil)
		s.must(err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		s.must(err)
		_, err = io.Copy(io.Discard, response.Body)
		s.must(errors.Join(err, response.Body.Close()))
		if !slices.Contains(want, response.StatusCode) {
			t.Fatalf("got %d, want one of %d", response.StatusCode, want)
		}
	}
	from := func(address string) *http.Client {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	prometheus, stranger, another := from("127.0.0.2"), from("127.0.0.3"), from("127.0.0.4")
	s.await("metrics are served", func() error {
		conn, err := net.Dial("tcp", operator.Metrics)
		if err == nil {
			err = conn.Close()
		}
		return err
	})

	if got := asked(func() {
		for range 100 {
			scrape(prometheus, reader, http.StatusOK)
		}
	}); got != 2 {
		t.Errorf("100 scrapes cost %d questions, not 2", got)
	}
	if got := asked(func() {
		for range 1000 {
			scrape(stranger, "made-up", http.StatusUnauthorized)
		}
	}); got != 1 {
		t.Errorf("1000 requests with one bad token cost %d questions, not 1", got)
	}
	start := time.Now()
	got := asked(func() {
		for i := range 1000 {
			scrape(stranger, fmt.Sprintf("made-up-%d", i), http.StatusUnauthorized, http.StatusTooManyRequests)
			scrape(prometheus, reader, http.StatusOK)
		}
		s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "new")}))
		token, err := env.Token(ctx, s.namespace, "new")
		s.must(err)
		scrape(another, token, http.StatusForbidden) // asked about, and not refused because of the stranger
	})
	if limit := 10 + 2 + 2 + int(time.Since(start).Seconds()); got > limit { // a burst, the new one, Prometheus again after a minute, one a second
		t.Errorf("1000 requests with different bad tokens cost %d questions, not up to %d", got, limit)
	}
}

// What was done to releases is counted by action, result and reason, never by the name of a Welcome.
func TestReleaseMetrics(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	foreign := s.foreignService(s.namespace, "failing")
	s.create("failing")
	s.awaitReason("failing", "ObjectInTheWay")
	s.must(env.Client.Delete(ctx, foreign))
	s.create("hello", kit.Set("replicas", 2))
	for _, name := range []string{"failing", "hello"} {
		s.bringUp(name)
	}
	s.deleteService("hello")
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
		s.awaitMetric(operator, c.metric, c.labels, c.want)
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
	if got := operator.metric(t, "welcome_operator_memory_limit_ratio", ""); got <= 0 || got >= 1 {
		t.Errorf("it uses %v of the memory that it may have", got)
	}
	operator.Stop()
	operator = s.ownOperator(settings{namespaces: []string{s.namespace}, args: []string{"--metrics-per-resource"}})
	for _, name := range []string{"failing", "hello"} {
		s.awaitMetric(operator, "welcome_operator_resource_condition", `condition="Ready".*name="`+name+`",namespace="`+s.namespace+`"`, 1)
	}
}

// awaitMetric waits until a metric has a value: metrics of objects follow the events of the cache.
func (s *scene) awaitMetric(operator *process, name, labels string, want float64) {
	s.Helper()
	s.await(fmt.Sprintf("%s{%s} is %v", name, labels, want), func() error {
		if got := operator.metric(s.T, name, labels); math.Abs(got-want) > 1e-9 {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// Whoever pauses a Welcome and then lowers its requests pays for the pods, which go on as they are.
func TestMeteringOfWhatRuns(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create("hello", kit.Set("replicas", 2))
	s.bringUp("hello")
	s.pause()
	s.edit("hello", kit.Set("resources.requests.cpu", "1m"))
	s.await("the edit is seen", func() error { return kit.Seen(s.welcome("hello")) })
	s.awaitMetric(operator, "welcome_operator_namespace_requested_cpu_cores", s.namespace, 0.2)
	if got := operator.metric(t, "welcome_operator_longest_not_ready_seconds", ""); got != 0 {
		t.Errorf("a paused Welcome has not been ready for %v s", got)
	}
}

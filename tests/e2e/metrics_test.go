package e2e

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Only accounts that have the right by RBAC may read the metrics.
func TestMetrics(t *testing.T) {
	s := newScene(t)
	s.kubectl("create", "serviceaccount", "nobody")
	reader := s.metricsReader()
	url := "https://" + s.forward("service/"+operatorName+"-metrics-service", "8443") + "/metrics"

	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"without a token":     {"", http.StatusUnauthorized},
		"without the right":   {s.kubectl("create", "token", "nobody"), http.StatusForbidden},
		"with metrics-reader": {reader, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := kit.Scrape(t.Context(), url, c.token)
			if err != nil {
				t.Fatal(err)
			}
			if status != c.want {
				t.Errorf("got %d, want %d: %.200s", status, c.want, body)
			}
			if has := strings.Contains(body, "welcome_operator_build_info"); has != (c.want == http.StatusOK) {
				t.Errorf("there are metrics: %v", has)
			}
		})
	}
}

// metricsReader creates a ServiceAccount that may read the operator's metrics, and returns its token.
func (s *scene) metricsReader() string {
	s.Helper()
	s.kubectl("create", "serviceaccount", "prometheus")
	binding := s.namespace + "-metrics"
	s.kubectl("create", "clusterrolebinding", binding, "--clusterrole=welcome-operator-metrics-reader", "--serviceaccount="+s.namespace+":prometheus")
	s.Cleanup(func() { s.kubectl("delete", "clusterrolebinding", binding) })
	return s.kubectl("create", "token", "prometheus")
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward forwards a port of the operator's namespace, past its network policy, until the test ends. It returns the
// address on this machine.
func (s *scene) forward(to, port string) string {
	s.Helper()
	cmd := kit.Tool(s.Context(), "kubectl", "--namespace="+operatorNamespace, "port-forward", to, ":"+port)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	stdout, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address := forwarding.FindStringSubmatch(line)
	if address == nil {
		s.Fatalf("kubectl port-forward says %q (%v): %s", line, err, complaints.String())
	}
	return address[1]
}

package e2e

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Metrics are for those whom the cluster's own RBAC lets read them.
func TestMetrics(t *testing.T) {
	s := newScene(t)
	s.kubectl("create", "serviceaccount", "prometheus")
	s.kubectl("create", "serviceaccount", "nobody")
	binding := s.namespace + "-metrics"
	s.kubectl("create", "clusterrolebinding", binding, "--clusterrole=welcome-operator-metrics-reader", "--serviceaccount="+s.namespace+":prometheus")
	t.Cleanup(func() { s.kubectl("delete", "clusterrolebinding", binding) })
	url := "https://" + s.forward("service/"+operatorName+"-metrics-service", "8443") + "/metrics"

	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"without a token":     {"", http.StatusUnauthorized},
		"without the right":   {s.kubectl("create", "token", "nobody"), http.StatusForbidden},
		"with metrics-reader": {s.kubectl("create", "token", "prometheus"), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			response, err := scraper.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != c.want {
				t.Errorf("got %s, want %d: %.200s", response.Status, c.want, body)
			}
			if has := strings.Contains(string(body), "controller_runtime_reconcile_total"); has != (c.want == http.StatusOK) {
				t.Errorf("there are metrics: %v", has)
			}
		})
	}
}

// scraper trusts any certificate: the operator signs its own.
var scraper = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward is the address on this machine of a port in the operator's namespace, past its network policy, until the
// test ends.
func (s *scene) forward(to, port string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(root, "bin", "kubectl"), "--namespace="+operatorNamespace, "port-forward", to, ":"+port)
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

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// A real Prometheus (Debian's) scrapes the operator over TLS with the token of a ServiceAccount. Alerts fire for a
// broken Welcome, and resolve when it is repaired.
func TestPrometheus(t *testing.T) {
	s := newScene(t)
	p := s.startPrometheus()
	s.await("Prometheus scrapes the operator", func() error { return p.has(`up{job="welcome-operator"} == 1`) })
	start := time.Now().Truncate(time.Second)
	s.await("nothing fires", func() error { return p.firing("WelcomeNotReady", false) })

	s.kubectl("create", "service", "clusterip", "hello", "--tcp=80")
	s.welcome("hello", kit.Greet("prometheus"), kit.Set("service.type", "ClusterIP"))
	s.awaitOutput("the Welcome tells why it is not ready", "ObjectInTheWay", "get", "welcome", "hello", `--output=jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
	for _, alert := range []string{"WelcomeNotReady", "WelcomeStalled"} {
		s.await(alert+" fires", func() error { return p.firing(alert, true) })
	}

	s.kubectl("delete", "service", "hello")
	s.awaitReady("hello")
	for _, alert := range []string{"WelcomeNotReady", "WelcomeStalled"} {
		s.await(alert+" is resolved", func() error { return p.firing(alert, false) })
	}

	s.await("the namespace is billed for its CPU", func() error {
		return p.has(fmt.Sprintf("namespace:welcome_requested_cpu:cores{namespace=%q} == 0.1", s.namespace))
	})
	s.await("the failures are counted with their reason", func() error {
		return p.has(`welcome_operator_release_actions_total{reason="ObjectInTheWay", result="failure"} > 0`)
	})

	s.busyMinute(p)
	s.await("the last Welcome is counted as stalled", func() error { return p.has(`welcome_operator_resources{condition="Stalled", status="True"} == 1`) })
	s.drawDashboard(p, start)
}

// busyMinute causes something of everything that the dashboard shows: a dozen Welcomes are created, some drift, some
// are edited, some are deleted, and one never becomes ready.
func (s *scene) busyMinute(p prometheus) {
	// Prometheus must scrape a counter once before it grows: it ignores what is counted at the first scrape.
	counted := func(action string, count int) {
		s.await(fmt.Sprintf("%s is counted", action), func() error {
			return p.has(fmt.Sprintf("sum(welcome_operator_release_actions_total{action=%q, result=\"success\"}) >= %d", action, count))
		})
	}
	guest := func(i int) string { return fmt.Sprintf("guest-%d", i) }
	small := []kit.Edit{kit.Set("service.type", "ClusterIP"), kit.Set("resources.requests.cpu", "20m")}
	for i := 0; i < 12; i += 3 {
		for j := range 3 {
			s.welcome(guest(i+j), small...)
		}
		for j := range 3 {
			s.awaitReady(guest(i + j))
		}
	}
	for i := range 6 {
		s.kubectl("patch", "deployment", guest(i), "--type=merge", `--patch={"spec":{"minReadySeconds":1}}`)
		s.awaitOutput("the drift of "+guest(i)+" is put back", "", "get", "deployment", guest(i), "--output=jsonpath={.spec.minReadySeconds}")
		counted("drift-correction", i+1)
	}
	for i := 4; i < 8; i++ {
		s.patch(guest(i), `{"name":"everyone"}`)
		s.awaitReady(guest(i))
	}
	for i := 8; i < 12; i++ {
		s.kubectl("delete", "welcome", guest(i))
		counted("uninstall", i-7)
	}
	s.kubectl("create", "service", "clusterip", "late", "--tcp=80")
	s.welcome("late", small...)
}

// prometheus is a Prometheus on this machine.
type prometheus struct{ address string }

// startPrometheus starts one that scrapes the operator every two seconds, which leaves a busy machine enough
// time for each scrape. Its rules are those of config/prometheus, with shorter waits.
func (s *scene) startPrometheus() prometheus {
	s.Helper()
	dir := s.TempDir()
	target := s.forward("pod/"+s.leader(), "8443") // the other replica counts nothing
	for file, text := range map[string]string{
		"token":      s.metricsReader(),
		"rules.yaml": s.impatientRules(),
		"prometheus.yaml": fmt.Sprintf(`global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: welcome-operator
  scheme: https
  honor_labels: true
  authorization: {credentials_file: token}
  tls_config: {insecure_skip_verify: true}
  static_configs: [{targets: [%q]}]
`, target),
	} {
		s.must(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	address, err := kit.FreeAddress()
	s.must(err)
	p := prometheus{address: address}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		s.Fatalf("%v (Debian: apt-get install prometheus)", err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("Prometheus wrote:\n%s", log.String())
		}
	})
	return p
}

var patienceOfRules = regexp.MustCompile(`(?m)^([ -]+(for|keep_firing_for|interval): ).*$`)

func (s *scene) impatientRules() string {
	s.Helper()
	text, err := os.ReadFile(kit.File("config/prometheus/rules.yaml"))
	s.must(err)
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	s.must(yaml.Unmarshal(text, &object))
	rules, err := yaml.Marshal(object.Spec)
	s.must(err)
	const age = "welcome_operator_longest_not_ready_seconds) > "
	if !strings.Contains(string(rules), age+"600") {
		s.Fatalf("No rule has %q to shorten:\n%s", age+"600", rules)
	}
	return patienceOfRules.ReplaceAllString(strings.ReplaceAll(string(rules), age+"600", age+"1"), "${1}1s")
}

// get asks Prometheus' API.
func (p prometheus) get(path string, answer any) error {
	response, err := http.Get("http://" + p.address + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// has returns nil if a query returns a result.
func (p prometheus) has(query string) error {
	var answer struct {
		Data struct{ Result []any }
	}
	if err := p.get("query?query="+url.QueryEscape(query), &answer); err != nil {
		return err
	}
	if len(answer.Data.Result) == 0 {
		return fmt.Errorf("no result of %s", query)
	}
	return nil
}

// firing returns nil if an alert fires, or does not, as wanted.
func (p prometheus) firing(alert string, want bool) error {
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
				Value  string
			}
		}
	}
	if err := p.get("alerts", &answer); err != nil {
		return err
	}
	is := false
	for _, a := range answer.Data.Alerts {
		is = is || a.Labels["alertname"] == alert && a.State == "firing"
	}
	if is != want {
		return fmt.Errorf("%s fires: %v; alerts: %v", alert, is, answer.Data.Alerts)
	}
	return nil
}

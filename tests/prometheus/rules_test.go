// Package prometheus tests the alerts and the metering of config/prometheus with promtool (Debian: prometheus).
package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	rulesFile = "../../config/prometheus/rules.yaml"
	unitTests = "testdata/rules_test.yaml"
	runbook   = "../../docs/runbook.md"
)

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type group struct {
	Rules []rule `json:"rules"`
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// spec is the spec of the PrometheusRule, which is what promtool and Prometheus read.
func spec(t *testing.T) (text []byte, rules []rule) {
	t.Helper()
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &object); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var groups struct {
		Groups []group `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return text, rules
}

func TestRules(t *testing.T) {
	dir := t.TempDir()
	text, _ := spec(t)
	tests := filepath.Join(dir, "rules_test.yaml")
	for file, content := range map[string][]byte{filepath.Join(dir, "rules.yaml"): text, tests: []byte(read(t, unitTests))} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", filepath.Join(dir, "rules.yaml")}, {"test", "rules", tests}} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("promtool %s: %v (Debian: apt-get install prometheus)\n%s", strings.Join(args, " "), err, out)
		}
		t.Logf("promtool %s:\n%s", strings.Join(args, " "), out)
	}
}

// Every rule has a unit test, and every alert a section in the runbook.
func TestRulesAreTestedAndExplained(t *testing.T) {
	_, rules := spec(t)
	tests, book := read(t, unitTests), read(t, runbook)
	for _, rule := range rules {
		if rule.Record != "" {
			if !strings.Contains(tests, rule.Record) || !strings.Contains(book, rule.Record) {
				t.Errorf("%s is not tested in %s, or not explained in %s", rule.Record, unitTests, runbook)
			}
			continue
		}
		if !strings.Contains(tests, "alertname: "+rule.Alert+"\n") {
			t.Errorf("no test in %s has %s fire", unitTests, rule.Alert)
		}
		if !strings.Contains(book, "\n## "+rule.Alert+"\n") || rule.Annotations["runbook_url"] != "https://demo.welcome.domain/welcome-operator/docs/runbook.md#"+strings.ToLower(rule.Alert) {
			t.Errorf("%s has no section in %s, or does not name it: %q", rule.Alert, runbook, rule.Annotations["runbook_url"])
		}
	}
}

var ourMetrics = regexp.MustCompile(`welcome_operator_[a-z_]+`)

// Rules, dashboard and documents name only metrics that the operator has.
func TestMetricNames(t *testing.T) {
	code := read(t, "../../internal/operator/metrics.go") + read(t, "../../internal/operator/resources.go")
	known := ourMetrics.FindAllString(code, -1)
	for _, file := range []string{rulesFile, runbook, "../../config/prometheus/dashboard.json", "../../docs/metrics.md"} {
		for _, name := range ourMetrics.FindAllString(read(t, file), -1) {
			if base := strings.TrimSuffix(name, "_bucket"); !slices.Contains(known, base) {
				t.Errorf("%s asks for %s, which the operator does not have", file, name)
			}
		}
	}
}

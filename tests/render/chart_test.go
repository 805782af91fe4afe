package render

import (
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const chartDir = root + "/helm-charts/welcome"

func TestLintStrict(t *testing.T) {
	lint := action.NewLint()
	lint.Strict = true
	result := lint.Run([]string{chartDir}, map[string]any{})
	for _, err := range result.Errors {
		t.Error(err)
	}
	for _, message := range result.Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
}

// What a template renders depends on its values alone: the operator renders again and again, and takes any difference for an
// edit.
func TestTemplatesAreDeterministic(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"reads the cluster":                  regexp.MustCompile(`\blookup\b`),
		"is different each time":             regexp.MustCompile(`\b(rand[A-Z]\w*|shuffle|uuidv4|now|ago|gen[A-Z]\w*|htpasswd|bcrypt|encryptAES)\b`),
		"runs a value as a template":         regexp.MustCompile(`\btpl\b`),
		"asks DNS":                           regexp.MustCompile(`\bgetHostByName\b`),
		"is a list, which nobody can follow": regexp.MustCompile(`(?m)^\s*kind:\s*\S*List\b`),
	}
	for _, file := range loadChart(t).Templates {
		for why, pattern := range forbidden {
			if found := pattern.FindString(string(file.Data)); found != "" {
				t.Errorf("%s: %q %s", file.Name, strings.TrimSpace(found), why)
			}
		}
	}
}

// Helpers share one namespace with those of every other chart.
func TestHelpersHaveThePrefixOfTheChart(t *testing.T) {
	define := regexp.MustCompile(`define "([^"]+)"`)
	for _, file := range loadChart(t).Templates {
		for _, match := range define.FindAllStringSubmatch(string(file.Data), -1) {
			if !strings.HasPrefix(match[1], "welcome.") {
				t.Errorf("%s: helper %q: name it welcome.%[2]s", file.Name, match[1])
			}
		}
	}
}

func TestQuantitiesAreCanonical(t *testing.T) {
	for _, cpu := range []string{"1", "0.5", "0.25", "1.5", "100m", "1000m", "1500m", "2.0", "0.1", "0.001", "999"} {
		for _, memory := range []string{"32Mi", "1024Mi", "1Gi", "2048Mi", "65536Ki", "40000Ki", "64M", "100000k", "1000M", "1048576Ki"} {
			applied := kit.Welcome("", "hello", kit.Set("resources.requests.cpu", "1m"), kit.Set("resources.requests.memory", "16Mi"),
				kit.Set("resources.limits.cpu", cpu), kit.Set("resources.limits.memory", memory))
			for _, object := range renderedObjects(t, applied) {
				containers, found, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
				if !found {
					continue
				}
				limits, _, _ := unstructured.NestedStringMap(containers[0].(map[string]any), "resources", "limits")
				for name, spelling := range map[string]string{"cpu": cpu, "memory": memory} {
					want := resource.MustParse(spelling)
					if limits[name] != want.String() {
						t.Errorf("%s %s is rendered as %q, and the API server stores %q", name, spelling, limits[name], want.String())
					}
				}
			}
		}
	}
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	chrt, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return chrt
}

package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

func TestDigestFollowsEveryInput(t *testing.T) {
	base := func() inputs {
		return inputs{Chart: "c", Capabilities: "k", Values: map[string]any{"name": "a", "service": map[string]any{"port": int64(80)}}}
	}
	want, err := base().digest()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := base().digest(); again != want {
		t.Errorf("equal inputs have the digests %s and %s", want, again)
	}
	changes := map[string]func(*inputs){
		"chart":        func(i *inputs) { i.Chart = "d" },
		"capabilities": func(i *inputs) { i.Capabilities = "l" },
		"value":        func(i *inputs) { i.Values["name"] = "b" },
		"nested value": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = int64(81) },
		"new value":    func(i *inputs) { i.Values["x"] = nil },
		"value's type": func(i *inputs) { i.Values["service"].(map[string]any)["port"] = "80" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			changed := base()
			change(&changed)
			if got, _ := changed.digest(); got == want {
				t.Error("the digest did not change")
			}
		})
	}
}

func TestSource(t *testing.T) {
	of := func(template string, dependencies ...*chart.Chart) *chart.Chart {
		file := &chart.File{Name: "templates/a.yaml", Data: []byte(template)}
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Raw: []*chart.File{file}, Templates: []*chart.File{file}}
		c.AddDependency(dependencies...)
		return c
	}
	if newChartSource(of("a")).digest == newChartSource(of("b")).digest {
		t.Error("another template has the same digest")
	}
	for template, pure := range map[string]bool{
		`name: {{ .Release.Name }}`:                       true,
		`nowhere: {{ .Values.lookups }}`:                  true,
		`{{ lookup "v1" "Secret" "ns" "x" }}`:             false,
		`pw: {{ randAlphaNum 8 }}`:                        false,
		`at: {{ now | date "2006" }}`:                     false,
		`{{ $ca := genCA "x" 1 }}`:                        false,
		`revision: {{ .Release.Revision | quote }}`:       false,
		`{{ if .Release.IsInstall }}first: true{{ end }}`: false,
		`version: {{ .Capabilities.KubeVersion }}`:        true,
	} {
		if got := newChartSource(of(template)).pure; got != pure {
			t.Errorf("pure(%s) = %v", template, got)
		}
		if got, asks := newChartSource(of(template)).asksCluster, strings.Contains(template, "Capabilities"); got != asks {
			t.Errorf("asksCluster(%s) = %v", template, got)
		}
		if got := newChartSource(of("a", of(template))).pure; got != pure {
			t.Errorf("pure as a subchart(%s) = %v", template, got)
		}
	}
}

func TestCapabilitiesDigestIgnoresOrder(t *testing.T) {
	a := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"v1", "apps/v1"}}
	b := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"apps/v1", "v1"}}
	if capabilitiesDigest(a) != capabilitiesDigest(b) {
		t.Error("the order of APIs changes the digest")
	}
	b.KubeVersion.Version = "v1.36.0"
	if capabilitiesDigest(a) == capabilitiesDigest(b) {
		t.Error("another server version has the same digest")
	}
}

// Helm takes subcharts that the values disable out of the chart that it renders. The next release has other values.
func TestPrivate(t *testing.T) {
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "c", Dependencies: []*chart.Dependency{{Name: "sub", Condition: "sub.enabled"}}},
		Values:   map[string]any{"sub": map[string]any{"enabled": true}},
	}
	c.AddDependency(&chart.Chart{Metadata: &chart.Metadata{Name: "sub"}, Values: map[string]any{"a": "b"}})
	mine := private(c)
	if err := chartutil.ProcessDependenciesWithMerge(mine, map[string]any{"sub": map[string]any{"enabled": false}}); err != nil {
		t.Fatal(err)
	}
	if len(mine.Dependencies()) != 0 {
		t.Errorf("the subchart is not disabled: %v", mine.Dependencies())
	}
	if len(c.Dependencies()) != 1 || len(c.Metadata.Dependencies) != 1 || c.Dependencies()[0].Parent() != c {
		t.Errorf("the chart itself has lost its subchart: %v, %v", c.Dependencies(), c.Metadata.Dependencies)
	}
	again := private(c)
	if err := chartutil.ProcessDependenciesWithMerge(again, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if len(again.Dependencies()) != 1 || again.Dependencies()[0].Parent() != again {
		t.Errorf("the next one lacks the subchart: %v", again.Dependencies())
	}
}

package release

import (
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

func TestSource(t *testing.T) {
	of := func(template string, dependencies ...*chart.Chart) *chart.Chart {
		file := &chart.File{Name: "templates/a.yaml", Data: []byte(template)}
		c := &chart.Chart{
			Metadata: &chart.Metadata{Name: "c"}, Raw: []*chart.File{file},
			Templates: []*chart.File{file, {Name: "templates/NOTES.txt", Data: []byte("{{ lookup .Capabilities }}")}},
		}
		c.AddDependency(dependencies...)
		return c
	}
	if newChartSource(of("a")).digest == newChartSource(of("b")).digest {
		t.Error("another template has the same digest")
	}
	nothing, capabilities, objects := questions{}, questions{capabilities: true}, questions{objects: true}
	for template, want := range map[string]questions{
		`name: {{ .Release.Name }}`:                                            nothing,
		`nowhere: {{ .Values.lookups }}`:                                       nothing,
		`pw: {{ randAlphaNum 8 }}`:                                             nothing,
		`{{/* lookup */}}now: "{{ "lookup" }}" # .Capabilities`:                nothing,
		`{{ lookup "v1" "Secret" "ns" "x" }}`:                                  objects,
		`{{ if .Values.a }}{{ else }}{{ (lookup "v1" "a" "" "").b }}{{ end }}`: objects,
		`{{ define "a" }}{{ lookup "v1" "ConfigMap" "" "" }}{{ end }}`:         objects,
		`{{ range $i, $e := (lookup .Values.text $) }}{{ end }}`:               objects,
		`{{ template "a" (.Files.Get "a" | lookup) }}`:                         objects,
		`{{ with $.Capabilities }}{{ .KubeVersion }}{{ end }}`:                 capabilities,
		`version: {{ .Capabilities.KubeVersion }}`:                             capabilities,
		`{{ lookup .Capabilities.KubeVersion "ConfigMap" "" "" }}`:             {capabilities: true, objects: true},
	} {
		if got := newChartSource(of(template)).asks; got != want {
			t.Errorf("%s asks %+v, not %+v", template, got, want)
		}
		if got := newChartSource(of("a", of(template))).asks; got != want {
			t.Errorf("in a subchart, %s asks %+v, not %+v", template, got, want)
		}
	}
}

// What a template gives to tpl may ask as well.
func TestValuesThatAsk(t *testing.T) {
	of := func(template, defaults string) chartSource {
		file := &chart.File{Name: "templates/a.yaml", Data: []byte(template)}
		return newChartSource(&chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{file}, Values: map[string]any{"text": defaults}})
	}
	const evaluates, values = `{{ tpl .Values.text . }}`, `{"text": "{{ .Capabilities.KubeVersion }}{{ lookup }}"}`
	all := questions{capabilities: true, objects: true}
	if got := of(evaluates, "").questions(values); got != all {
		t.Errorf("values that a template evaluates: %+v", got)
	}
	if got := of(evaluates, values).questions("{}"); got != all {
		t.Errorf("defaults that a template evaluates: %+v", got)
	}
	if got := of(evaluates, "lookup of .Capabilities").questions("{}"); got != (questions{}) {
		t.Errorf("values that ask nothing: %+v", got)
	}
	if got := of(`{{ .Values.text }}`, values).questions(values); got != (questions{}) {
		t.Errorf("values that no template evaluates: %+v", got)
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

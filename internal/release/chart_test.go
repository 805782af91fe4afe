package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
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

// What templates read of a chart's other files are objects of the release, and may ask as well.
// A subchart that is packed anew is the same, and another one is not.
func TestDigestOfPackedSubcharts(t *testing.T) {
	digest := func(template string, level int) string {
		var packed bytes.Buffer
		compressed, err := gzip.NewWriterLevel(&packed, level)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewWriter(compressed)
		for name, text := range map[string]string{"sub/Chart.yaml": "{apiVersion: v2, name: sub, version: 0.1.0}", "sub/templates/a.yaml": template} {
			if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(int64(level), 0)}); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
			t.Fatal(err)
		}
		c, err := loader.LoadFiles([]*loader.BufferedFile{
			{Name: "Chart.yaml", Data: []byte("{apiVersion: v2, name: whole, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0}]}")},
			{Name: "charts/sub-0.1.0.tgz", Data: packed.Bytes()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return ChartDigest(c)
	}
	if digest("a: b", gzip.BestSpeed) != digest("a: b", gzip.BestCompression) {
		t.Error("a subchart that is packed anew is another one")
	}
	if digest("a: b", gzip.BestSpeed) == digest("a: c", gzip.BestSpeed) {
		t.Error("another subchart is the same")
	}
}

func TestFilesThatTemplatesRead(t *testing.T) {
	of := func(template, name, text string) chartSource {
		return newChartSource(&chart.Chart{
			Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte(template)}}, Files: []*chart.File{{Name: name, Data: []byte(text)}},
		})
	}
	const (
		reads = `{{ range $path, $_ := .Files.Glob "files/*" }}{{ tpl ($.Files.Get $path) $ }}{{ end }}`
		text  = `{helm.sh/hook: pre-delete}: {{ randAlphaNum 8 }}{{ lookup "v1" "Secret" "" "" }}{{ .Capabilities.KubeVersion }}`
	)
	source := of(reads, "files/a.yaml", text)
	if !source.hooking || !source.deleteHooks || !source.chancy || source.asks != (questions{capabilities: true, objects: true}) {
		t.Errorf("files that are read: %+v", source)
	}
	for name, other := range map[string]chartSource{
		"files that nothing reads": of("a: b", "files/a.yaml", text), "what is for people": of(reads, "README.md", text), "a word": of(reads, "files/dashboard.json", `{"to": "now"}`),
	} {
		if other.hooking || other.deleteHooks || other.chancy || other.asks != (questions{}) {
			t.Errorf("%s: %+v", name, other)
		}
	}
}

// Functions that take the time for what is none, or lose the order of a map, render something else each time.
func TestFunctionsOfChance(t *testing.T) {
	for template, want := range map[string]struct{ chancy, timed bool }{
		`{{ date "2006-01-02T15:04:05" "" }}`:                                             {true, true},
		`{{ htmlDateInZone .Values.none "UTC" }}`:                                         {true, true},
		`{{ ago .Values.since }}`:                                                         {true, true},
		`{{ if true }}{{ keys .Values.labels | join "," }}{{ end }}`:                      {true, false},
		`{{ values .Values.labels | first }}`:                                             {true, false},
		`{{ shuffle "abc" }}`:                                                             {true, false},
		`{{ now | unixEpoch }}`:                                                           {true, true},
		"# keys, values and their date\na: {{ .Values.keys }}{{ .date }}{{ dateModify }}": {false, false},
		`{{ durationRound .Values.since }}`:                                               {true, true},
	} {
		source := newChartSource(&chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte(template)}}})
		if source.chancy != want.chancy || source.timed != want.timed {
			t.Errorf("%s: chancy %t, timed %t", template, source.chancy, source.timed)
		}
	}
}

// So does what a template gives to tpl.
func TestValuesOfChance(t *testing.T) {
	source := newChartSource(&chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte("{{ tpl .Values.text . }}")}}})
	for text, want := range map[string]bool{"{{ keys .Values.labels }}": true, "{{ randAlpha 3 }}": true, "a date, and {{ .Values.name }}": false} {
		if got := source.chances(map[string]any{"text": text}); got != want {
			t.Errorf("%s: %t", text, got)
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

// Only what is sure to be as the chart wants it is not validated by Helm.
func TestAccepts(t *testing.T) {
	const small = `{"properties": {"replicas": {"$ref": "#/definitions/small"}}, "definitions": {"small": {"type": "integer", "maximum": 3}}}`
	of := func(schema string, dependencies ...*chart.Chart) chartSource {
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Schema: []byte(schema)}
		c.AddDependency(dependencies...)
		return newChartSource(c)
	}
	fine, wrong := map[string]any{"replicas": int64(2)}, map[string]any{"replicas": int64(4)}
	if source := of(small); !source.accepts(fine) || source.accepts(wrong) || source.accepts(map[string]any{"replicas": "2"}) {
		t.Error("accepts other values than the schema")
	}
	for name, source := range map[string]chartSource{
		"no schema": newChartSource(&chart.Chart{Metadata: &chart.Metadata{Name: "c"}}), "no JSON": of("{"), "no schema's": of(`{"type": 1}`),
		"a subchart": of(small, &chart.Chart{Metadata: &chart.Metadata{Name: "d"}}),
	} {
		if source.accepts(fine) {
			t.Errorf("%s: accepted, where Helm is to look", name)
		}
	}
}

// Helm takes subcharts that the values disable out of the chart that it renders. The next release has other values.
func TestPrivate(t *testing.T) {
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "c", Dependencies: []*chart.Dependency{{Name: "sub", Condition: "sub.enabled"}}},
		Values:   map[string]any{"sub": map[string]any{"enabled": true}},
	}
	c.AddDependency(&chart.Chart{Metadata: &chart.Metadata{Name: "sub"}, Values: map[string]any{"a": "b"}})
	mine := Private(c)
	if err := chartutil.ProcessDependenciesWithMerge(mine, map[string]any{"sub": map[string]any{"enabled": false}}); err != nil {
		t.Fatal(err)
	}
	if len(mine.Dependencies()) != 0 {
		t.Errorf("the subchart is not disabled: %v", mine.Dependencies())
	}
	if len(c.Dependencies()) != 1 || len(c.Metadata.Dependencies) != 1 || c.Dependencies()[0].Parent() != c {
		t.Errorf("the chart itself has lost its subchart: %v, %v", c.Dependencies(), c.Metadata.Dependencies)
	}
	again := Private(c)
	if err := chartutil.ProcessDependenciesWithMerge(again, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if len(again.Dependencies()) != 1 || again.Dependencies()[0].Parent() != again {
		t.Errorf("the next one lacks the subchart: %v", again.Dependencies())
	}
}

// What a chart makes anew each time, and its hooks, are found in templates and in what they run; hooks also
// in values, of which a template makes annotations.
func TestWhatIsNotRepeated(t *testing.T) {
	of := func(template string) chartSource {
		file := &chart.File{Name: "templates/a.yaml", Data: []byte(template)}
		return newChartSource(&chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{file}})
	}
	for template, want := range map[string]struct{ chances, hooks bool }{
		`name: {{ .Release.Name }}`:                  {},
		`generated: {{ .Values.random }}`:            {},
		`password: {{ randAlphaNum 8 }}`:             {chances: true},
		`{{ $ca := genCA "a" 1 }}`:                   {chances: true},
		`at: {{ now | unixEpoch }}`:                  {chances: true},
		`annotations: {"helm.sh/hook": pre-install}`: {hooks: true},
		`{{ tpl .Values.text . }}`:                   {chances: true},
	} {
		values := map[string]any{"text": `{{ uuidv4 }}`}
		if source := of(template); source.chances(values) != want.chances || source.hooks(values) != want.hooks {
			t.Errorf("%s: %v, %v", template, source.chances(values), source.hooks(values))
		}
	}
	for template, want := range map[string]bool{
		`name: {{ .Release.Name }}`: false, `{{ if .Release.IsUpgrade }}`: true, `{{ if not $.Release.IsInstall }}`: true, `revision: {{ .context.Release.Revision }}`: true, `{{ .Values.revisionHistoryLimit }}`: false,
	} {
		if got := of(template).revised; got != want {
			t.Errorf("%s: another revision may make another thing of it is %t", template, got)
		}
	}
	source, annotated := of(`annotations: {{ toJson .Values.annotations }}`), map[string]any{"annotations": map[string]any{"helm.sh/hook": "pre-install,post-delete"}}
	if !source.hooks(annotated) || !source.hasDeleteHooks(annotated) || source.hooks(nil) || source.hasDeleteHooks(nil) {
		t.Errorf("with values %v, %v, without %v, %v", source.hooks(annotated), source.hasDeleteHooks(annotated), source.hooks(nil), source.hasDeleteHooks(nil))
	}
}

func TestPagePath(t *testing.T) {
	for annotation, want := range map[string]string{"": "/", "/": "/", "/hello/": "/hello/", "hello/": "/hello/"} {
		c := &chart.Chart{Metadata: &chart.Metadata{Annotations: map[string]string{pagePathAnnotation: annotation}}}
		if got := pagePath(c); got != want {
			t.Errorf("the annotation %q makes %q, want %q", annotation, got, want)
		}
	}
	if got := pagePath(&chart.Chart{Metadata: &chart.Metadata{}}); got != "/" {
		t.Errorf("without annotations it is %q", got)
	}
}

// A schema has Helm read no file of the machine, and no page, nor does one on which the compiler panics end the operator, with
// all other kinds: a chart with such a one is refused, subcharts included.
func TestCheckSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/x.json", "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}}`: "",
		`{"$ref": "file:///etc/hosts"}`: "chart c: values.schema.json refers to file:///etc/hosts, ",
		`{"properties": {"a": {"items": {"$ref": "http://127.0.0.1:1/x.json#/definitions/b"}}}}`: "refers to http://127.0.0.1:1/x.json, ",
		`{"$ref": "other.json"}`:                          "refers to file:///other.json, ",
		`{"$schema": "https://127.0.0.1:1/x.json"}`:       "refers to https://127.0.0.1:1/x.json, ",
		`{"$id": "https://127.0.0.1:1/", "$ref": "x#/a"}`: "refers to https://127.0.0.1:1/x, ",
		`{"$ref": "urn:example:x"}`:                       "",
		`{"type": 1}`:                                     "chart c: values.schema.json is no schema: ",
		`{`:                                               "is no schema: unexpected EOF",
		`{"multipleOf": 1e-9999999}`:                      "is no schema: ",
	} {
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Schema: []byte(schema)}
		above := &chart.Chart{Metadata: &chart.Metadata{Name: "above"}}
		above.AddDependency(c)
		for _, c := range []*chart.Chart{c, above} {
			if err := CheckChart(c, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, in %s: error is %v, without %q", schema, c.Name(), err, want)
			}
		}
		// Helm reads no schema of a subchart that is off. What a spec turns on is checked with the spec.
		above.Metadata.Dependencies = []*chart.Dependency{{Name: "c", Condition: "c.enabled"}}
		above.Values = map[string]any{"c": map[string]any{"enabled": false}}
		if err := CheckChart(above, nil); err != nil || newChartSource(above).incomplete != (want != "") {
			t.Errorf("%s, in a subchart that is off: %v", schema, err)
		}
		if err := checkSubcharts(above, map[string]any{"c": map[string]any{"enabled": true}}); (err == nil) != (want == "") {
			t.Errorf("%s, in a subchart that a spec turns on: %v", schema, err)
		}
	}
}

func TestUnknownHooks(t *testing.T) {
	of := func(template, values string) []string {
		c, err := loader.LoadFiles([]*loader.BufferedFile{
			{Name: "Chart.yaml", Data: []byte("{apiVersion: v2, name: c, version: 0.1.0}")},
			{Name: "values.yaml", Data: []byte(values)},
			{Name: "templates/a.yaml", Data: []byte(template)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return UnknownHooks(c)
	}
	for template, want := range map[string]string{
		"annotations:\n    helm.sh/hook: pre-instal\n":                                          "c/templates/a.yaml: helm.sh/hook: pre-instal",
		`{annotations: {"helm.sh/hook": 'post-install, post-upgrad', other: x}}`:                "c/templates/a.yaml: helm.sh/hook: post-install, post-upgrad",
		`"helm.sh/hook": "crd-install"`:                                                         "c/templates/a.yaml: helm.sh/hook: crd-install",
		`"helm.sh/hook": pre-install,Post-Upgrade # once`:                                       "",
		"helm.sh/hook: test-success\nhelm.sh/hook-weight: \"1\"\nhelm.sh/hook-delete-policy: x": "",
		"helm.sh/hook: {{ .Values.hook }}":                                                      "",
		"helm.sh/hook: post-{{ .Values.when }}\nhelm.sh/hook:\nname: x":                         "",
		"# helm.sh/hook: none\n{{- /* helm.sh/hook: none */}}":                                  "",
	} {
		if got := strings.Join(of(template, ""), "; "); got != want {
			t.Errorf("%s: %q, not %q", template, got, want)
		}
	}
	if got := of("", "annotations: {helm.sh/hook: post-instal}"); len(got) != 1 || got[0] != "c/values.yaml: helm.sh/hook: post-instal" {
		t.Errorf("of the values: %q", got)
	}
}

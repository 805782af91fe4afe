package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

// trapsChart is one with what charts of strangers have.
var trapsChart = map[string]string{
	"Chart.yaml": "{apiVersion: v2, name: traps, version: 0.1.0}",
	"values.yaml": `
# How many there are.
replicas: 1
# -- What is said,
# to everybody.
text: hello
unquoted: word
image: {}
name: ""
hostNetwork: false
debug: false
env: {}
labels: {}
probe: {path: /, port: 80}
ports: [{name: http, port: 80}]
selector: {tier: web}
extra: []
run: ""
mode: plain
secretOf: other
part: "1.2.3"
upper: word
times: 2
notes: {}
level: info
settings: ""
unused: ""
args: []
`,
	"templates/all.yaml": `
apiVersion: apps/v1
kind: {{ if eq .Values.mode "each" }}DaemonSet{{ else }}Deployment{{ end }}
metadata: {name: x}
spec:
  replicas: {{ .Values.replicas }}
  template:
    metadata: {labels: {{ .Values.labels | toJson }}}
    spec:
      nodeSelector: {{ .Values.selector | toJson }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      containers:
      - name: x
        image: "{{ .Values.image.repository | default "nginx" }}:1"
        env:
        - {name: TEXT, value: {{ .Values.text | quote }}}
        - {name: UPPER, value: {{ .Values.upper | quote }}}
        - {name: TIMES, value: {{ .Values.times | quote }}}
        - {name: RUN, value: {{ tpl .Values.run . | quote }}}
        {{- range $key, $value := .Values.env }}
        - {name: {{ $key | quote }}, value: {{ $value | quote }}}
        {{- end }}
        readinessProbe: {httpGet: {{ .Values.probe | toJson }}}
        lifecycle:
          postStart: {exec: {command: [{{ .Values.upper | upper | quote }}, {{ mul .Values.times 1024 | quote }}, {{ .Values.part | trunc 3 | quote }}]}}
        {{- if eq .Values.mode "each" }}
        args: [{{ .Values.secretOf | quote }}]
        {{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  all.conf: |
    {{- .Values.settings | nindent 4 }}
  some.conf: |
    level = {{ .Values.level | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Values.name | default "x" | quote }}
  annotations:
    word: {{ .Values.unquoted }}
    {{- range $key, $value := .Values.notes }}
    {{ $key }}: {{ $value | quote }}
    {{- end }}
spec:
  ports:
  {{- range .Values.ports }}
  - name: {{ .name }}
    port: {{ .port }}
  {{- end }}
{{- range .Values.extra }}
---
{{ toYaml . }}
{{- end }}
`,
}

func infer(t *testing.T, files map[string]string, allowed ...string) (*apiextensionsv1.JSONSchemaProps, map[string]string) {
	t.Helper()
	var buffered []*loader.BufferedFile
	for name, text := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: []byte(text)})
	}
	chrt, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	trial, err := newTrial(operator.Entry{}, chrt)
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := trial.scenarios(nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := trial.values()
	if err != nil {
		t.Fatal(err)
	}
	i := newInference(trial, scenarios, allowed)
	schema := i.schema(nil, values)
	left := map[string]string{}
	for _, l := range i.left {
		left[l.path] = l.why
	}
	return schema, left
}

// What a value reaches decides whether it is a field, however the chart comes by it.
func TestInference(t *testing.T) {
	schema, left := infer(t, trapsChart)
	const unseen = "nothing that was rendered has it: nobody can tell what it reaches"
	if diff := cmp.Diff(map[string]string{
		"image":       "reaches an image", // which a template asks for by a name that values.yaml has not
		"hostNetwork": "reaches the node", // which is not its text
		"env":         "reaches the environment, and so any Secret",
		"extra":       "reaches an extra object",
		"run":         "reaches a template (tpl)",
		"secretOf":    "reaches a command", // in a DaemonSet only
		"settings":    "reaches a configuration file",
		"part":        "reaches a command", // of which it is a part,
		"upper":       "reaches a command", // or made of it
		"times":       "reaches a command",
		"notes":       "a template writes what it has without quotes: it could be more than a value",
		"unused":      unseen,
		"args":        unseen,
		"debug":       unseen,
	}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	properties := schema.Properties
	if got := properties["replicas"]; got.Type != "integer" || got.Description != "How many there are." || string(got.Default.Raw) != "1" {
		t.Errorf("replicas is %+v", got)
	}
	if got := properties["text"]; got.Type != "string" || got.Description != "What is said, to everybody." || got.Pattern != "" {
		t.Errorf("text is %+v", got)
	}
	if got := properties["unquoted"]; got.Pattern != oneWord {
		t.Errorf("unquoted may be %q", got.Pattern)
	}
	if got := properties["level"]; got.Pattern != oneWord {
		t.Errorf("level, of a file with more in it, may be %q", got.Pattern)
	}
	if got := properties["labels"]; got.AdditionalProperties == nil || len(got.XValidations) != 1 {
		t.Errorf("labels of pods are %+v", got)
	}
	if got := properties["selector"]; got.AdditionalProperties == nil || got.XPreserveUnknownFields != nil || len(got.XValidations) > 0 {
		t.Errorf("selector is %+v", got)
	}
	if got := properties["probe"]; got.XPreserveUnknownFields != nil || len(got.Properties) != 2 {
		t.Errorf("probe is open, or lacks a field: %+v", got)
	}
	if got := properties["ports"].Items.Schema; got.Properties["name"].Pattern != oneWord || got.Properties["port"].Type != "integer" || got.XPreserveUnknownFields != nil {
		t.Errorf("ports are %+v", got)
	}

	schema, left = infer(t, trapsChart, "image", "extra")
	if image := schema.Properties["image"]; image.XPreserveUnknownFields == nil || left["image"] != "" || schema.Properties["extra"].Items == nil {
		t.Errorf("image, which is allowed, is %+v, and %q", image, left["image"])
	}
}

// A text that is no more than a word is one wherever it is written.
func TestOneWord(t *testing.T) {
	for _, text := range []string{"", "a", "ClusterIP", "/hello/", "1.2.3", "a:b", "team@example.com"} {
		if !matches(text) {
			t.Errorf("%q is none", text)
		}
	}
	for _, text := range []string{"a: b", "a:", "a\nb", "{a}", "[a", "a b", "- a", "&a", "*a", "!a", "a#b", "|", "'a", `"a`, "{{ a }}", "@a", "%a", "a\tb", "-"} {
		if matches(text) {
			t.Errorf("%q is one", text)
		}
	}
}

func matches(text string) bool { return regexp.MustCompile(oneWord).MatchString(text) }

func TestFromComment(t *testing.T) {
	for comment, want := range map[string]string{
		"# How many.":   "How many.",
		"# -- How many": "How many.",
		"## About all\n\n## How many\n## there are": "How many there are.",
		"# How many\n# name: value":                 "How many.",
		"# - name: value\n#   other: value":         "",
		"# ======":                                  "",
	} {
		if got := fromComment(comment); got != want {
			t.Errorf("%q says %q, want %q", comment, got, want)
		}
	}
	if strings.HasSuffix(sentence("What."), "..") {
		t.Error("two periods")
	}
}

package infer

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
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
options: ""
told: ""
passedOn: ""
named: x
hosts: []
nothing: null
heap: 64
script: echo
password: ""
tool: "#!/bin/sh"
note: ""
flags: ""
found: ""
referred: ""
encoded: ""
shouted: word
passed: {user: x}
lines: {}
servers: []
one: null
network: own
profile: restricted
agent: none
flavour: more
decoded: ""
raw: ""
shelled: ""
inMap: ""
command: ""
document: ""
noted: ""
more: []
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
      {{- if eq .Values.profile "restricted" }}
      securityContext: {runAsNonRoot: true}
      {{- end }}
      {{- if eq .Values.network "node" }}
      hostPID: true
      {{- end }}
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
        - {name: JAVA_OPTS, value: {{ printf "-Xmx%vm %s" .Values.heap .Values.options | quote }}}
        - {name: TOLD, value: {{ .Values.told | quote }}}
        - {name: JAVA_TOOL_OPTIONS, valueFrom: {configMapKeyRef: {name: told, key: java-opts}}}
        - {name: PASSED_ON, value: {{ .Values.passedOn | upper | quote }}}
        - {name: AGAIN, value: "it is $(PASSED_ON)"}
        - {name: NAMED, value: "$({{ .Values.named }})"}
        - {name: HOSTS, value: {{ join "," .Values.hosts | quote }}}
        - {name: NOTHING, value: {{ .Values.nothing | quote }}}
        - {name: SHELLED, value: {{ .Values.shelled | quote }}}
        - {name: INIT_COMMAND, value: {{ .Values.command | quote }}}
        {{- range $key, $value := .Values.env }}
        - {name: {{ $key | quote }}, value: {{ $value | quote }}}
        {{- end }}
        readinessProbe: {httpGet: {{ .Values.probe | toJson }}}
        startupProbe: {exec: {command: [sh, -c, "nc $IN_MAP ${SHELLED}"{{ range $n, $text := .Values.more }}{{ if $n }}, {{ $text | quote }}{{ end }}{{ end }}]}}
        workingDir: {{ (fromYaml .Values.document).dir | default "/" | quote }}
        envFrom: [{configMapRef: {name: told}}]
        livenessProbe: {exec: {command: [sh, -c, "$(TOLD) $(AGAIN) $(FOUND)"]}}
        lifecycle:
          postStart: {exec: {command: [{{ .Values.upper | upper | quote }}, {{ mul .Values.times 1024 | quote }}, {{ .Values.part | trunc 3 | quote }}]}}
        {{- if eq .Values.mode "each" }}
        args: [{{ .Values.secretOf | quote }}]
        {{- end }}
      volumes:
      - {name: files, projected: {sources: [{configMap: {name: scripts}}]}}
      - {name: passwords, secret: {secretName: passwords}}
{{- if eq .Values.agent "node" }}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: agent}, spec: {template: {spec: {containers: [{name: x, image: x, securityContext: {privileged: true}}]}}}}
{{- end }}
{{- if eq .Values.flavour "more" }}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: more}, spec: {template: {spec: {containers: [{name: x, image: x, securityContext: {runAsNonRoot: true}}]}}}}
{{- end }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: told}, data: {note: {{ .Values.note | quote }}, tool: {{ .Values.tool | quote }}, IN_MAP: {{ .Values.inMap | quote }}, JVMFLAGS: {{ .Values.flags | quote }}, FOUND: {{ .Values.found | quote }}, java-opts: {{ .Values.referred | quote }}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: scripts}, data: {script: {{ .Values.script | quote }}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: passwords}, stringData: {password: {{ .Values.password | quote }}}, data: {raw: {{ .Values.raw | quote }}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: encoded}, data: {app.conf: {{ .Values.encoded | b64enc }}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: encoded}, binaryData: {users: {{ printf "name=%s" .Values.passed.user | b64enc }}}, data: {level: {{ printf "level=%s" (upper .Values.shouted) | quote }}, decoded: {{ printf "decoded=%s" (b64dec .Values.decoded) | quote }}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  all.conf: |
    {{- .Values.settings | nindent 4 }}
  lines.conf: |
    [all]
    {{- range $key, $value := .Values.lines }}
    {{- printf "%s = %s" $key $value | nindent 4 }}
    {{- end }}
    servers = {{ join " " .Values.servers | nindent 4 }}
    {{- with .Values.one }}
    one = {{ . | toString | nindent 4 }}
    {{- end }}
  some.conf: |
    level = {{ .Values.level | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Values.name | default "x" | quote }}
  annotations:
    word: {{ .Values.unquoted }}
    document: {{ .Values.document | quote }}
    more: {{ join "," .Values.more | quote }}
    noted: {{ .Values.noted | b64dec }}
    modes: {{ printf "%s, %s" .Values.network .Values.agent | quote }}
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

func chartOf(t *testing.T, files map[string]string) *chart.Chart {
	t.Helper()
	var buffered []*loader.BufferedFile
	for name, text := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: []byte(text)})
	}
	chrt, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	return chrt
}

// packed is a chart as helm dependency build puts it into charts/.
func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	file, err := chartutil.Save(chartOf(t, files), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func infer(t *testing.T, files map[string]string, allowed ...string) (*apiextensionsv1.JSONSchemaProps, map[string]string) {
	t.Helper()
	return inferPinned(t, files, nil, allowed...)
}

func inferPinned(t *testing.T, files, overrides map[string]string, allowed ...string) (*apiextensionsv1.JSONSchemaProps, map[string]string) {
	t.Helper()
	entry := operator.Entry{}
	entry.OverrideValues = overrides
	trial, err := New(entry, chartOf(t, files), nil)
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := trial.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	values, err := trial.Values()
	if err != nil {
		t.Fatal(err)
	}
	schema, without, _ := trial.Fields(scenarios, values, allowed, nil)
	left := map[string]string{}
	for _, l := range without {
		if left[l.Path] != "" {
			t.Errorf("%s is left out twice", l.Path)
		}
		left[l.Path] = l.Why
	}
	return schema, left
}

// What a value reaches decides whether it is a field, however the chart comes by it.
func TestInference(t *testing.T) {
	schema, left := infer(t, trapsChart)
	const unseen = "nothing that was rendered has it: nobody can tell what it reaches, but with a pin or a sample that turns it on"
	if diff := cmp.Diff(map[string]string{
		"image":       "reaches an image", // which a template asks for by a name that values.yaml has not
		"hostNetwork": "reaches the node", // which is not its text
		"network":     "reaches the node", // by a text that a template asks for
		"agent":       "reaches the node", // in pods that there are only then
		"profile":     "reaches a security context",
		"env":         "reaches the environment, and so any Secret",
		"extra":       "reaches an extra object",
		"run":         "reaches a template (tpl)",
		"secretOf":    "reaches a command", // in a DaemonSet only
		"settings":    "reaches a configuration file",
		"script":      "reaches a configuration file", // by a volume
		"lines":       "a template writes what it has into a text: no bound can be given for that",
		"encoded":     "reaches a configuration file",
		"decoded":     "reaches a configuration file",
		"raw":         "reaches a configuration file", // as Kubernetes decodes it
		"tool":        "reaches a command",            // by what it is
		"part":        "reaches a command",            // of which it is a part,
		"upper":       "reaches a command",            // or made of it
		"times":       "reaches a command",
		"options":     "reaches a command", // as what an interpreter runs
		"told":        "reaches a command", // which names the variable
		"passedOn":    "reaches a command", // or one that has it
		"flags":       "reaches a command", // of a ConfigMap, too
		"found":       "reaches a command",
		"referred":    "reaches a command",
		"command":     "reaches a command",                               // by the name of the variable
		"more":        "reaches a command",                               // if it is the second
		"document":    "reaches its pods' spec.containers.[].workingDir", // which is a part of it
		"noted":       "reaches more than a text, decoded",
		"named":       "reaches the environment, and so any Secret",
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
	if got := properties["text"]; got.Type != "string" || got.Description != "What is said, to everybody." || got.Pattern != noVariable {
		t.Errorf("text is %+v", got)
	}
	if got := properties["hosts"].Items; got == nil || got.Schema.Type != "string" || got.Schema.Pattern != noVariable {
		t.Errorf("hosts are %+v", got)
	}
	if got := properties["nothing"]; got.Type != "string" || got.Pattern != noVariable {
		t.Errorf("nothing is %+v", got)
	}
	if got := properties["heap"]; got.Type != "integer" {
		t.Errorf("heap is %+v", got)
	}
	if got := properties["unquoted"]; got.Pattern != oneWord {
		t.Errorf("unquoted may be %q", got.Pattern)
	}
	if got := properties["level"]; got.Pattern != oneWord {
		t.Errorf("level, of a file with more in it, may be %q", got.Pattern)
	}
	if servers, one := properties["servers"].Items, properties["one"]; servers == nil || servers.Schema.Pattern != oneWord || one.Pattern != oneWord {
		t.Errorf("servers of a configuration are %+v, one %+v", servers, one)
	}
	if got, inMap := properties["shelled"], properties["inMap"]; got.Pattern != oneWord || inMap.Pattern != oneWord {
		t.Errorf("what a shell makes words of may be %q, and of a ConfigMap %q", got.Pattern, inMap.Pattern)
	}
	if got := properties["password"]; got.Pattern != oneLine {
		t.Errorf("password, of a file, may be %q", got.Pattern)
	}
	if got, shouted := properties["passed"].Properties["user"], properties["shouted"]; got.Pattern != oneWord || shouted.Pattern != oneWord {
		t.Errorf("what is written in base64 may be %q, and in capitals %q", got.Pattern, shouted.Pattern)
	}
	if got := properties["flavour"]; got.Type != "string" {
		t.Errorf("flavour, with more pods of the same power, is %+v", got)
	}
	if got := properties["note"]; got.Type != "string" || got.Pattern != "" {
		t.Errorf("note, of no file, is %+v", got)
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

// A text of several lines, of which authors could only write one word, is no field: nobody could write the default.
func TestTextOfLines(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: lines, version: 0.1.0}",
		"values.yaml": "config: |\n  kind: Configuration\n  level: info\nsaid: |\n  Good\n  morning\nword: two words\n",
		"templates/all.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: lines}
data:
  said: {{ toJson .Values.said }}
  word: {{ .Values.word }}
  config.yaml: |
    all:
      {{- .Values.config | nindent 6 }}
`,
	})
	if _, isField := schema.Properties["config"]; isField || left["config"] != "a template writes what it has into a text: no bound can be given for that" {
		t.Errorf("config is %+v, left for %q", schema.Properties["config"], left["config"])
	}
	if said, word := schema.Properties["said"], schema.Properties["word"]; said.Type != "string" || word.Pattern != oneWord+"|^two words$" || len(left) != 1 {
		t.Errorf("said is %+v, word is %+v, left are %v", said, word, left)
	}
}

// So is a text that a template looks for, in whatever way, and a number.
func TestInferenceOfWhatIsCompared(t *testing.T) {
	for condition, value := range map[string]string{
		`eq "root" .Values.value`:                                       "plain",
		`.Values.value | eq "root"`:                                     "plain",
		`eq .Values.value "plainer" "root"`:                             "plain",
		`eq (.Values.value | lower) "root"`:                             "plain",
		`eq (default "other" .Values.value) "root"`:                     "plain",
		"eq .Values.value `root`":                                       "plain",
		`eq $value "root"`:                                              "plain",
		`has .Values.value (list "root" "admin")`:                       "plain",
		`hasPrefix "root" .Values.value`:                                "plain",
		`contains "root" .Values.value`:                                 "plain",
		`regexMatch "^(root|admin)$" .Values.value`:                     "plain",
		`get (dict "root" true "plain" false) .Values.value`:            "plain",
		`eq (include "value" .) "root"`:                                 "plain",
		`has "root" .Values.value`:                                      "[plain]",
		`not .Values.value`:                                             "plain",
		`eq (int .Values.value) 7`:                                      "1",
		`lt (int .Values.value) 1`:                                      "1",
		`and (gt (int .Values.value) 5) (lt (int .Values.value) 10000)`: "1",
	} {
		for what, field := range map[string]string{"the node": "hostPID: {{ if %s }}true{{ else }}false{{ end }}", "a security context": "{{ if not (%s) }}securityContext: {runAsNonRoot: true}{{ end }}"} {
			_, left := infer(t, map[string]string{
				"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
				"values.yaml": "value: " + value + "\n",
				"templates/pod.yaml": `{{ define "value" }}{{ .Values.value }}{{ end }}{{ $value := .Values.value }}
{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {value: {{ toJson .Values.value | quote }}}}, spec: {containers: [{name: x, image: x}],
` + strings.Replace(field, "%s", condition, 1) + "}}\n",
			})
			if left["value"] != "reaches "+what {
				t.Errorf("with %s, it is left out for %q, not because it reaches %s", condition, left["value"], what)
			}
		}
	}
}

// What is harmless alone is no field where it is powerful with another one.
func TestInferenceOfTwoTogether(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml":             "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml":            "schedule: never\ntitle: hello\nother: there\n",
		"templates/service.yaml": "{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {a: {{ .Values.schedule | quote }}, b: {{ .Values.title | quote }}, c: {{ .Values.other | quote }}}}}\n",
		"templates/job.yaml":     "{{ if not (regexMatch \"^never$\" .Values.schedule) }}{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x, args: [{{ .Values.title | quote }}]}]}}{{ end }}\n",
	})
	if diff := cmp.Diff(map[string]string{"schedule": "reaches a command", "title": "reaches a command"}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, []string{"other"}) {
		t.Errorf("fields are %q", got)
	}
}

// Nor is one that gets where it must not if another one, or a number, selects that.
func TestInferenceOfWhatAnotherSelects(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "mode: plain\nsize: 1\ntext: hello\ncounted: there\nlevel: info\nother: all\n",
		"templates/pod.yaml": `{{ $mode := .Values.mode }}{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {all: {{ printf "%s %v %s %s %s %s" .Values.mode .Values.size .Values.text .Values.counted .Values.level .Values.other | quote }}}}, spec: {containers: [{name: x, image: x,
args: [{{ if eq $mode "custom" }}{{ .Values.text | quote }}{{ end }}], command: [{{ if eq (int .Values.size) 5 }}{{ .Values.counted | quote }}{{ end }}], workingDir: {{ if eq .Values.level "debug" }}/debug{{ end }}}]}}`,
	})
	if diff := cmp.Diff(map[string]string{"text": "reaches a command", "counted": "reaches a command"}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, []string{"level", "mode", "other", "size"}) {
		t.Errorf("fields are %q", got)
	}
}

// What an option turns on only where another one is off counts, too, and only where the cluster has an API:
// with all on, it is not there.
func TestInferenceOfOptionsThatExcludeEachOther(t *testing.T) {
	for _, kind := range []string{"Job", "Pod"} {
		schema, left := infer(t, map[string]string{
			"Chart.yaml":         "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml":        "job: {enabled: false, deadline: 5}\ncron: {enabled: false, deadline: 5}\ntext: hello\n",
			"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {text: {{ .Values.text | quote }}}}, spec: {containers: [{name: x, image: x}]}}",
			"templates/job.yaml": `{{ if and .Values.job.enabled (not .Values.cron.enabled) }}{apiVersion: batch/v1, kind: ` + kind + `, metadata: {name: y, annotations: {deadline: "{{ .Values.job.deadline }}"}},
spec: {template: {spec: {containers: [{name: x, image: x, args: [{{ .Values.text | quote }}]}]}}, containers: [{name: x, image: x, args: [{{ .Values.text | quote }}]}]}}{{ end }}`,
			"templates/cron.yaml": `{{ if and .Values.cron.enabled (not .Values.job.enabled) (.Capabilities.APIVersions.Has "example.com/v1") }}{apiVersion: example.com/v1, kind: Cron, metadata: {name: z}, spec: {deadline: {{ .Values.cron.deadline }}}}{{ end }}`,
		})
		if diff := cmp.Diff(map[string]string{"text": "reaches a command"}, left); diff != "" {
			t.Errorf("with a %s, left out (-want +got):\n%s", kind, diff)
		}
		if job, cron := schema.Properties["job"].Properties["deadline"], schema.Properties["cron"].Properties["deadline"]; job.Type != "integer" || cron.Type != "integer" {
			t.Errorf("with a %s, the deadlines are %+v and %+v", kind, job, cron)
		}
	}
}

// So does what it only adds to an object that there is in any case, whatever the text is by default, and
// where several options have to be as they are.
func TestInferenceOfAnOptionThatAddsSomethingWhereAnotherIsOff(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {text: {{ .Values.text | quote }}}}, spec: {containers: [{name: x, image: x, args: [\"run\"%s]}]}}"
	argIf := func(condition string) string {
		return fmt.Sprintf(pod, "{{ if "+condition+" }}, {{ .Values.text | quote }}{{ end }}")
	}
	for name, c := range map[string]struct{ values, template string }{
		"both off":             {"one: false\nother: false\ntext: hello", argIf("and .Values.one (not .Values.other)")},
		"the other on":         {"one: false\nother: true\ntext: hello", argIf("and .Values.one (not .Values.other)")},
		"what is there anyway": {"one: false\nother: false\ntext: run", argIf("and .Values.one (not .Values.other)")},
		"nothing by default":   {"one: false\nother: false\nthird: false\ntext: ''", argIf("and .Values.text .Values.one (not (or .Values.other .Values.third))")},
		"of three":             {"one: false\nother: false\nthird: false\ntext: hello", argIf("and .Values.one .Values.other (not .Values.third)")},
		"a name, too": {"one: false\nother: false\ntext: hello", argIf("and .Values.one (not .Values.other)") +
			"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Values.text | quote }}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, left := infer(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": c.values + "\n",
				"templates/pod.yaml": c.template + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: options}, data: {one: '{{ .Values.one }}', other: '{{ .Values.other }}', third: '{{ .Values.third }}'}}"})
			if diff := cmp.Diff(map[string]string{"text": "reaches a command"}, left); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

// What is there only with a text that a template compares a value with is tried with that, however the template comes by it.
func TestInferenceOfWhatATextTurnsOn(t *testing.T) {
	for _, condition := range []string{
		`eq .Values.service.type "NodePort"`, `eq "NodePort" .Values.service.type`, `.Values.service.type | eq "NodePort"`, `eq .Values.service.type "LoadBalancer" "NodePort"`,
		`eq (.Values.service.type | lower) "nodeport"`, `ne .Values.service.type "ClusterIP"`, `not (eq .Values.service.type "ClusterIP")`, `has .Values.service.type (list "LoadBalancer" "NodePort")`,
		`hasPrefix "Node" .Values.service.type`, `eq $type "NodePort"`, `eq $service.type "NodePort"`, `eq (include "type" .) "NodePort"`,
		`and .Values.service.port (eq .Values.service.type "NodePort") .Values.service.nodePort`,
	} {
		for _, nodePort := range []string{"30080", "''", "null"} {
			schema, left := infer(t, map[string]string{
				"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
				"values.yaml": "service: {type: ClusterIP, port: 80, nodePort: " + nodePort + "}\n",
				"templates/service.yaml": `{{ define "type" }}{{ .Values.service.type }}{{ end }}{{ $type := .Values.service.type }}{{ $service := .Values.service }}
{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {type: {{ .Values.service.type }}, ports: [{port: {{ .Values.service.port }}{{ if ` + condition + ` }}, nodePort: {{ .Values.service.nodePort }}{{ end }}}]}}`,
			})
			if got := schema.Properties["service"].Properties; got["nodePort"].Description == "" || got["type"].Type != "string" || len(got["type"].Enum) > 0 {
				t.Errorf("with %s, where it is %s, there are %v: %v", condition, nodePort, got, left)
			}
		}
	}
}

// In a subchart, in what tpl runs and where a map is looked into, too, and a kind that is there only then is
// one of the chart.
func TestInferenceOfWhatATextTurnsOnElsewhere(t *testing.T) {
	files := map[string]string{
		"Chart.yaml":             "{apiVersion: v2, name: x, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, alias: db}]}",
		"values.yaml":            "file: {mode: a, text: b}\n",
		"files/x.yaml":           `x: {{ if eq .Values.file.mode "file" }}{{ .Values.file.text }}{{ end }}`,
		"templates/file.yaml":    `{apiVersion: v1, kind: Service, metadata: {name: y, labels: {mode: {{ .Values.file.mode | quote }}}}, spec: { {{ tpl (.Files.Get "files/x.yaml") . }} }}`,
		"charts/sub/Chart.yaml":  "{apiVersion: v2, name: sub, version: 0.1.0}",
		"charts/sub/values.yaml": "persistence: {type: none, size: 1Gi, class: fast}\n",
		"charts/sub/templates/x.yaml": `{{ with .Values.persistence }}{apiVersion: apps/v1, kind: {{ if ne .type "claim" }}Deployment{{ else }}StatefulSet{{ end }}, metadata: {name: x, annotations: {type: {{ .type | quote }}}}, spec: {
{{- if eq .type "claim" }}volumeClaimTemplates: [{spec: {storageClassName: {{ .class | quote }}, resources: {requests: {storage: {{ .size | quote }}}}}}]{{ end }}}}{{ end }}`,
	}
	schema, left := infer(t, files)
	if got := slices.Sorted(maps.Keys(schema.Properties["db"].Properties["persistence"].Properties)); !slices.Equal(got, []string{"class", "size", "type"}) {
		t.Errorf("of the subchart, there are %q: %v", got, left)
	}
	if got := slices.Sorted(maps.Keys(schema.Properties["file"].Properties)); !slices.Equal(got, []string{"mode", "text"}) {
		t.Errorf("of the file, there are %q: %v", got, left)
	}
}

// A text that is harmless as the chart comes is no field if it reaches a command once another text is one that a
// template compares it with, whatever that is by default, and with options as they are.
func TestInferenceOfWhatATextTurnsOnForAnother(t *testing.T) {
	argIf := func(condition string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {all: {{ list .Values.text .Values.mode .Values.level .Values.one | join " " | quote }}}}, spec: {containers: [{name: x, image: x, args: ["run"{{ if ` + condition + ` }}, {{ .Values.text | quote }}{{ end }}]}]}}`
	}
	for _, condition := range []string{
		`eq .Values.mode "debug"`, `and (eq .Values.mode "debug") .Values.one`, `and (eq .Values.mode "debug") (not .Values.one)`, `and (eq .Values.mode "debug") (eq .Values.level "info")`,
		`has .Values.mode (list "debug")`, `eq (lower .Values.mode) "debug"`, `ternary true false (eq .Values.mode "debug")`, `eq (include "mode" .) "debug"`,
	} {
		for _, text := range []string{"hello", "run", "''"} {
			_, left := infer(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "mode: plain\nlevel: info\none: false\ntext: " + text + "\n",
				"templates/_x.tpl": `{{ define "mode" }}{{ .Values.mode }}{{ end }}`, "templates/pod.yaml": argIf(condition)})
			if left["text"] != "reaches a command" {
				t.Errorf("with %s, where it is %s, left out are %v", condition, text, left)
			}
		}
	}
}

// Nor are a map, a list and a number that reach a command only so, be it by an option.
func TestInferenceOfWhatIsTurnedOnForWhatIsNoText(t *testing.T) {
	for condition, fields := range map[string][]string{
		"false": {"labels", "number", "ranges"}, `and .Values.one (not .Values.two)`: nil, `and (eq .Values.mode "debug") (not .Values.two)`: nil,
	} {
		schema, left := infer(t, map[string]string{
			"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml": "mode: plain\none: false\ntwo: true\nlabels: {a: b}\nnumber: 80\nranges: [10.0.0.0/8]\n",
			"templates/pod.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {all: {{ list .Values.mode .Values.one .Values.two | join " " | quote }}}},
spec: {containers: [{name: x, image: x, args: ["run"{{ if ` + condition + ` }}{{ range $k, $v := .Values.labels }}, {{ $v | quote }}{{ end }}, "{{ .Values.number }}"{{ range .Values.ranges }}, {{ . | quote }}{{ end }}{{ end }}]}]}}`,
			"templates/service.yaml": `{apiVersion: v1, kind: Service, metadata: {name: x, labels: {{ toJson .Values.labels }}}, spec: {ports: [{port: {{ .Values.number }}}], loadBalancerSourceRanges: {{ toJson .Values.ranges }}}}`,
		})
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(name string) bool { return slices.Contains([]string{"mode", "one", "two"}, name) })
		if !slices.Equal(got, fields) {
			t.Errorf("if %s, the fields are %q, not %q: %v", condition, got, fields, left)
		}
	}
}

// A value that is null and is written without quotes may be a word or a number: it is no field where one of
// the two gets to where it must not, although the other does not.
func TestInferenceOfAWordOrANumber(t *testing.T) {
	for field, want := range map[string]string{
		`args: [run]`: "", `args: ["{{ mul .Values.value 1024 }}"]`: "reaches a command",
		`args: ["{{ if kindIs "float64" .Values.value }}{{ .Values.value }}{{ end }}"]`: "reaches a command",
		`args: ["{{ if kindIs "string" .Values.value }}{{ .Values.value }}{{ end }}"]`:  "reaches a command",
		`securityContext: {privileged: {{ eq (toString .Values.value) (toString 5) }}}`: "reaches a security context", // either
	} {
		_, left := infer(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "value: null\n",
			"templates/pod.yaml": "# {{ eq 1 5 }} {{ eq \"\" \"5\" }}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  annotations:\n    value: {{ .Values.value }}\nspec: {containers: [{name: x, image: x, " + field + "}]}\n"})
		if left["value"] != want {
			t.Errorf("with %s, it is left out for %q, not %q", field, left["value"], want)
		}
	}
}

// What a value has by default may be written out, be it no word.
func TestDefaultsMayBeWritten(t *testing.T) {
	schema, _ := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "word: two (words)\ndomains: ['*', 'a.example.com']\n",
		"templates/all.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  word: {{ .Values.word }}
  config.cfg: |
    domains = {{ .Values.domains | toJson }}
`,
	})
	word, domains := schema.Properties["word"], schema.Properties["domains"]
	if domains.Items == nil {
		t.Fatalf("domains is %+v", domains)
	}
	for _, c := range []struct {
		pattern, text string
		may           bool
	}{
		{word.Pattern, "two (words)", true}, {word.Pattern, "other", true}, {word.Pattern, "two words", false}, {word.Pattern, "two (words) more", false},
		{domains.Items.Schema.Pattern, "*", true}, {domains.Items.Schema.Pattern, "b.example.com", true}, {domains.Items.Schema.Pattern, "**", false}, {domains.Items.Schema.Pattern, "*\n", false},
	} {
		if may := regexp.MustCompile(c.pattern).MatchString(c.text); c.pattern == "" || may != c.may {
			t.Errorf("%q may be written: %t, by %q", c.text, may, c.pattern)
		}
	}
}

// A value that is null is what the template makes of it, where that takes a number or a text only.
func TestInferenceOfNull(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "history: null\nnamed: null\nran: null\nswitch: null\n",
		"templates/all.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: x
  labels: {named: {{ default "x" .Values.named | trunc 63 }}}
spec:
  {{- if .Values.history }}
  revisionHistoryLimit: {{ .Values.history | int64 }}
  {{- end }}
  template:
    spec:
      containers:
      - name: x
        image: x
        args: [{{ default "x" .Values.ran | trunc 63 }}]
        {{- if .Values.switch }}
        tty: true
        {{- end }}
`,
	})
	if history, named := schema.Properties["history"], schema.Properties["named"]; history.Type != "integer" || named.Type != "string" || named.Pattern == "" {
		t.Errorf("history is %+v, named is %+v, left are %v", history, named, left)
	}
	if want := map[string]string{"ran": "reaches a command", "switch": "reaches its pods' spec.containers.[].tty"}; !maps.Equal(left, want) {
		t.Errorf("left are %v, not %v", left, want)
	}
}

// Who is trusted with a value may take out its default: what null does to others is not tried.
func TestNullOfWhatIsAllowed(t *testing.T) {
	schema, _ := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "resources: {limits: {cpu: 1}}\nlist: [{a: b}]\nempty: ''\ntext: hello\n",
		"templates/x.yaml": `
{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {text: {{ .Values.text | quote }}, empty: {{ .Values.empty | quote }}, a: {{ (first .Values.list).a | quote }}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x, resources: {{ toJson .Values.resources }}}]}}`,
	}, "resources", "list", "empty")
	limits := schema.Properties["resources"].Properties["limits"]
	if !schema.Properties["resources"].Nullable || !limits.Nullable || !limits.Properties["cpu"].Nullable || !schema.Properties["list"].Nullable {
		t.Errorf("null takes out no default of %+v", schema.Properties)
	}
	if schema.Properties["text"].Nullable || schema.Properties["empty"].Nullable || schema.Properties["list"].Items.Schema.Properties["a"].Nullable {
		t.Errorf("null may be said of what has no default, or nobody is trusted with, in %+v", schema.Properties)
	}
}

// A text is no file, whatever number it is: what a file writes is compared with nothing.
func TestAlternativesOfNumbers(t *testing.T) {
	const file = `{{ .Values.written }}{{ range list "0" "1" }}{{ if eq . $.Values.compared "text" }}{{ end }}{{ end }}`
	const helper = `{{ define "digit" }}{{ index (list "0" "1") .Values.place }}{{ end }}{{ if eq (include "digit" .) "text" }}{{ end }}`
	got := alternativesIn([]string{file, helper})
	if got["written"] != nil || !slices.Equal(got["compared"], []any{"text"}) || !slices.Equal(got["place"], []any{"text"}) {
		t.Errorf("compared are %v", got)
	}
}

// Even of very many templates that include each other in circles, it is known in no time what compares which value.
func TestAlternativesOfManyTemplates(t *testing.T) {
	var source strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&source, `{{ define "%d" }}{{ include "%d" . }}{{ include "%d" . }}{{ .Values.value }}{{ if eq (include "%d" .) "text" }}{{ end }}{{ end }}`, n, (n+1)%1000, n*7%1000, n)
	}
	begin := processorTime()
	if got := alternativesIn([]string{source.String()})["value"]; !slices.Equal(got, []any{"text"}) {
		t.Errorf("the value is compared with %v", got)
	}
	if took := processorTime() - begin; took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// So is the name of an object, which others can't have at the same time.
func TestInferenceOfNames(t *testing.T) {
	for what, field := range map[string]string{"the node": `hostPID: {{ has .Values.name (list "root") }}`, "a security context": `{{ if not (has .Values.name (list "root")) }}securityContext: {runAsNonRoot: true}{{ else }}securityContext: {}{{ end }}`} {
		schema, left := infer(t, map[string]string{
			"Chart.yaml":         "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml":        "name: x\nother: z\n",
			"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: {{ .Values.name }}, annotations: {a: {{ has .Values.other (list \"root\") | quote }}}}, spec: {containers: [{name: x, image: x}], " + field + "}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: {{ .Values.other }}}}\n",
		})
		if left["name"] != "reaches "+what {
			t.Errorf("it is left out for %q, not because it reaches %s", left["name"], what)
		}
		if schema.Properties["other"].Type != "string" {
			t.Errorf("the other one is no field: %s", left["other"])
		}
	}
}

// Nor is one of which a part gets there that is seen only where it has several, or in what is told of it.
func TestInferenceOfWhatIsSplit(t *testing.T) {
	for _, part := range []string{`(split "@" .Values.value)._1`, `(splitn "://" 2 .Values.value)._1`, `index (append (splitList "=" .Values.value) "") 1`, "(.Values.value | split `:`)._2", "genPrivateKey .Values.value"} {
		_, left := infer(t, map[string]string{
			"Chart.yaml":         "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml":        "value: plain\n",
			"templates/pod.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {value: {{ .Values.value }}}}, spec: {containers: [{name: x, image: x, args: [{{ ` + part + ` | default "" | quote }}]}]}}`,
		})
		if left["value"] != "reaches a command" {
			t.Errorf("with %s, it is left out for %q, not because it reaches a command", part, left["value"])
		}
	}
}

// A ConfigMap is no file of pods because a claim, a volume or a Secret is called as it is.
func TestInferenceOfWhatIsMounted(t *testing.T) {
	for volume, want := range map[string]string{
		"{name: data, persistentVolumeClaim: {claimName: x}}": "", "{name: x, emptyDir: {}}": "", "{name: data, secret: {secretName: x}}": "",
		"{name: data, configMap: {name: x}}": "reaches a configuration file", "{name: data, projected: {sources: [{configMap: {name: x}}]}}": "reaches a configuration file",
		"{name: data, configMapRef: x}": "reaches a configuration file", // as a custom resource may have it
	} {
		_, left := infer(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "text: a\n",
			"templates/x.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {TEXT: {{ .Values.text | quote }}}}\n---\n" +
				"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x}], volumes: [" + volume + "]}}\n"})
		if left["text"] != want {
			t.Errorf("with the volume %s, it is left out for %q, not %q", volume, left["text"], want)
		}
	}
}

// A text that is an entry of a list or map in one line is no two of them.
func TestInferenceOfWhatIsInOneLine(t *testing.T) {
	schema, _ := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "entry: a\nfield: a\nlimit: 1\nquoted: a\nline: a\n",
		"templates/service.yaml": `
apiVersion: v1
kind: Service
metadata:
  name: x
  labels: {field: {{ .Values.field }}, quoted: {{ .Values.quoted | quote }}}
  annotations:
    line: {{ .Values.line }}
spec: {externalIPs: [{{ .Values.entry }}], ports: [{port: 1, targetPort: {{ .Values.limit }}}]}
`,
	})
	for name, text := range map[string]string{"entry": "a,b", "field": "a,b", "limit": "1,a"} {
		if got := schema.Properties[name]; got.Pattern == "" || regexp.MustCompile(got.Pattern).MatchString(text) {
			t.Errorf("%s may be %q: %q", name, text, got.Pattern)
		}
	}
	for _, name := range []string{"quoted", "line"} {
		if got := schema.Properties[name]; got.Type != "string" || got.Pattern != "" && !regexp.MustCompile(got.Pattern).MatchString("a,b") {
			t.Errorf("%s, of one line, may not be two words with a comma: %q", name, got.Pattern)
		}
	}
}

// A text with which the chart can't be rendered is still tried with others, and what is powerful alone hides
// nothing that is so together.
func TestInferenceOfWhatBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		values, spec string
		want         map[string]string
	}{
		"breaks with another": {"mode: plain\n", `annotations: {mode: {{ .Values.mode | quote }}{{ if eq .Values.mode "zone" }}, zone: {{ .Values.zone.name }}{{ end }}}}, spec: {hostPID: {{ has .Values.mode (list "host") }}, `,
			map[string]string{"mode": "reaches the node"}},
		"others together": {"a: ''\nb: ''\nc: ''\nd: ''\n", `annotations: {all: {{ list .Values.a .Values.b .Values.c .Values.d | join "," | quote }}}}, spec: {hostPID: {{ has .Values.a (list "host") }}, hostIPC: {{ and (has .Values.b (list "host")) (has .Values.c (list "host")) }}, `,
			map[string]string{"a": "reaches the node", "b": "reaches the node", "c": "reaches the node"}},
	} {
		_, left := infer(t, map[string]string{
			"Chart.yaml":         "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml":        c.values,
			"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x, " + c.spec + "containers: [{name: x, image: x}]}}\n",
		})
		if diff := cmp.Diff(c.want, left); diff != "" {
			t.Errorf("%s: left out (-want +got):\n%s", name, diff)
		}
	}
}

// What a packed subchart does with a value counts as if the chart itself did.
func TestInferenceOfPackedSubchart(t *testing.T) {
	files := map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: packs, version: 0.1.0, dependencies: [{name: lib, version: 0.1.0}]}",
		"values.yaml": "run: hello\nimage: {}\nmode: plain\nsecretOf: other\n",
		"charts/lib-0.1.0.tgz": packed(t, map[string]string{
			"Chart.yaml": "{apiVersion: v2, name: lib, version: 0.1.0, type: library}",
			"templates/_lib.tpl": `{{ define "lib.run" }}{{ tpl .value .context }}{{ end }}
{{ define "lib.image" }}{{ .repository | default "nginx" }}{{ end }}
{{ define "lib.kind" }}{{ if eq .Values.mode "each" }}DaemonSet{{ else }}Deployment{{ end }}{{ end }}
{{ define "lib.api" }}{{ .Capabilities.APIVersions.Has "example.com/v1" }}{{ end }}`,
		}),
		"templates/all.yaml": `
apiVersion: apps/v1
kind: {{ include "lib.kind" . }}
metadata: {name: x}
spec:
  template:
    spec:
      containers:
      - name: x
        image: {{ include "lib.image" .Values.image | quote }}
        env: [{name: RUN, value: {{ include "lib.run" (dict "value" .Values.run "context" .) | quote }}}]
        {{- if eq (include "lib.kind" .) "DaemonSet" }}
        args: [{{ .Values.secretOf | quote }}]
        {{- end }}
`,
	}
	schema, left := infer(t, files)
	for path, want := range map[string]string{"run": "reaches a template (tpl)", "image": "reaches an image", "secretOf": "reaches a command"} {
		if left[path] != want {
			t.Errorf("%s is left out for %q, not %q", path, left[path], want)
		}
	}
	if _, ok := schema.Properties["mode"]; !ok {
		t.Error("mode is no field")
	}
	trial, err := New(operator.Entry{}, chartOf(t, files), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "example.com/v1"; !slices.Contains(trial.asked, want) {
		t.Errorf("it asks for %q, not %q", trial.asked, want)
	}
}

// What a chart makes only where the cluster has an API is seen, however it asks for that.
func TestAPIsThatAreAskedForByAHelper(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: asks, version: 0.1.0}",
		"templates/_api.tpl": `{{ define "has" }}{{ if .context.Capabilities.APIVersions.Has .version }}true{{ end }}{{ end }}
{{ define "hasKind" }}{{ if .context.Capabilities.APIVersions.Has (printf "policy.example.com/v1/%s" .kind) }}true{{ end }}{{ end }}`,
	}
	for file, condition := range map[string]string{
		"group": `include "has" (dict "version" "monitoring.example.com/v1" "context" .)`, "kind": `include "has" (dict "version" "keda.sh/v1alpha1/ScaledObject" "context" .)`,
		"printed": `include "hasKind" (dict "kind" "Budget" "context" .)`, "backquoted": "has `cert.example.com/v2` .Capabilities.APIVersions", "literal": `.Capabilities.APIVersions.Has "example.com/v1"`,
	} {
		files["templates/"+file+".yaml"] = "{{ if " + condition + " }}\n{apiVersion: example.com/v1, kind: Of" + file + ", metadata: {name: x}}\n{{ end }}"
	}
	kinds := kindsOf(t, files)
	var made []string
	for _, m := range kinds {
		made = append(made, m.Kind)
	}
	if want := []string{"Ofbackquoted", "Ofgroup", "Ofkind", "Ofliteral", "Ofprinted"}; !slices.Equal(made, want) {
		t.Errorf("it makes %q, not %q", made, want)
	}
}

// So does what is in a file or a default, if the chart runs it as a template.
func TestInferenceOfTemplatesElsewhere(t *testing.T) {
	_, left := infer(t, map[string]string{
		"Chart.yaml":      "{apiVersion: v2, name: elsewhere, version: 0.1.0}",
		"values.yaml":     "inFile: {}\ninDefault: {}\nname: '{{ .Values.inDefault.tag | default \"nginx\" }}'\n",
		"files/image.txt": `{{ .Values.inFile.repository | default "nginx" }}`,
		"templates/pod.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [
{name: a, image: {{ tpl (.Files.Get "files/image.txt") . | quote }}}, {name: b, image: {{ tpl .Values.name . | quote }}}]}}`,
	})
	want := map[string]string{"inFile": "reaches an image", "inDefault": "reaches an image", "name": "reaches a template (tpl)"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// aliasesChart has one subchart twice, the second only where somebody wants it.
var aliasesChart = map[string]string{
	"Chart.yaml": "{apiVersion: v2, name: aliases, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, alias: front}, " +
		"{name: sub, version: 0.1.0, alias: back, condition: back.enabled}]}",
	"values.yaml":            "back: {enabled: false}\n",
	"charts/sub/Chart.yaml":  "{apiVersion: v2, name: sub, version: 0.1.0}",
	"charts/sub/values.yaml": "text: hello\nimage: nginx\n",
	"charts/sub/templates/pod.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: {{ .Chart.Name }}}, spec: {containers: [
{name: x, image: {{ .Values.image | quote }}, env: [{name: TEXT, value: {{ .Values.text | quote }}}]}]}}`,
}

// The values of a subchart are where Chart.yaml says, once for each name, and can be pinned there.
func TestAliases(t *testing.T) {
	schema, left := infer(t, aliasesChart)
	for name, want := range map[string][]string{"front": {"text"}, "back": {"enabled", "text"}} {
		if got := slices.Sorted(maps.Keys(schema.Properties[name].Properties)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, not %q", name, got, want)
		}
	}
	if _, ok := schema.Properties["sub"]; ok {
		t.Error("the subchart has fields by a name that nobody uses")
	}
	for _, path := range []string{"front.image", "back.image"} {
		if left[path] != "reaches an image" {
			t.Errorf("%s is left out for %q", path, left[path])
		}
	}
	pinned, _ := inferPinned(t, aliasesChart, map[string]string{"front.text": "pinned"})
	if front, back := pinned.Properties["front"].Properties, pinned.Properties["back"].Properties; len(front) != 0 || len(back) != 2 {
		t.Errorf("with front.text pinned, front has %v and back %v", front, back)
	}
}

// What a subchart says of its values is said of them by the name that it has, unless the chart itself says something.
func TestWhatSubchartsSayOfTheirValues(t *testing.T) {
	schema, _ := infer(t, map[string]string{
		"Chart.yaml":                                "{apiVersion: v2, name: umbrella, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, alias: db}]}",
		"values.yaml":                               "db:\n  # Who comes in.\n  user: me\n",
		"values.schema.json":                        `{"properties": {"db": {"type": "object", "properties": {"size": {"minimum": 2}}}}}`,
		"charts/sub/Chart.yaml":                     "{apiVersion: v2, name: sub, version: 0.1.0, dependencies: [{name: leaf, version: 0.1.0}]}",
		"charts/sub/values.yaml":                    "# The user.\nuser: root\n# How it answers.\nmode: fast\nsize: 3\n",
		"charts/sub/templates/x.yaml":               "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {user: {{ .Values.user | quote }}, mode: {{ .Values.mode | quote }}, size: '{{ .Values.size }}'}}",
		"charts/sub/values.schema.json":             `{"properties": {"mode": {"enum": ["fast", "slow"]}, "size": {"minimum": 1, "maximum": 9}}}`,
		"charts/sub/charts/leaf/Chart.yaml":         "{apiVersion: v2, name: leaf, version: 0.1.0}",
		"charts/sub/charts/leaf/values.yaml":        "port: 80\n",
		"charts/sub/charts/leaf/values.schema.json": `{"$defs": {"text": {"type": "string"}}, "properties": {"port": {"description": "Where it is", "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/text"}]}}}`,
		"charts/sub/charts/leaf/templates/x.yaml":   "{apiVersion: v1, kind: ConfigMap, metadata: {name: y}, data: {port: {{ .Values.port | quote }}}}",
	})
	db := schema.Properties["db"].Properties
	port := db["leaf"].Properties["port"]
	if user, mode := db["user"], db["mode"]; user.Description != "Who comes in." || mode.Description != "How it answers." || len(mode.Enum) != 2 {
		t.Errorf("user is %+v, mode %+v", user, mode)
	}
	if size := db["size"]; size.Minimum == nil || *size.Minimum != 2 || size.Maximum != nil {
		t.Errorf("size is %+v", size)
	}
	if port.Description != "Where it is." || !port.XIntOrString {
		t.Errorf("port is %+v", port)
	}
}

// What turns subcharts off, and what is imported from them, are values, too, where only Chart.yaml has them. That they are
// changes nothing of what is made by default.
func TestValuesThatOnlyChartYAMLNames(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": `
apiVersion: v2
name: umbrella
version: 0.1.0
dependencies:
- {name: sub, version: 0.1.0, alias: tagged, tags: [backend, late]}
- {name: sub, version: 0.1.0, alias: asked, condition: "asked.install,global.install"}
- {name: sub, version: 0.1.0, alias: elsewhere, condition: "elsewhere.install,global.elsewhere"}
- {name: sub, version: 0.1.0, alias: "off", tags: [front, shared]}
- {name: sub, version: 0.1.0, alias: sharing, tags: [shared]}
- {name: sub, version: 0.1.0, alias: imported, import-values: [settings, {child: inner, parent: outer}]}
`,
		"values.yaml":                     "tags: {front: false}\nglobal: {elsewhere: true}\n",
		"templates/x.yaml":                "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {color: {{ .Values.color | quote }}, size: '{{ .Values.outer.size }}'}}\n",
		"charts/sub/Chart.yaml":           "{apiVersion: v2, name: sub, version: 0.1.0}",
		"charts/sub/values.yaml":          "exports: {settings: {color: red}}\ninner: {size: 1}\n",
		"charts/sub/templates/quota.yaml": "{apiVersion: v1, kind: LimitRange, metadata: {name: {{ .Chart.Name }}}}\n",
	}
	schema, _ := infer(t, files)
	fields := map[string]string{}
	var note func(schema apiextensionsv1.JSONSchemaProps, path ...string)
	note = func(schema apiextensionsv1.JSONSchemaProps, path ...string) {
		if schema.Default != nil {
			fields[dotted(path)] = string(schema.Default.Raw)
		}
		for key, below := range schema.Properties {
			note(below, append(path, key)...)
		}
	}
	note(*schema)
	if diff := cmp.Diff(map[string]string{
		"tags.front": "false", "tags.backend": "true", "asked.install": "true", "global.elsewhere": "true", "color": `"red"`, "outer.size": "1",
	}, fields); diff != "" {
		t.Errorf("the fields are (-want +got):\n%s", diff)
	}
	trial, err := New(operator.Entry{}, chartOf(t, files), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := trial.ByDefault()
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, r := range objects {
		made = append(made, r.Object.GetName())
	}
	if want := []string{"asked", "elsewhere", "imported", "sharing", "tagged", "x"}; !slices.Equal(made, want) {
		t.Errorf("by default, it makes %q, not %q", made, want)
	}
}

// A number may be what Kubernetes takes for one, and what the chart says.
func TestNumbers(t *testing.T) {
	schema, _ := infer(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: numbers, version: 0.1.0}",
		"values.yaml": `
budget: 1
bounded: 1
surge: 25%
cpu: 1
half: 0.5
disk: 8
probePort: 80
port: 8080
turned: 90
compared: 3
ratio: 1
either: 1
oneOf: 1
count: 1
`,
		"values.schema.json": `{"properties": {"bounded": {"type": "integer"}, "ratio": {"type": ["number", "null"]}, "either": {"type": ["integer", "string"], "minimum": 1},
			"oneOf": {"oneOf": [{"type": "number"}, {"type": "string"}]}}}`,
		"templates/all.yaml": `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: x}
spec:
  maxUnavailable: {{ .Values.budget }}
  minAvailable: {{ .Values.bounded }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x}
spec:
  replicas: {{ .Values.count }}
  updateStrategy: {rollingUpdate: {maxUnavailable: {{ .Values.surge }}}}
  template:
    spec:
      containers:
      - name: x
        image: nginx
        ports: [{containerPort: {{ .Values.port }}}]
        env:
        - {name: RATIO, value: {{ .Values.ratio | quote }}}
        - {name: EITHER, value: {{ .Values.either | quote }}}
        - {name: ONE_OF, value: {{ .Values.oneOf | quote }}}
        - {name: PROBE, value: {{ .Values.probePort | quote }}}
        resources: {limits: {cpu: {{ .Values.cpu }}, memory: {{ .Values.half }}}}
        livenessProbe: {httpGet: {path: /, port: {{ .Values.probePort }}}}
        readinessProbe: {tcpSocket: {port: {{ .Values.port }}}}
  volumeClaimTemplates: [{metadata: {name: x}, spec: {resources: {requests: {storage: {{ .Values.disk }}}}}}]
---
apiVersion: v1
kind: Service
metadata: {name: x}
spec:
  ports:
  - {port: 80, targetPort: {{ .Values.turned | int }}}
  {{- if gt .Values.compared 2.0 }}
  - {port: 81, targetPort: {{ .Values.compared }}}
  {{- end }}
`,
	})
	both, number, integer := []string{"budget", "cpu", "disk", "either", "oneOf", "probePort"}, []string{"half", "ratio"}, []string{"bounded", "compared", "count", "port", "turned"}
	for _, name := range both {
		if got := schema.Properties[name]; got.Type != "" || !got.XIntOrString || got.Pattern != oneWordOrPercent || got.Description == "" {
			t.Errorf("%s is %+v", name, got)
		}
	}
	for kind, names := range map[string][]string{"number": number, "integer": integer} {
		for _, name := range names {
			if got := schema.Properties[name]; got.Type != kind || got.XIntOrString || got.Pattern != "" {
				t.Errorf("%s is %+v, and no %s", name, got, kind)
			}
		}
	}
	if got := schema.Properties["either"].Minimum; got == nil || *got != 1 {
		t.Errorf("either has the minimum %v", got)
	}
	if got := schema.Properties["surge"]; got.Type != "string" || got.Pattern != oneWordOrPercent {
		t.Errorf("surge is %+v", got)
	}
}

// The elements of a list have what any of them has by default, in maps and lists of theirs, too.
func TestElementsThatDiffer(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": `
hosts:
- {tls: {secret: a}, note: b, paths: [{path: /}]}
- {tls: {issuer: c}, note: null, paths: []}
- {tls: {}, paths: [{kind: d}]}
`,
		"templates/all.yaml": `
{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {
{{- range $n, $host := .Values.hosts }}{{ with $host }}
a{{ $n }}: {{ printf "%s %s %s" .note .tls.secret .tls.issuer | quote }},
{{ range $m, $path := .paths }}b{{ $n }}.{{ $m }}: {{ printf "%s %s" .path .kind | quote }},{{ end }}{{ end }}{{ end }}}}}
`,
	})
	host := schema.Properties["hosts"].Items.Schema.Properties
	if len(left) > 0 || len(host) != 3 || host["note"].Type != "string" {
		t.Fatalf("a host has %v, and lacks %v", host, left)
	}
	for name, of := range map[string]map[string]apiextensionsv1.JSONSchemaProps{"secret issuer": host["tls"].Properties, "path kind": host["paths"].Items.Schema.Properties} {
		for field := range strings.FieldsSeq(name) {
			if of[field].Type != "string" {
				t.Errorf("there is no %s in %v", field, of)
			}
		}
	}
}

// A chart may set a variable of its own where there is a value, as GOMEMLIMIT to a limit of memory. What authors call one is no field,
// nor is what has a Secret in one.
func TestInferenceOfVariablesThatAValueTurnsOn(t *testing.T) {
	_, left := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "resources: {}\nverbose: 0\ncalled: ''\nnumbered: 1\nsecret: 0\n",
		"templates/x.yaml": `apiVersion: v1
kind: Pod
metadata: {name: x, annotations: {verbose: {{ .Values.verbose | quote }}, secret: {{ .Values.secret | quote }}}}
spec:
  containers:
  - name: x
    resources: {{ .Values.resources | toJson }}
    env:
    - {name: A, value: b}
    {{- if (.Values.resources.limits).memory }}
    - {name: GOMEMLIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: '1'}}}
    {{- end }}
    {{- if gt (int .Values.verbose) 2 }}
    - {name: VERBOSE, value: "true"}
    {{- end }}
    {{- with .Values.called }}
    - {name: {{ . | quote }}, value: b}
    {{- end }}
    - {name: A{{ .Values.numbered }}, value: b}
    {{- if gt (int .Values.secret) 2 }}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: x, key: x}}}
    {{- end }}
`,
	})
	const environment = "reaches the environment, and so any Secret"
	if diff := cmp.Diff(map[string]string{"called": environment, "numbered": environment, "secret": environment}, left); diff != "" {
		t.Errorf("no fields are (-want +got):\n%s", diff)
	}
}

// A number of which a chart makes that many objects is tried with one that is not too much, and is a field
// unless it gets where it must not.
func TestNumbersOfObjects(t *testing.T) {
	before := MaxTime
	t.Cleanup(func() { MaxTime = before })
	MaxTime = 10 * time.Second
	const service = "---\n{apiVersion: v1, kind: Service, metadata: {name: x-{{ $i }}}, spec: {externalName: '{{ until (int $.Values.replicas) | len }}'}}\n" // each as long as there are many
	schema, left := infer(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml":         "replicas: 3\nshards: 0\nnodes: 1\n",
		"templates/set.yaml":  "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {replicas: {{ .Values.replicas }}}}",
		"templates/each.yaml": "{{ range $i := until (int .Values.replicas) }}\n" + service + "{{ end }}\n",
		"templates/jobs.yaml": "{{ range $i := until (int .Values.shards) }}\n---\n{apiVersion: batch/v1, kind: Job, metadata: {name: x-{{ $i }}}, " +
			"spec: {template: {spec: {containers: [{name: x, args: ['{{ $.Values.shards }}']}]}}}}\n{{ end }}\n",
		"templates/pods.yaml": "{{ range $i := until (int .Values.nodes) }}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x-{{ $i }}}, spec: {hostNetwork: {{ gt (int $.Values.nodes) 5 }}}}\n{{ end }}\n",
	})
	if replicas := schema.Properties["replicas"]; replicas.Type != "integer" || left["replicas"] != "" {
		t.Errorf("replicas is %+v: %s", replicas, left["replicas"])
	}
	if left["shards"] != "reaches a command" || left["nodes"] != "reaches the node" {
		t.Errorf("shards: %q, nodes: %q", left["shards"], left["nodes"])
	}
}

// kindsOf is what a chart of these files may make.
func kindsOf(t *testing.T, files map[string]string) []Made {
	t.Helper()
	trial, err := New(operator.Entry{}, chartOf(t, files), nil)
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := trial.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := trial.Kinds(scenarios)
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// What has no default and is written without quotes is no mere number because the object that it is in takes an option
// (scheme: https of a ServiceMonitor): that a text breaks no other rendering says nothing.
func TestWithoutDefaultInAnOption(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
		"values.yaml": "enabled: false\nscheme:\nport:\nweight:\nweighs: false\n",
		"templates/x.yaml": `{{ if .Values.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: x}
spec:
  {{- with .Values.scheme }}
  scheme: {{ . }}
  {{- end }}
  port: {{ int .Values.port }}
  weight: {{ .Values.weight }}
{{ end }}
{{ if and .Values.weighs .Values.weight }}{{ if gt .Values.weight 5.0 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
{{ end }}{{ end }}`,
	})
	if scheme := schema.Properties["scheme"]; !scheme.XIntOrString || scheme.Pattern != oneWord {
		t.Errorf("scheme is %+v: %s", scheme, left["scheme"])
	}
	for _, number := range []string{"port", "weight"} {
		if is := schema.Properties[number]; is.Type != "integer" && is.Type != "number" {
			t.Errorf("%s is %+v: %s", number, is, left[number])
		}
	}
}

// What is left to chance is nothing that a text brings: else there would be a scenario for each text that templates
// compare a value with, and all values would be tried in all of them.
func TestScenariosAreNotLeftToChance(t *testing.T) {
	count := func(password string) int {
		trial, err := New(operator.Entry{}, chartOf(t, map[string]string{
			"Chart.yaml":  "{apiVersion: v2, name: x, version: 0.1.0}",
			"values.yaml": "mode: a\n",
			"templates/x.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {password: " + password + "}}\n" +
				`{{ if has .Values.mode (list "b" "c" "d" "e") }}{{ end }}{{ if eq .Values.mode "f" }}{{ printf "---\napiVersion: v1\nkind: Secret\nmetadata: {name: y}" }}{{ end }}`,
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		scenarios, err := trial.Scenarios()
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(scenarios, func(s Scenario) bool { return !s.partly }))
	}
	if by, without := count(`{{ randAlphaNum 9 | quote }}`), count("x"); by != without || by == 0 {
		t.Errorf("%d texts bring something where a password is left to chance, %d where it is not", by, without)
	}
}

// Of thousands of renderings, what is the same is kept once.
func TestKindsKeepNothingTwice(t *testing.T) {
	kinds := kindsOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: twice, version: 0.1.0}",
		"values.yaml":        "a: false\nb: false\nc: false\n",
		"templates/all.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: y}, data: {a: {{ .Values.a | quote }}}}\n",
	})
	if len(kinds) != 1 || len(kinds[0].Objects) != 3 {
		t.Errorf("kept are %+v, not x and two of y", kinds)
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

// So is a percentage, and nothing else that is none of those.
func TestOneWordOrPercent(t *testing.T) {
	pattern := regexp.MustCompile(oneWordOrPercent)
	for text, want := range map[string]bool{"": true, "http": true, "500m": true, "5%": true, "25%": true, "%": false, "%a": false, "2%5": false, "25% ": false, "a: b": false, "25%\n": false} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("%q is one: %v", text, got)
		}
	}
}

// No text names a variable, alone or after another one.
func TestNoVariable(t *testing.T) {
	pattern := regexp.MustCompile(noVariable)
	for text, want := range map[string]bool{"": true, "a b\nc": true, "$5 (a)": true, "${a}": true, "$$a": true, "$(A)": false, "a $$(A)": false, "a$": false, "\n$(A)\n": false, "$": false, "(a)": true} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("%q names none: %v", text, got)
		}
	}
}

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
	if strings.HasSuffix(Sentence("What."), "..") {
		t.Error("two periods")
	}
}

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Who may write custom resources of a chart that runs their values as templates does not end the operator
// with one that calls itself, or keep it busy with one that never ends. Such a custom resource is told so,
// mended and deleted as any other.
func TestTemplatesThatNeverEnd(t *testing.T) {
	s := newScene(t)
	s.serveKind("Looping")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":        "{apiVersion: v2, name: looping, version: 0.1.0}",
		"values.yaml":       "{text: '', rules: ''}",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-it'}\ndata: {text: {{ tpl .Values.text . | quote }}, rules: {{ .Values.rules | quote }}}\n",
		"templates/end.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-end', annotations: {helm.sh/hook: pre-delete, helm.sh/hook-delete-policy: hook-succeeded}}\n" +
			"data: {text: {{ tpl .Values.text . | quote }}}\n",
	})
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Looping", chart, "  allow: {values: [rules]}\n")})
	for name, text := range map[string]string{"stack": "{{ tpl .Values.text . }}", "memory": "{{ until 1000000000 }}", "double": "{{ $a := .Values.text }}" + strings.Repeat("{{ $a = print $a $a }}", 40), "time": "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"} {
		s.createOf("Looping", name, kit.Set("text", text))
		s.awaitOf("Looping", name, "Stalled", "NotAllowed", "a template in text has", "allow.values")
	}
	s.createOf("Looping", "fine", kit.Set("text", "{{ .Release.Name }}"), kit.Set("rules", "{{ range .Alerts }}"))
	s.awaitOf("Looping", "fine", "Ready")
	config := &corev1.ConfigMap{}
	s.get(config, "fine-it")
	if config.Data["text"] != "fine" || config.Data["rules"] != "{{ range .Alerts }}" {
		t.Errorf("it is %v", config.Data)
	}
	s.editOf("Looping", "stack", kit.Set("text", "mended"))
	s.awaitOf("Looping", "stack", "Ready")

	// One that was fine and becomes endless is not rendered for its deletion either.
	s.editOf("Looping", "fine", kit.Set("text", "{{ tpl .Values.text . }}"))
	s.awaitOf("Looping", "fine", "Stalled", "NotAllowed")
	s.must(env.Client.Delete(ctx, s.of("Looping", "fine")))
	s.awaitEvent("fine", "NotAllowed", "uninstall-disable-hooks")
	s.editOf("Looping", "fine", kit.Set("text", "mended"))
	s.awaitGone(config, "fine-it")
	s.delete(s.of("Looping", "stack"))
	if operator.HasEnded() {
		t.Errorf("the operator has ended:\n%s", operator.LastLines(20))
	}
}

// Who may write custom resources does not end the operator, or keep it busy, with what the chart makes much
// of; large numbers of which it makes little are fine.
func TestSpecsThatMakeTooMuch(t *testing.T) {
	s := newScene(t)
	s.serveKind("Counter")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: counter, version: 0.1.0}",
		"values.yaml": "{count: 1, list: [], users: [], text: x, noted: 1, first: 1, labels: '{}'}",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-it'}\ndata:\n{{- $root := . }}{{- $count := int $root.Values.count }}{{- range until $count }}\n  key-{{ . }}: x\n{{- end }}" +
			"{{- if .Release.IsInstall }}{{ range until (int .Values.first) }}\n  first-{{ . }}: x\n{{- end }}{{ end }}{{- range $root.Values.list }}\n  of-list: {{ $root.Values.text }}\n{{- end }}{{- range $i, $name := .Values.users }}\n  user-{{ $i }}: {{ htpasswd $name \"secret\" }}\n{{- end }}\n  labels: '{{ len (fromYaml $root.Values.labels) }}'\n",
		"templates/NOTES.txt": "{{ range until (int .Values.noted) }}{{ . }} {{ end }}",
	})
	only := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Counter", chart, "  allow: {values: [count]}\n")}
	operator := s.ownOperator(only)
	text := strings.Repeat("x", 500_000)
	// 16 KiB of YAML that stand for a gigabyte: few enough aliases for the parser.
	bomb := fmt.Sprintf("{f: [%s], a: &a %s, b: &b [%s], c: [%s]}", strings.Repeat("0,", 4000), strings.Repeat("x", 5500), strings.Repeat("*a,", 490), strings.Repeat("*b,", 395))
	for name, c := range map[string]struct {
		edits []kit.Edit
		want  string
	}{
		"number":   {[]kit.Edit{kit.Set("count", 500_000_000)}, "largest number, or longest list or map, is count (500000000)"},
		"list":     {[]kit.Edit{kit.Set("list", 500_000_000)}, "list (500000000)"}, // templates range over numbers, too
		"long":     {[]kit.Edit{kit.Set("list", slices.Repeat([]any{"x"}, 300_000)), kit.Set("text", strings.Repeat("x", 1000))}, "list (300000)"},
		"text":     {[]kit.Edit{kit.Set("list", slices.Repeat([]any{"x"}, 400)), kit.Set("text", text)}, "its longest text has 500000 bytes"},
		"costly":   {[]kit.Edit{kit.Set("users", slices.Repeat([]any{"somebody"}, 300))}, "users (300)"},
		"unquoted": {[]kit.Edit{kit.Set("list", []any{"x"}), kit.Set("text", bomb)}, "885 YAML aliases"},
		"read":     {[]kit.Edit{kit.Set("labels", bomb)}, "885 YAML aliases"},
		"noted":    {[]kit.Edit{kit.Set("noted", 500_000_000)}, "noted (500000000)"}, // Helm renders notes, too
	} {
		s.createOf("Counter", name, c.edits...)
		s.awaitOf("Counter", name, "Stalled", "NotAllowed", "more than 48 MiB of memory, or 5s of a processor", c.want)
		s.delete(s.of("Counter", name))
	}
	s.createOf("Counter", "fat", kit.Set("list", slices.Repeat([]any{"x"}, 5000)), kit.Set("text", strings.Repeat("x", 1000)))
	s.awaitOf("Counter", "fat", "ReleaseFailed", "is more than its record can hold")
	s.createOf("Counter", "fine", kit.Set("count", 3), kit.Set("runAsUser", 1_000_650_000), kit.Set("memory", "268435456"))
	s.awaitOf("Counter", "fine", "Ready")
	s.createOf("Counter", "mended", kit.Set("count", 500_000_000))
	s.awaitOf("Counter", "mended", "Stalled", "NotAllowed")
	s.editOf("Counter", "mended", kit.Set("count", "2"))
	s.awaitOf("Counter", "mended", "Ready")
	config := &corev1.ConfigMap{}
	if s.get(config, "mended-it"); len(config.Data) != 4 {
		t.Errorf("it has %d", len(config.Data))
	}
	if operator.HasEnded() {
		t.Errorf("the operator has ended:\n%s", operator.LastLines(20))
	}
	// What is compared with a first revision is rendered as an installation.
	operator.Stop()
	for _, record := range s.records("fine") {
		s.must(env.Client.Patch(ctx, &record, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+inputsOfRecord+`": "forged"}}}`))))
	}
	s.editOf("Counter", "fine", kit.Set("first", 500_000_000))
	operator = s.ownOperator(only)
	s.awaitOf("Counter", "fine", "Stalled", "NotAllowed")
	if operator.HasEnded() {
		t.Errorf("the operator has ended:\n%s", operator.LastLines(20))
	}
}

// Who may write custom resources does not end the operator, or keep it busy, with half a megabyte that is nested
// thousands of levels deep, or that is below one long name, where a field of the CRD takes anything, or a text becomes
// YAML: all paths together would be gigabytes.
func TestSpecsOfLongPaths(t *testing.T) {
	const limit = 150 // MiB; without a bound, the deep value alone takes 1,100
	s := newScene(t)
	s.serveKind("Deep")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":        "{apiVersion: v2, name: deep, version: 0.1.0}",
		"values.yaml":       "{any: {}, text: '{}'}",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-it'}\ndata: {any: {{ toJson .Values.any | quote }}}\nrest: {{ .Values.text }}\n",
	})
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Deep", chart, "")})
	nested := func(levels, long int) any {
		var value any = "x"
		for level := range levels {
			value = map[string]any{fmt.Sprintf("a%0*d", long, level): value}
		}
		return value
	}
	s.createOf("Deep", "fine", kit.Set("any", nested(15, 100)))
	s.awaitOf("Deep", "fine", "Ready")
	before := s.peak(operator)
	deep, wide := nested(4000, 120), map[string]any{}
	for i := range 30_000 {
		wide[fmt.Sprint(i)] = ""
	}
	text, err := json.Marshal(deep)
	s.must(err)
	for name, set := range map[string]kit.Edit{"deep": kit.Set("any", deep), "wide": kit.Set("any", map[string]any{strings.Repeat("x", 300_000): wide})} {
		s.createOf("Deep", name, set)
		s.awaitOf("Deep", name, "Stalled", "NotAllowed", "a field of the spec has a path", "of 2048")
	}
	s.createOf("Deep", "text", kit.Set("text", string(text)))
	s.awaitOf("Deep", "text", "Stalled", "InvalidValues", `ConfigMap "text-it": a field has a path`, "of 2048")
	if cost := s.peak(operator) - before; cost >= limit {
		t.Errorf("they cost %d MiB over %d", cost, before)
	} else {
		t.Logf("they cost %d MiB over %d", cost, before)
	}
	s.editOf("Deep", "deep", kit.Set("any", nested(15, 100)))
	s.awaitOf("Deep", "deep", "Ready")
}

// What is released and waits for a trial, as much does after a restart, is as ready as before.
func TestTrialsAfterARestart(t *testing.T) {
	s := newScene(t)
	s.serveKind("Looker")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":        "{apiVersion: v2, name: looker, version: 0.1.0}",
		"values.yaml":       "{list: []}",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-it'}\ndata: {count: '{{ len .Values.list }}', there: '{{ len (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"settings\") }}'}\n",
	})
	only := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Looker", chart, "")}
	first := s.ownOperator(only)
	names := []string{"a", "b", "c", "d", "e", "f"}
	ready := map[string]metav1.Condition{}
	for _, name := range names {
		s.createOf("Looker", name, kit.Set("list", slices.Repeat([]any{"x"}, 600)))
		s.awaitOf("Looker", name, "Ready")
		ready[name], _ = kit.Condition(s.of("Looker", name), "Ready")
	}
	first.Stop()
	next := s.ownOperator(only)
	s.await("all are reconciled", func() error {
		const of = `controller="looker-controller"`
		if working := next.metric(t, "controller_runtime_active_workers", of); working > 0 {
			return fmt.Errorf("%v at work", working)
		}
		return atLeast(int(next.metric(t, "controller_runtime_reconcile_total", of)), len(names))
	})
	for _, name := range names {
		if now, err := kit.Condition(s.of("Looker", name), "Ready"); err != nil || !now.LastTransitionTime.Equal(new(ready[name].LastTransitionTime)) {
			t.Errorf("%s was ready, and is %+v (%v)", name, now, err)
		}
	}
}

// A character at which a line ends for YAML, and not for templates, makes no field and no object of a text:
// the chart's Deployment stays as the chart has it.
func TestTextsThatGoOnAsYAML(t *testing.T) {
	s := newScene(t)
	s.serveKind("Lined")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: lined, version: 0.1.0}",
		"values.yaml":         "{note: '', podAnnotations: {}}",
		"templates/note.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-note\ndata:\n  note: |\n    {{- tpl .Values.note $ | nindent 4 }}\n",
		"templates/pods.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {matchLabels: {app: it}}
  template:
    metadata:
      labels: {app: it}
      annotations:
        {{- toYaml .Values.podAnnotations | nindent 8 }}
    spec: {containers: [{name: it, image: theirs}]}
`,
	})
	s.launch(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Lined", chart, "")})
	const pods = "template: {metadata: {labels: {app: it}}, spec: {containers: [{name: it, image: mine}]}}"
	for name, set := range map[string]kit.Edit{
		"return": kit.Set("note", "a\rkind: Deployment\rapiVersion: apps/v1\rspec: {selector: {matchLabels: {app: it}}, "+pods+"}"),
		"next":   kit.Set("note", "a\u0085kind: Deployment\u0085apiVersion: apps/v1\u0085spec: {selector: {matchLabels: {app: it}}, "+pods+"}"),
		"made":   kit.Set("note", `a{{ "\r" }}kind: Deployment{{ "\r" }}apiVersion: apps/v1{{ "\r" }}spec: {selector: {matchLabels: {app: it}}, `+pods+"}"),
		"yaml":   kit.Set("podAnnotations", map[string]any{"a": "a\n\u2028" + pods + "\u2028rest:\u2028  a:\u2028    b: c"}),
	} {
		s.createOf("Lined", name, set)
		s.awaitOf("Lined", name, "Stalled", "NotAllowed", "at which a line ends for YAML", `write \n`)
		s.editOf("Lined", name, kit.Set("note", "one\r\ntwo"), kit.Set("podAnnotations", map[string]any{"a": "one\ntwo"}))
		s.awaitOf("Lined", name, "Deployed")
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "theirs" {
			t.Errorf("%s runs image %q", name, image)
		}
		s.delete(s.of("Lined", name))
	}
}

package integration

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Who may write custom resources of a chart that runs their values as templates does not end the operator with one that calls itself, or keep it busy with one
// that never ends. Such a custom resource is told so, mended and deleted as any other.
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

// A number that says how much a chart makes has a bound, or it would end the operator; so has what a chart makes of anything else.
func TestNumbersThatMakeTooMuch(t *testing.T) {
	s := newScene(t)
	s.serveKind("Counter")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: counter, version: 0.1.0}",
		"values.yaml": "{count: 1, free: 1, list: []}",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-it'}\ndata:\n{{- $count := int .Values.count }}{{- range until $count }}\n  key-{{ . }}: x\n{{- end }}" +
			"{{- range until (int .Values.free) }}\n  free-{{ . }}: x\n{{- end }}{{- range .Values.list }}\n  of-list: {{ repeat 1000 \"x\" }}\n{{- end }}\n",
	})
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Counter", chart, "  allow: {values: [free]}\n")})
	s.createOf("Counter", "memory", kit.Set("count", 500_000_000))
	s.awaitOf("Counter", "memory", "Stalled", "NotAllowed", "count is 500000000", "allow.values")
	s.createOf("Counter", "list", kit.Set("list", slices.Repeat([]any{"x"}, 5000)))
	s.awaitOf("Counter", "list", "ReleaseFailed", "the chart makes 4 MB of this spec")
	s.createOf("Counter", "long", kit.Set("list", slices.Repeat([]any{"x"}, 300_000)))
	s.awaitOf("Counter", "long", "Stalled", "NotAllowed", "list is 300001, or brings the elements of lists and maps to that")
	s.createOf("Counter", "number", kit.Set("list", 500_000_000)) // which a template ranges over, too
	s.awaitOf("Counter", "number", "Stalled", "NotAllowed", "list is 500000000", "allow.values")
	s.createOf("Counter", "fine", kit.Set("count", 3), kit.Set("free", 11_000))
	s.awaitOf("Counter", "fine", "Ready")
	s.editOf("Counter", "memory", kit.Set("count", "2"))
	s.awaitOf("Counter", "memory", "Ready")
	config := &corev1.ConfigMap{}
	if s.get(config, "memory-it"); len(config.Data) != 3 {
		t.Errorf("it has %d", len(config.Data))
	}
	if operator.HasEnded() {
		t.Errorf("the operator has ended:\n%s", operator.LastLines(20))
	}
}

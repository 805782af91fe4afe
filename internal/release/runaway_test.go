package release

import "testing"

func TestRunaway(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "", "{{ .Release.Name }}.example.com": "", `{{ include "x.labels" . | nindent 4 }}`: "", "{{ lookup \"v1\" \"ConfigMap\" \"a\" \"b\" }}": "",
		"tpl range until": "", "{{/* tpl */}}": "", `{{ "tpl" }}`: "", "{{ not a template": "", "{{ .Values.range }}": "",
		"{{ tpl .Values.a . }}": "tpl", `{{ and "}" (tpl .Values.a .) }}`: "tpl", "{{- range .Values.list }}x{{ end }}": "range", "{{ until 1000000000 }}": "until",
		`{{ if .a }}{{ else }}{{ repeat 1000000000 "x" }}{{ end }}`: "repeat", `{{ with .a }}{{ genPrivateKey "rsa" }}{{ end }}`: "genPrivateKey",
		`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`: "define", `{{ (.a | tpl) }}`: "tpl", `{{ $x := tpl .Values.a . }}`: "tpl",
	} {
		if got := endlessIn(text); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	spec := map[string]any{"fine": "{{ .a }}", "config": map[string]any{"rules": []any{"x", "{{ range .Alerts }}{{ end }}"}}}
	if path, word := runaway(spec, "", nil); path != "config.rules" || word != "range" {
		t.Errorf("%q at %q", word, path)
	}
	for _, allowed := range []string{"config", "config.rules"} {
		if path, word := runaway(spec, "", []string{allowed}); word != "" {
			t.Errorf("%s is allowed: %q at %q", allowed, word, path)
		}
	}
	if path, word := runaway(map[string]any{"a": map[string]any{"{{ tpl .a . }}": "x"}}, "", nil); word != "tpl" {
		t.Errorf("a key: %q at %q", word, path)
	}
}

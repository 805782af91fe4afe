package release

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/internal/object"
)

func nested(levels int) any {
	if levels == 0 {
		return "x"
	}
	return map[string]any{"a": nested(levels - 1)}
}

func TestRunaway(t *testing.T) {
	check := func(spec map[string]any) error {
		whole, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		kind := &Kind{source: chartSource{runsValues: true}, KindOptions: KindOptions{Allow: object.Allow{Values: []string{"config", "image.tag", "env[].value"}}, Overrides: map[string]string{"pinned": "x"}}}
		return kind.checkTexts(spec, string(whole))
	}
	for text, want := range map[string]string{
		"plain": "", "{{ .Release.Name }}.example.com": "", `{{ include "x.labels" . }}`: "", `{{ include "x.labels" $ | quote }}`: "", `{{ (lookup "v1" "ConfigMap" "a" "b").data }}`: "",
		"tpl range until": "", "{{/* tpl */}}": "", `{{ "tpl" }}`: "", "{{ .Values.range }}": "", `{{ printf "%s-%s" .Release.Name .Values.a | trunc 63 }}`: "",
		"{{ if .Values.a }}x{{ else }}{{ $.Values.b | default \"c\" }}{{ end }}": "", "{{ with .Values.a }}x{{ end }}": "", "{{ .Capabilities.KubeVersion.Major }}": "",
		"{{ not a template": "can't be parsed", "{{ range until 1000000000 }}x": "can't be parsed", "{{ end }}": "can't be parsed",
		"{{ tpl .Values.a . }}": "tpl", `{{ and "}" (tpl .Values.a .) }}`: "tpl", "{{- range .Values.list }}x{{ end }}": "range", "{{ until 1000000000 }}": "until",
		`{{ if .Values.a }}{{ else }}{{ repeat 1000000000 "x" }}{{ end }}`: "repeat", `{{ with .Values.a }}{{ genPrivateKey "rsa" }}{{ end }}`: "genPrivateKey",
		`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`: "definition", `{{ template "render" (dict "value" .Values.a) }}`: "template", `{{ (.Values.a | tpl) }}`: "tpl",
		`{{ $a := "0123456789abcdef" }}{{ $a = print $a $a }}`: "variable", `{{ printf "%1000000s" "x" }}`: "printf", `{{ printf .Values.a }}`: "printf", "{{ randBytes 2000000000 }}": "randBytes",
		`{{ indent 2000000000 "x" }}`: "indent", `{{ include "render" (dict "value" .Values.text) }}`: "dict", `{{ include .Values.name . }}`: "include", `{{ .Files.Get "x" }}`: ".Files",
		`{{ .Values.a | toYaml | b64enc | quote }}`: "", `{{ with .Values.a }}{{ include "x.labels" $ }}{{ end }}`: "", `{{ with .Values.a }}{{ include "render" . }}{{ end }}`: "include",
		strings.Repeat(`{{ include "x.name" . }}`, 20): "", strings.Repeat(`{{ include "x.name" . }}`, 21): "include", strings.Repeat("{{ . }}", 100): "more than is good",
		`{{ "\"" ` + strings.Repeat("| quote ", 30) + "}}": "more than is good", `{{ "\"" ` + strings.Repeat("| toJson ", 30) + "}}": "more than is good",
		`{{ with "0123456789abcdef" }}` + strings.Repeat("{{ with print . . }}", 30) + strings.Repeat("{{ end }}", 31): "more than is good",
		`{{ "\"" ` + strings.Repeat("| quote ", 30) + `| lookup "v1" "ConfigMap" "a" }}`:                               "more than is good",
		`{{ lookup "v1" "ConfigMap" "a" ("\"" ` + strings.Repeat("| quote ", 30) + `) }}`:                              "more than is good",
		`{{ "\"" ` + strings.Repeat("| quote ", 30) + `| include "x" $ }}`:                                             "more than is good",
		`{{ printf "%f" .Values.list }}`: "printf", `{{ printf "%-s" .Values.a }}`: "printf", `{{ printf "100%% %v %q" .Values.a .Values.b }}`: "",
		`{{ with sha256sum "" }}` + strings.Repeat(`{{ with printf "%s%s" . . }}`, 30) + strings.Repeat("{{ end }}", 31): "more than is good",
	} {
		err := check(map[string]any{"text": text})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	const loop = "{{ range .Alerts }}{{ end }}"
	for name, c := range map[string]struct {
		spec map[string]any
		want bool
	}{
		"allowed":                       {map[string]any{"config": map[string]any{"rules": []any{"x", loop}}, "image": map[string]any{"tag": loop}}, true},
		"pinned":                        {map[string]any{"pinned": loop}, true},
		"in a list":                     {map[string]any{"rules": []any{"x", loop}}, false},
		"allowed in a list":             {map[string]any{"env": []any{map[string]any{"value": loop}}}, true},
		"beside that":                   {map[string]any{"env": []any{map[string]any{"name": loop}}}, false},
		"a key like a list":             {map[string]any{"env[]": map[string]any{"value": loop}}, false},
		"a key":                         {map[string]any{"a": map[string]any{"{{ tpl .a . }}": "x"}}, false},
		"a key like an allowed path":    {map[string]any{"image.tag": loop}, false},
		"much of little":                {map[string]any{"big": strings.Repeat("x", 500_000), "text": strings.Repeat("{{ .Values.big }}", 1000)}, false},
		"the author's, by another name": {map[string]any{"x": map[string]any{"Template": strings.Repeat("x", 500_000)}, "t": "{{ with .Values.x }}" + strings.Repeat("{{ .Template }}", 1000) + "{{ end }}"}, false},
		"deep in YAML":                  {map[string]any{"x": nested(1000), "y": strings.Repeat("\n", 100_000), "t": "{{ toYaml .Values }}"}, false},
		"YAML":                          {map[string]any{"x": nested(5), "t": "{{ toYaml .Values.x }}"}, true},
		"little of little, many times":  {map[string]any{"text": strings.Repeat("{{ .Values.a }}", 1000)}, true},
	} {
		if err := check(c.spec); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	const named = "in env[].name has {{range"
	if err := check(map[string]any{"env": []any{map[string]any{"name": "{{ range .Values.list }}{{ end }}"}}}); err == nil || !strings.Contains(err.Error(), named) {
		t.Errorf("the path as allow.values would have it, %q, is not in: %v", named, err)
	}
	if err := (&Kind{}).checkTexts(map[string]any{"text": loop}, loop); err != nil {
		t.Errorf("a chart that runs no values: %v", err)
	}
}

// Each path has the names above it in it, so that the paths of a deep spec, or below a long name, would take gigabytes.
func TestLongPaths(t *testing.T) {
	wide := map[string]any{}
	for i := range 30_000 {
		wide[fmt.Sprint(i)] = "x"
	}
	start := time.Now()
	for name, c := range map[string]struct {
		value any
		want  bool
	}{
		"deep": {nested(1020), true}, "deeper": {nested(1023), false}, "far deeper": {nested(100_000), false},
		"wide": {wide, true}, "a long name": {map[string]any{strings.Repeat("x", 2040): wide}, false}, "a longer name": {map[string]any{strings.Repeat("x", 300_000): wide}, false},
	} {
		err := (&Kind{}).checkTexts(map[string]any{"any": c.value}, "")
		if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), "of 2048") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(start); took > 10*time.Second { // on a machine that is busy
		t.Errorf("it takes %s", took)
	}
}

// What ends a line for YAML alone would have a chart write other fields and objects than its own.
func TestLineEnds(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\r\n": "", "a\u00a0b": "", "a\rkind: Pod": "U+000D", "a\r": "U+000D", "a\r\r\n": "U+000D", "a\u0085kind: Pod": "U+0085", "a\n\u2028kind: Pod": "U+2028", "\u2029": "U+2029",
	} {
		for where, spec := range map[string]map[string]any{"text": {"text": text}, "list": {"list": []any{"x", text}}, "map": {"map": map[string]any{"a.b/" + text: "x"}}} {
			err := (&Kind{}).checkTexts(spec, "")
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), where)) {
				t.Errorf("%q in a %s: %v", text, where, err)
			}
		}
	}
	kind := &Kind{KindOptions: KindOptions{Overrides: map[string]string{"pinned": "x", "list": "{x}"}}}
	if err := kind.checkTexts(map[string]any{"pinned": "a\rb", "list": []any{"a\u2028b"}}, ""); err != nil {
		t.Errorf("what the platform pins: %v", err)
	}
}

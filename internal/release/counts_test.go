package release

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/util/sets"

	"demo.welcome.domain/welcome-operator/internal/object"
)

func TestCounts(t *testing.T) {
	for text, want := range map[string]string{
		"{{ range until (int .Values.replicas) }}x{{ end }}":                                                "replicas",
		"{{ range $i, $e := until (.Values.a.b | int) }}{{ repeat 3 \"x\" }}{{ end }}":                      "a.b",
		"{{ $n := int $.Values.a }}{{ with .Values.b }}{{ range untilStep 0 $n 1 }}x{{ end }}{{ end }}":     "a",
		"{{ $all := .Values.pools }}{{ range $all }}{{ end }}{{ repeat (int $all.size) \"x\" }}":            "pools.size",
		"{{ .Values.n | int | until | join \",\" }}":                                                        "n",
		"{{ range until (add .Values.a .Values.b | int) }}x{{ end }}":                                       "a b",
		"{{ if .Values.x }}{{ else }}{{ seq 1 (int .Values.to) }}{{ end }}":                                 "to",
		"{{ randAlphaNum (int .Values.length) }}":                                                           "length",
		"{{ .Values.text | indent (int .Values.by) }}":                                                      "by",
		"{{ define \"a\" }}{{ until (int .context.Values.n) }}{{ end }}":                                    "n",
		"{{ range until (int .count) }}x{{ end }}":                                                          "?",
		"{{ range .Values.pools }}{{ until (int .size) }}{{ end }}":                                         "?",
		"{{ until (index .Values.list 0 | int) }}":                                                          "?list",
		"{{ $n := $n }}{{ until $n }}":                                                                      "?",
		"{{ until (len .Values.list) }}{{ until 3 }}{{ .Values.text | nindent 4 }}{{ repeat 3 .Values.a }}": "",
		"{{ randAlphaNum .length }}{{ indent .depth .text }}":                                               "",
		"{{ .Values.until }}{{/* until .Values.a */}} until .Values.b":                                      "",
	} {
		found := countsOf(&chart.Chart{Templates: []*chart.File{{Name: "templates/it.yaml", Data: []byte(text)}}})
		got := strings.Join(slices.Sorted(slices.Values(found.paths.UnsortedList())), " ")
		if found.hidden {
			got = "?" + got
		}
		if got != want {
			t.Errorf("%s: %q instead of %q", text, got, want)
		}
	}
}

func TestTooMany(t *testing.T) {
	kind := &Kind{allow: object.Allow{Values: []string{"free"}}, overrides: map[string]string{"pinned": "x"}}
	known := counts{paths: sets.New("replicas", "pool.size", "free", "pinned")}
	for name, c := range map[string]struct {
		counts counts
		spec   map[string]any
		want   string
	}{
		"some":                    {known, map[string]any{"replicas": int64(300), "pool": map[string]any{"size": int64(30)}}, ""},
		"many":                    {known, map[string]any{"replicas": int64(500_000_000)}, "replicas"},
		"many, in words":          {known, map[string]any{"replicas": " 500_000_000"}, "replicas"},
		"many, in few words":      {known, map[string]any{"replicas": "5e8"}, "replicas"},
		"many backwards":          {known, map[string]any{"replicas": -5e8}, "replicas"},
		"many times many":         {known, map[string]any{"pool": map[string]any{"size": int64(300)}, "replicas": int64(300)}, "replicas"},
		"many of a subchart":      {known, map[string]any{"sub": map[string]any{"pool": []any{map[string]any{"size": int64(20_000)}}}}, "sub.pool.size"},
		"many of something else":  {known, map[string]any{"bytes": int64(500_000_000), "replicas": "plenty", "nothing": nil}, ""},
		"many, allowed":           {known, map[string]any{"free": int64(500_000_000), "pinned": int64(500_000_000)}, ""},
		"many of who knows":       {counts{hidden: true}, map[string]any{"bytes": int64(500_000_000)}, "bytes"},
		"a port of who knows":     {counts{hidden: true}, map[string]any{"port": int64(65535)}, ""},
		"a long list":             {counts{}, map[string]any{"list": slices.Repeat([]any{"x"}, 10_001)}, "list"},
		"a chart that counts not": {counts{}, map[string]any{"bytes": int64(500_000_000)}, ""},
	} {
		err := kind.checkCounts(c.counts, c.spec)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "not allowed: "+c.want+" is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

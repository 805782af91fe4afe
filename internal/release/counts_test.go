package release

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/util/sets"

	"demo.welcome.domain/welcome-operator/internal/object"
)

func TestCounts(t *testing.T) {
	for text, want := range map[string]string{
		"{{ range until (int .Values.replicas) }}x{{ end }}":                                                                                 "replicas",
		"{{ range $i, $e := until (.Values.a.b | int) }}{{ repeat 3 \"x\" }}{{ end }}":                                                       "a.b",
		"{{ $n := int $.Values.a }}{{ with .Values.b }}{{ range untilStep 0 $n 1 }}x{{ end }}{{ end }}":                                      "a",
		"{{ $all := .Values.pools }}{{ range $all }}{{ end }}{{ repeat (int $all.size) \"x\" }}":                                             "pools.size list pools",
		"{{ .Values.n | int | until | join \",\" }}":                                                                                         "n",
		"{{ range until (add .Values.a .Values.b | int) }}x{{ end }}":                                                                        "a b",
		"{{ if .Values.x }}{{ else }}{{ seq 1 (int .Values.to) }}{{ end }}":                                                                  "to",
		"{{ randAlphaNum (int .Values.length) }}":                                                                                            " length length",
		"{{ .Values.text | indent (int .Values.by) }}":                                                                                       " length by",
		"{{ define \"a\" }}{{ until (int .context.Values.n) }}{{ end }}":                                                                     "n",
		"{{ range until (int .count) }}x{{ end }}":                                                                                           "?",
		"{{ range .Values.pools }}{{ until (int .size) }}{{ end }}":                                                                          "? list pools",
		"{{ until (index .Values.list 0 | int) }}":                                                                                           "?list",
		"{{ $n := $n }}{{ until $n }}":                                                                                                       "?",
		"{{ until (len .Values.list) }}{{ until 3 }}{{ .Values.text | nindent 4 }}{{ repeat 3 .Values.a }}":                                  "",
		"{{ randAlphaNum .length }}{{ indent .depth .text }}":                                                                                " length depth length",
		"{{ $n := .length | default 8 }}{{ randAlphaNum (int $n) }}":                                                                         " length length",
		"{{ range .Values.a.hosts }}{{ range .paths }}{{ range $.Values.b }}{{ end }}{{ end }}{{ end }}":                                     " list b hosts paths",
		"{{ with .Values.a }}{{ if .b }}{{ range . }}{{ end }}{{ end }}{{ end }}":                                                            " list a",
		"{{ range index .Values \"a-b\" }}{{ end }}{{ range int .Values.n }}{{ end }}":                                                       " list a-b n",
		"{{ $v := .Values }}{{ until (int ((.Values.a).b)) }}{{ repeat $v.c \"x\" }}":                                                        "a.b c",
		"{{ range $ }}{{ end }}{{ range (.a | fromYaml).b }}{{ end }}":                                                                       " list b",
		"{{ range list \"memory\" }}{{ end }}":                                                                                               "",
		"{{ define \"a\" }}{{ range . }}x{{ end }}{{ end }}":                                                                                 "?",
		"{{ define \"a\" }}{{ range . }}{{ end }}{{ end }}{{ include \"a\" .Values.b | indent 2 }}{{ template \"a\" .Values.c }}":            " list b c",
		"{{ define \"a\" }}{{ range . }}{{ end }}{{ end }}{{ .Values.b | include \"a\" }}{{ with .Values.c }}{{ include \"a\" . }}{{ end }}": "?",
		"{{ .Values.until }}{{/* until .Values.a */}} until .Values.b":                                                                       "",
	} {
		found := countsOf(&chart.Chart{Templates: []*chart.File{{Name: "templates/it.yaml", Data: []byte(text)}}})
		got := strings.Join(sets.List(found.paths), " ")
		if found.hidden {
			got = "?" + got
		}
		for of, keys := range map[string]sets.Set[string]{" length ": found.lengths, " list ": found.lists} {
			if len(keys) > 0 {
				got += of + strings.Join(sets.List(keys), " ")
			}
		}
		if got != want {
			t.Errorf("%s: %q instead of %q", text, got, want)
		}
	}
}

func TestTooMany(t *testing.T) {
	kind := &Kind{allow: object.Allow{Values: []string{"free"}}, overrides: map[string]string{"pinned": "x"}}
	known := counts{paths: sets.New("replicas", "pool.size", "free", "pinned"), lengths: sets.New("length"), lists: sets.New("hosts", "paths", "free")}
	large := map[string]any{}
	for i := range 10_001 {
		large[strconv.Itoa(i)] = "x"
	}
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
		"no number":               {known, map[string]any{"replicas": "nan"}, "replicas"},
		"a length":                {known, map[string]any{"auth": map[string]any{"length": int64(500_000_000)}}, "auth.length"},
		"several lengths":         {known, map[string]any{"a": map[string]any{"length": int64(300)}, "b": map[string]any{"length": int64(300)}}, ""},
		"a number for a list":     {known, map[string]any{"hosts": int64(500_000_000)}, "hosts"},
		"numbers for lists":       {known, map[string]any{"hosts": int64(300), "pool": []any{map[string]any{"paths": int64(65535)}}}, ""},
		"a long sleep":            {counts{hidden: true}, map[string]any{"args": []any{"sleep", "infinity"}}, ""},
		"a number in a list":      {known, map[string]any{"hosts": []any{int64(500_000_000)}}, ""},
		"a list, allowed":         {known, map[string]any{"free": int64(500_000_000)}, ""},
		"a large map":             {counts{}, map[string]any{"map": large}, "map"},
		"lists of lists":          {counts{}, map[string]any{"lists": slices.Repeat([]any{slices.Repeat([]any{"x"}, 200)}, 60)}, "lists"},
		"a long list":             {counts{}, map[string]any{"list": slices.Repeat([]any{"x"}, 10_001)}, "list"},
		"a chart that counts not": {counts{}, map[string]any{"bytes": int64(500_000_000)}, ""},
	} {
		err := kind.checkCounts(c.counts, c.spec)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "not allowed: "+c.want+" is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A user ID of OpenShift is above a thousand million: a chart that hides what it counts by refuses it.
func TestWelcomeHidesNothing(t *testing.T) {
	c, err := loader.Load("../../helm-charts/welcome")
	if err != nil {
		t.Fatal(err)
	}
	if found := countsOf(c); found.hidden || !found.lists.Has("annotations") {
		t.Errorf("hidden %v, lists %v", found.hidden, sets.List(found.lists))
	}
}

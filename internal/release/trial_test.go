package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

func TestMuch(t *testing.T) {
	large := map[string]any{}
	for i := range 501 {
		large[strconv.Itoa(i)] = "x"
	}
	for name, c := range map[string]struct {
		spec              map[string]any
		inLoops, anywhere bool
		most              string
	}{
		"little":               {map[string]any{"replicas": int64(30), "host": "example.com", "nothing": nil, "on": true}, false, false, "replicas (30)"},
		"ports":                {map[string]any{"port": int64(8080), "backend": map[string]any{"nodePort": "30080", "replicas": 3}}, true, false, "backend.nodePort (30080)"},
		"many":                 {map[string]any{"replicas": int64(500_000_000)}, true, true, "replicas (500000000)"},
		"many, in words":       {map[string]any{"replicas": " 500_000_000"}, true, true, "replicas (500000000)"},
		"many, in few words":   {map[string]any{"replicas": "5e8"}, true, true, "replicas (500000000)"},
		"many backwards":       {map[string]any{"pools": []any{map[string]any{"replicas": -5e8}}}, true, true, "pools[].replicas (500000000)"},
		"no number":            {map[string]any{"replicas": "nan"}, true, true, "replicas (+Inf)"},
		"a user of OpenShift":  {map[string]any{"runAsUser": int64(1_000_650_000)}, true, true, "runAsUser (1000650000)"},
		"many times themself":  {map[string]any{"replicas": int64(1001)}, true, false, "replicas (1001)"},
		"many times many":      {map[string]any{"a": int64(5001), "b": int64(5000)}, true, false, "a (5001)"},
		"many times a text":    {map[string]any{"replicas": int64(50_000), "text": strings.Repeat("x", 1000)}, true, true, "replicas (50000)"},
		"a list times a text":  {map[string]any{"hosts": slices.Repeat([]any{"x"}, 50), "text": strings.Repeat("x", 15_000)}, false, false, "hosts (50)"},
		"two lists and a text": {map[string]any{"hosts": slices.Repeat([]any{"x"}, 100), "paths": slices.Repeat([]any{"x"}, 101), "text": strings.Repeat("x", 15_000)}, true, true, "paths (101)"},
		"a list times many":    {map[string]any{"hosts": slices.Repeat([]any{"x"}, 400), "length": int64(60_000)}, true, true, "length (60000)"},
		"a long list":          {map[string]any{"hosts": slices.Repeat([]any{"x"}, 501)}, true, true, "hosts (501)"},
		"a large map":          {map[string]any{"map": large}, true, true, "map (501)"},
		"lists of lists":       {map[string]any{"lists": slices.Repeat([]any{slices.Repeat([]any{"x"}, 30)}, 20)}, true, true, "lists[] (30)"},
		"a long text, alone":   {map[string]any{"text": strings.Repeat("x", 20_000)}, true, true, "the spec (1)"},
		"a long key":           {map[string]any{strings.Repeat("x", 20_000): int64(17)}, true, true, strings.Repeat("x", 20_000) + " (17)"},
		"a text":               {map[string]any{"text": strings.Repeat("x", 10_000)}, false, false, "the spec (1)"},
		"anchors and aliases":  {map[string]any{"a": "&a [x, x]", "b": "[*a, *a, *a, *a, *a, *a]", "*c": "[*b, *b, *b, *b]"}, true, true, "the spec (3)"},
		"only aliases":         {map[string]any{"schedules": "*/5 * * * *", "glob": "**/*, *.*, *"}, false, false, "the spec (2)"},
	} {
		m := measure{}
		m.look(c.spec, "")
		most := fmt.Sprintf("%s (%.0f)", m.most, m.size)
		if m.isMuch(true, false) != c.inLoops || m.isMuch(false, false) != c.anywhere || most != c.most {
			t.Errorf("%s: %v in loops, %v anywhere, of %s", name, m.isMuch(true, false), m.isMuch(false, false), most)
		}
	}
}

func TestCostly(t *testing.T) {
	for size, want := range map[int]bool{50: false, 51: true} {
		m := measure{}
		m.look(map[string]any{"users": slices.Repeat([]any{"x"}, size-1)}, "")
		if got := m.isMuch(false, true); got != want {
			t.Errorf("%d elements: %v", size, got)
		}
	}
}

func TestLoops(t *testing.T) {
	for template, want := range map[string]bool{
		"{{ range until (int .Values.n) }}x{{ end }}": true, "{{ seq 1 .Values.n }}": true, "{{ repeat .Values.n \"x\" }}": true, "{{ untilStep 0 .Values.n 1 }}": true, "{{ range .Values.list }}x{{ end }}": false,
	} {
		if got := newChartSource(&chart.Chart{Metadata: &chart.Metadata{}, Templates: []*chart.File{{Name: "templates/NOTES.txt", Data: []byte(template)}}}).loops; got != want {
			t.Errorf("%s: %v", template, got)
		}
	}
}

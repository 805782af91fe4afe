package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// parent has subcharts: "there" is in its charts/ twice, once by another name, and lacks "below", which is
// off by default. "on" is missing and on by default, the others are missing and off.
func parent() *chart.Chart {
	there := &chart.Chart{
		Metadata: &chart.Metadata{Name: "there", Version: "1.0.0", Dependencies: []*chart.Dependency{{Name: "below", Version: "1.0.0", Condition: "below.enabled"}}},
		Values:   map[string]any{"below": map[string]any{"enabled": false}},
	}
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "parent", Version: "1.0.0", Dependencies: []*chart.Dependency{
			{Name: "there", Version: "1.0.0"},
			{Name: "there", Version: "1.0.0", Alias: "again"},
			{Name: "on", Version: "1.0.0", Condition: "on.enabled"},
			{Name: "off", Version: "1.0.0", Condition: "off.enabled"},
			{Name: "off", Version: "1.0.0", Alias: "alias", Condition: "alias.enabled"},
			{Name: "tagged", Version: "1.0.0", Tags: []string{"extra"}},
		}},
		Values: map[string]any{
			"off": map[string]any{"enabled": false}, "alias": map[string]any{"enabled": false}, "tags": map[string]any{"extra": false},
		},
	}
	c.SetDependencies(there)
	return c
}

func TestCheckSubcharts(t *testing.T) {
	for name, c := range map[string]struct {
		overrides map[string]string
		want      string
	}{
		"by default":      {nil, "charts/ lacks on,"},
		"all off":         {map[string]string{"on.enabled": "false"}, ""},
		"a condition":     {map[string]string{"on.enabled": "false", "off.enabled": "true"}, "charts/ lacks off,"},
		"an alias":        {map[string]string{"on.enabled": "false", "alias.enabled": "true"}, "charts/ lacks alias,"},
		"a tag":           {map[string]string{"on.enabled": "false", "tags.extra": "true"}, "charts/ lacks tagged,"},
		"of a subchart":   {map[string]string{"on.enabled": "false", "again.below.enabled": "true"}, "charts/ lacks again/below,"},
		"more than one":   {map[string]string{"off.enabled": "true"}, "charts/ lacks on, off,"},
		"what is no path": {map[string]string{"a[": "1"}, "overrideValues, a["},
	} {
		t.Run(name, func(t *testing.T) {
			chrt := parent()
			source := newChartSource(chrt)
			if !source.incomplete {
				t.Error("the chart counts as complete")
			}
			err := CheckChart(chrt, c.overrides)
			if got := ""; err != nil || c.want != "" {
				if err != nil {
					got = err.Error()
				}
				if c.want == "" || !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
			if len(chrt.Metadata.Dependencies) != 6 || len(chrt.Dependencies()) != 1 {
				t.Errorf("the chart was changed: %+v", chrt.Metadata.Dependencies)
			}
		})
	}
}

// A chart whose only subchart is missing is not changed either by a release that does without.
func TestPrivateWithoutSubcharts(t *testing.T) {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "a", Dependencies: []*chart.Dependency{{Name: "b"}}}}
	if copied := Private(c); copied.Metadata == c.Metadata {
		t.Error("what Helm changes in it is lost to the next release")
	}
	c.Metadata.Dependencies = nil
	if newChartSource(c).incomplete || Private(c) != c {
		t.Error("a chart without subcharts is copied")
	}
}

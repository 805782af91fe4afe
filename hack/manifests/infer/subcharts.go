package infer

import (
	"cmp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// enabled is the chart with those subcharts that are on with some values, and what it imports from these.
func (t *Trial) enabled(values map[string]any) (*chart.Chart, error) {
	c := release.Private(t.chart)
	return c, chartutil.ProcessDependenciesWithMerge(c, values)
}

// named is the chart with all of its subcharts, by the names that they have for it.
func (t *Trial) named() *chart.Chart {
	c := release.Private(t.chart)
	nameSubcharts(c)
	return c
}

// nameSubcharts gives the subcharts of a chart the names that Chart.yaml has for them (alias). Helm does so,
// too, when it renders, but then leaves out those that are off.
func nameSubcharts(c *chart.Chart) {
	var all []*chart.Chart
	for _, subchart := range c.Dependencies() {
		nameSubcharts(subchart)
		named := false
		for _, d := range c.Metadata.Dependencies {
			if d.Name == subchart.Name() && chartutil.IsCompatibleRange(d.Version, subchart.Metadata.Version) {
				copied, metadata := *subchart, *subchart.Metadata
				metadata.Name = cmp.Or(d.Alias, d.Name)
				copied.Metadata = &metadata
				all, named = append(all, &copied), true
			}
		}
		if !named { // Chart.yaml does not have it
			all = append(all, subchart)
		}
	}
	c.SetDependencies(all...)
}

// switches are the values that turn subcharts on and off, by subchart, of which Helm heeds the first that it finds.
func switches(c *chart.Chart, at []string) (all [][][]string) {
	for _, d := range c.Metadata.Dependencies {
		var paths [][]string
		for condition := range strings.FieldsFuncSeq(d.Condition, func(r rune) bool { return r == ',' || r == ' ' }) {
			paths = append(paths, slices.Concat(at, strings.Split(condition, ".")))
		}
		for _, tag := range d.Tags {
			paths = append(paths, []string{"tags", tag})
		}
		if len(paths) > 0 {
			all = append(all, paths)
		}
	}
	for _, subchart := range c.Dependencies() {
		all = append(all, switches(subchart, append(slices.Clone(at), subchart.Name()))...)
	}
	return all
}

// addSwitches adds to values what turns off subcharts of which they say nothing: these are on. Not where that would
// turn on another one, which has the same tag.
func addSwitches(values map[string]any, all [][][]string) {
	var missing, decided [][]string
	for _, paths := range all {
		isThere := func(path []string) bool {
			_, found, _ := unstructured.NestedFieldNoCopy(values, path...)
			return found
		}
		if slices.ContainsFunc(paths, isThere) {
			decided = append(decided, paths...)
		} else {
			missing = append(missing, paths[0])
		}
	}
	for _, path := range missing {
		if !slices.ContainsFunc(decided, func(other []string) bool { return slices.Equal(path, other) }) {
			_ = unstructured.SetNestedField(values, true, path...) // which fails where that can't be: another value is no map
		}
	}
}

package release

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckChart fails if a chart lacks a subchart that is enabled with an empty spec, or if the schema of the chart or of
// an enabled subchart is broken, or refers to something outside of the chart.
func CheckChart(c *chart.Chart, overrides map[string]string) error {
	return checkEnabled(EnabledBy(c, overrides))
}

// checkSubcharts is CheckChart for the subcharts that are enabled with the values, by their conditions and tags.
// Helm's actions leave out a missing one without a word.
func checkSubcharts(c *chart.Chart, values map[string]any) error {
	return checkEnabled(enabled(c, values))
}

func checkEnabled(enabled *chart.Chart, err error) error {
	if err != nil {
		return err
	}
	if _, err := checkSchemas(enabled); err != nil {
		return err
	}
	if missing := missing(enabled, ""); len(missing) > 0 {
		return fmt.Errorf("chart %s: charts/ lacks %s, which the values enable: run helm dependency build", enabled.Name(), strings.Join(missing, ", "))
	}
	return nil
}

// enabled is a chart with those of its subcharts that are enabled with the values.
func enabled(c *chart.Chart, values map[string]any) (*chart.Chart, error) {
	processed := copyOf(c)
	if err := chartutil.ProcessDependenciesWithMerge(processed, values); err != nil {
		return nil, fmt.Errorf("find out which subcharts are enabled: %w", err)
	}
	return processed, nil
}

// EnabledBy is a chart with the subcharts that are enabled with an empty spec.
func EnabledBy(c *chart.Chart, overrides map[string]string) (*chart.Chart, error) {
	values := map[string]any{}
	if err := Pin(&metav1.ObjectMeta{Namespace: "namespace", Name: "name"}, values, overrides); err != nil {
		return nil, err
	}
	return enabled(c, values)
}

// missing are the subcharts that a chart names and does not have.
func missing(c *chart.Chart, path string) (names []string) {
	for _, named := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return d.Name() == named.Name }) {
			names = append(names, path+named.Name)
		}
	}
	for _, subchart := range c.Dependencies() {
		names = append(names, missing(subchart, path+subchart.Name()+"/")...)
	}
	return names
}

package operator

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/chart"
)

// loadWatches reads the watches file with its charts. An error says which entry is wrong.
func loadWatches(path string) ([]watches.Watch, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --watches-file: %w", err)
	}
	// The library takes an unset variable for an empty string, and would deploy pods
	// without an image.
	if missing := unsetVariables(string(text)); len(missing) > 0 {
		return nil, fmt.Errorf("%s: overrideValues refer to environment variables that are not set: %s", path, strings.Join(missing, ", "))
	}
	entries, err := watches.LoadReader(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: no entry: there is nothing to watch", path)
	}
	for _, entry := range entries {
		if err := validateWatch(entry); err != nil {
			return nil, fmt.Errorf("%s: entry %s: %w", path, entry.Kind, err)
		}
	}
	return entries, nil
}

func validateWatch(entry watches.Watch) error {
	if entry.Group == "" {
		return fmt.Errorf("group must not be empty")
	}
	if err := entry.Chart.Validate(); err != nil {
		return fmt.Errorf("chart %s: %w", entry.ChartPath, err)
	}
	if missing := missingDependencies(entry.Chart); len(missing) > 0 {
		return fmt.Errorf("chart %s: charts/ lacks %s: run helm dependency build", entry.ChartPath, strings.Join(missing, ", "))
	}
	if entry.ReconcilePeriod != nil && entry.ReconcilePeriod.Duration < 0 {
		return fmt.Errorf("reconcilePeriod must not be negative")
	}
	if entry.MaxConcurrentReconciles != nil && *entry.MaxConcurrentReconciles < 1 {
		return fmt.Errorf("maxConcurrentReconciles must be at least 1")
	}
	return nil
}

func missingDependencies(c *chart.Chart) []string {
	present := map[string]bool{}
	for _, dependency := range c.Dependencies() {
		present[dependency.Name()] = true
	}
	var missing []string
	for _, wanted := range c.Metadata.Dependencies {
		if !present[wanted.Name] {
			missing = append(missing, wanted.Name)
		}
	}
	return missing
}

// unsetVariables lists the ${VARIABLES} of text, comments aside, that are empty.
func unsetVariables(text string) []string {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		os.Expand(line, func(name string) string {
			if os.Getenv(name) == "" {
				found[name] = true
			}
			return ""
		})
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

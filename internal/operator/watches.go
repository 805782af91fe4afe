package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Entry is an entry of the watches file: what the library knows, and settings of ours.
type Entry struct {
	watches.Watch `json:",inline"`
	// Allow is what authors of custom resources may ask of controllers that serve others, too.
	Allow object.Allow `json:"allow"`
	// DriftDetection is what is done about objects that others have changed.
	DriftDetection driftDetection `json:"driftDetection"`
	// Recreate are the kinds whose objects may be deleted and made anew where a field cannot be changed.
	Recreate object.Kinds `json:"recreate"`
}

// loadWatches reads the watches file with its charts. An error says which entry is wrong.
func loadWatches(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --watches-file: %w", err)
	}
	var list []json.RawMessage
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("%s is no list of entries: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no entry: there is nothing to watch", path)
	}
	var entries []Entry
	for i, text := range list {
		entry, err := loadEntry(text)
		if err == nil && slices.ContainsFunc(entries, func(other Entry) bool { return other.GroupVersionKind == entry.GroupVersionKind }) {
			err = fmt.Errorf("an earlier entry is of the same kind")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d (kind %q): %w", path, i+1, entry.Kind, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// loadEntry hands the library one entry at a time: its errors do not say which one is wrong,
// it ignores fields that it does not know, and it takes an unset variable for an empty
// string, which would deploy pods without an image. An error comes with what was read so far.
func loadEntry(text []byte) (Entry, error) {
	var entry Entry
	if err := yaml.UnmarshalStrict(text, &entry); err != nil {
		return entry, err
	}
	if entry.Group == "" {
		return entry, fmt.Errorf("group must not be empty")
	}
	if missing := unsetVariables(entry.OverrideValues); len(missing) > 0 {
		return entry, fmt.Errorf("overrideValues refer to environment variables that are not set: %s", strings.Join(missing, ", "))
	}
	loaded, err := watches.LoadReader(strings.NewReader("[" + string(text) + "]"))
	if err != nil {
		return entry, err
	}
	entry.Watch = loaded[0]
	return entry, validateEntry(&entry)
}

func validateEntry(entry *Entry) error {
	if err := entry.Chart.Validate(); err != nil {
		return fmt.Errorf("chart %s: %w", entry.ChartPath, err)
	}
	if missing := missingDependencies(entry.Chart); len(missing) > 0 {
		return fmt.Errorf("chart %s: charts/ lacks %s: run helm dependency build", entry.ChartPath, strings.Join(missing, ", "))
	}
	if entry.ReconcilePeriod != nil && entry.ReconcilePeriod.Duration < 0 {
		return fmt.Errorf("reconcilePeriod must not be negative, as %s is: 0s means never", entry.ReconcilePeriod.Duration)
	}
	if entry.MaxConcurrentReconciles != nil && *entry.MaxConcurrentReconciles < 1 {
		return fmt.Errorf("maxConcurrentReconciles must be at least 1, not %d", *entry.MaxConcurrentReconciles)
	}
	if err := entry.DriftDetection.parse(); err != nil {
		return fmt.Errorf("driftDetection: %w", err)
	}
	if err := entry.Recreate.Validate(); err != nil {
		return fmt.Errorf("recreate: %w", err)
	}
	return entry.Allow.Validate()
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

// unsetVariables lists the environment variables that values refer to and that are empty.
func unsetVariables(values map[string]string) []string {
	var names []string
	for _, value := range values {
		os.Expand(value, func(name string) string {
			if os.Getenv(name) == "" {
				names = append(names, name)
			}
			return ""
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

package operator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// Entry is an entry of the watches file: the fields that the library knows, and our own.
type Entry struct {
	watches.Watch `json:",inline"`
	// ReleaseName is how releases are named. It must not change while the kind has any.
	ReleaseName record.Names `json:"releaseName"`
	// Allow is what authors of custom resources may ask of controllers that serve others, too.
	Allow object.Allow `json:"allow"`
	// Secrets is whether the chart may make Secrets, and look its own up. The operator then has the right to
	// all Secrets of the namespaces that it watches, and keeps the records of these releases in Secrets.
	Secrets bool `json:"secrets"`
	// CRDs is whether the operator makes the CRDs of crds/ that the cluster lacks, when it starts. It never
	// changes nor deletes one.
	CRDs bool `json:"crds"`
	// Tests is whether custom resources may have the tests of their chart run, by the annotation for that.
	Tests bool `json:"tests"`
	// DriftDetection is what is done about objects that others have changed.
	DriftDetection driftDetection `json:"driftDetection"`
	// DryRunOption (client or server) is whether a stock Helm operator lets a chart look things up in its dry
	// runs. Here, it always does.
	DryRunOption string `json:"dryRunOption"`
	// Recreate are the kinds whose objects may be deleted and made anew where a field cannot be changed.
	Recreate object.Kinds `json:"recreate"`
	// Timeout is how long a hook or a test of the chart may take, by default release.DefaultTimeout.
	Timeout metav1.Duration `json:"timeout"`

	// selects is the selector, parsed.
	selects labels.Selector
	// brought are the CRDs that the chart has in crds/.
	brought []*unstructured.Unstructured
	// written are the overrides as the file has them, with the names of environment variables instead of their
	// values.
	written map[string]string
	place   place
}

// place is where in the watches file an entry stands.
type place struct {
	file   string
	number int
}

// loadWatches reads the watches file and its charts. A broken entry does not keep the others from being served:
// there is an error only if none can be.
func loadWatches(path string) ([]Entry, []broken, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read --watches-file: %w", err)
	}
	var list []json.RawMessage
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, nil, fmt.Errorf("%s is no list of entries: %w", path, err)
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("%s has no entry: there is nothing to watch", path)
	}
	var entries []Entry
	var refused []broken
	kinds := map[string]int{}
	for i, text := range list {
		entry, err := loadEntry(text)
		entry.place = place{path, i + 1}
		// Controllers, metrics and records go by the name of the kind. Of two entries, the later one is not
		// served, even if the earlier one is broken: which of them is meant cannot be told.
		kind := strings.ToLower(entry.Kind)
		if earlier := kinds[kind]; err == nil && earlier > 0 {
			err = fmt.Errorf("entry %d has the same kind: an operator serves kinds of different names", earlier)
		}
		kinds[kind] = cmp.Or(kinds[kind], i+1)
		if err != nil {
			refused = append(refused, broken{Entry: entry, err: entry.wrong(err)})
			continue
		}
		entries = append(entries, entry)
	}
	return entries, refused, noneLeft(entries, refused)
}

// loadEntry hands the library one entry at a time: its errors do not say which entry is wrong, it ignores
// unknown fields, and it takes an unset variable for an empty string, which would deploy pods without an image.
// With an error, it returns what was read so far.
func loadEntry(text []byte) (Entry, error) {
	var entry Entry
	if err := yaml.UnmarshalStrict(text, &entry); err != nil {
		return entry, err
	}
	if entry.Group == "" {
		return entry, errors.New("group must not be empty")
	}
	if missing := unsetVariables(entry.OverrideValues); len(missing) > 0 {
		return entry, fmt.Errorf("overrideValues refer to environment variables that are not set: %s (set them, to nothing where nothing is meant)", strings.Join(missing, ", "))
	}
	if strings.Contains(entry.ChartPath, "://") {
		return entry, fmt.Errorf("chart is %s: charts are read from the image, so bring it there (helm pull --untar), and write where it is", entry.ChartPath)
	}
	loaded, err := watches.LoadReader(strings.NewReader("[" + string(text) + "]"))
	if err != nil {
		return entry, err
	}
	entry.written, entry.Watch = entry.OverrideValues, loaded[0]
	entry.ReleaseName = cmp.Or(entry.ReleaseName, record.NamesPlain)
	err = validateEntry(&entry) // which completes it
	return entry, err
}

func validateEntry(entry *Entry) error {
	if err := entry.Chart.Validate(); err != nil {
		return fmt.Errorf("chart %s: %w", entry.ChartPath, err)
	}
	if err := release.CheckChart(entry.Chart, entry.OverrideValues); err != nil {
		return err
	}
	var err error
	if entry.brought, err = release.CRDs(entry.Chart, entry.OverrideValues); err != nil {
		return fmt.Errorf("crds/ of chart %s: %w", entry.ChartPath, err)
	}
	if entry.ReconcilePeriod != nil && entry.ReconcilePeriod.Duration < 0 {
		return fmt.Errorf("reconcilePeriod must not be negative, as %s is: 0s means never", entry.ReconcilePeriod.Duration)
	}
	if entry.MaxConcurrentReconciles != nil && *entry.MaxConcurrentReconciles < 1 {
		return fmt.Errorf("maxConcurrentReconciles must be at least 1, not %d", *entry.MaxConcurrentReconciles)
	}
	if entry.selects, err = metav1.LabelSelectorAsSelector(entry.Selector); err != nil {
		return fmt.Errorf("selector: %w", err)
	}
	if err := entry.ReleaseName.Validate(); err != nil {
		return fmt.Errorf("releaseName: %w", err)
	}
	if err := entry.DriftDetection.parse(); err != nil {
		return fmt.Errorf("driftDetection: %w", err)
	}
	if !slices.Contains([]string{"", "client", "server"}, entry.DryRunOption) {
		return fmt.Errorf("dryRunOption must be client or server, not %q; what a chart looks up is always looked up", entry.DryRunOption)
	}
	if timeout := entry.Timeout.Duration; timeout != 0 && timeout < time.Second {
		return fmt.Errorf("timeout must be at least 1s, not %s", timeout)
	}
	if err := entry.Recreate.Validate(); err != nil {
		return fmt.Errorf("recreate: %w", err)
	}
	return entry.Allow.Validate()
}

// haveSecrets is whether an entry may have Secrets.
func haveSecrets(entries []Entry) bool {
	return slices.ContainsFunc(entries, func(entry Entry) bool { return entry.Secrets })
}

// unsetVariables lists the environment variables that values refer to and that are not set.
func unsetVariables(values map[string]string) []string {
	var names []string
	for _, value := range values {
		os.Expand(value, func(name string) string {
			if _, set := os.LookupEnv(name); !set {
				names = append(names, name)
			}
			return ""
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

package operator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const entry = `- group: webapp.demo.welcome.domain
  version: v1
  kind: Welcome
  chart: chart
`

// workDir has the file watches.yaml and the charts "chart", "needy" (lacks a dependency) and "hollow" (has no Chart.yaml).
func workDir(t *testing.T, watches string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{
		"watches.yaml":                   watches,
		"chart/Chart.yaml":               "{apiVersion: v2, name: chart, version: 0.1.0}",
		"chart/templates/configmap.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: it}}",
		"needy/Chart.yaml":               "{apiVersion: v2, name: needy, version: 0.1.0, dependencies: [{name: absent, version: 1.0.0}]}",
		"hollow/values.yaml":             "{}",
		"nameless/Chart.yaml":            "{apiVersion: v2, version: 0.1.0}",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadWatches(t *testing.T) {
	t.Setenv("SOME_IMAGE", "example.com/image:1")
	workDir(t, entry+`  # ${NOT_SET} is only talked about.
  overrideValues: {image: "${SOME_IMAGE}"}
  reconcilePeriod: 1m
  maxConcurrentReconciles: 2
  watchDependentResources: false
  selector: {matchLabels: {tier: front}}
  releaseName: kind
  allow: {hosts: ["*.{namespace}.example.com"], annotations: [example.com/key], kinds: [Gateway.networking.istio.io], pods: [secrets]}
  recreate: [Job, Deployment.apps]
  dryRunOption: server
  driftDetection: {mode: warn, ignore: [{target: {group: apps, version: v1, kind: Deployment|StatefulSet, name: a.*, namespace: n, labelSelector: a=b, annotationSelector: a in (b)}, paths: [/spec/replicas]}]}
- {group: example.com, version: v1, kind: Other, chart: chart}
`)
	entries, refused, err := loadWatches("watches.yaml")
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	if len(entries) != 2 {
		t.Fatalf("got %d entries", len(entries))
	}
	first, second := entries[0], entries[1]
	if first.Kind != "Welcome" || first.Chart.Name() != "chart" || first.OverrideValues["image"] != "example.com/image:1" || first.ReconcilePeriod.Duration != time.Minute ||
		*first.MaxConcurrentReconciles != 2 || *first.WatchDependentResources || first.Selector.MatchLabels["tier"] != "front" || first.ReleaseName != record.NamesKind ||
		len(first.Allow.Hosts) != 1 || len(first.Allow.Annotations) != 1 || len(first.Allow.Kinds) != 1 || len(first.Allow.Pods) != 1 ||
		len(first.Recreate) != 2 || first.DriftDetection.Mode != release.DriftWarn || len(first.DriftDetection.ignored) != 1 {
		t.Errorf("got %+v", first)
	}
	if second.Kind != "Other" || !*second.WatchDependentResources || second.ReconcilePeriod != nil || second.MaxConcurrentReconciles != nil || second.DriftDetection.Mode != release.DriftEnabled || second.ReleaseName != record.NamesPlain {
		t.Errorf("got %+v", second)
	}
}

// What operator-sdk writes into the watches.yaml of a stock Helm operator, and what its documentation has
// there, means the same here.
func TestLoadStockWatches(t *testing.T) {
	for name, value := range map[string]string{"HTTP_PROXY": "", "IMAGE": "example.com/image:1"} {
		t.Setenv(name, value)
	}
	workDir(t, "")
	absolute, err := filepath.Abs("chart")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load("chart")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chartutil.Save(chart, "charts"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		settings string
		is       func(Entry) bool
	}{
		"nothing more": {"", func(e Entry) bool {
			return *e.WatchDependentResources && e.ReconcilePeriod == nil && len(e.OverrideValues) == 0
		}},
		"no dependents":     {"  watchDependentResources: false\n", func(e Entry) bool { return !*e.WatchDependentResources }},
		"a pinned value":    {"  overrideValues: {image.repository: quay.io/a}\n", func(e Entry) bool { return e.OverrideValues["image.repository"] == "quay.io/a" }},
		"a variable":        {"  overrideValues: {image: $IMAGE}\n", func(e Entry) bool { return e.OverrideValues["image"] == "example.com/image:1" }},
		"an empty variable": {"  overrideValues: {proxy.http: $HTTP_PROXY}\n", func(e Entry) bool { proxy, pinned := e.OverrideValues["proxy.http"]; return pinned && proxy == "" }},
		"a template": {
			"  overrideValues: {image: '{{ (\"$IMAGE\" | split \":\")._0 }}'}\n", func(e Entry) bool { return e.OverrideValues["image"] == "example.com/image" },
		},
		"labels":                  {"  selector: {matchLabels: {test: a}}\n", func(e Entry) bool { return e.Selector.MatchLabels["test"] == "a" }},
		"expressions":             {"  selector: {matchExpressions: [{key: a, operator: Exists}]}\n", func(e Entry) bool { return len(e.Selector.MatchExpressions) == 1 }},
		"a period":                {"  reconcilePeriod: 1m5s\n", func(e Entry) bool { return e.ReconcilePeriod.Duration == 65*time.Second }},
		"workers":                 {"  maxConcurrentReconciles: 8\n", func(e Entry) bool { return *e.MaxConcurrentReconciles == 8 }},
		"a dry run of the server": {"  dryRunOption: server\n", func(e Entry) bool { return e.DryRunOption == "server" }},
		"a dry run of the client": {"  dryRunOption: client\n", func(e Entry) bool { return e.DryRunOption == "client" }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{absolute, filepath.Join(filepath.Dir(absolute), "charts", "chart-0.1.0.tgz")} {
				text := "# Use the 'create api' subcommand to add watches to this file.\n" + strings.Replace(entry, "chart: chart", "chart: "+path, 1) + c.settings + "# +kubebuilder:scaffold:watch\n"
				file := filepath.Join(t.TempDir(), "watches.yaml")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				entries, refused, err := loadWatches(file)
				if err != nil || len(refused) > 0 || entries[0].Chart.Name() != "chart" || !c.is(entries[0]) {
					t.Errorf("got %+v, %v, %v", entries, refused, err)
				}
			}
		})
	}
}

// The repository's own file is valid.
func TestLoadRepositoryWatches(t *testing.T) {
	t.Setenv("RELATED_IMAGE_WELCOME", "example.com/image:1")
	t.Chdir("../..")
	if _, refused, err := loadWatches("watches.yaml"); err != nil || len(refused) > 0 {
		t.Error(err, refused)
	}
}

// An error names the file, the entry, and what is wrong with it.
func TestLoadWatchesErrors(t *testing.T) {
	for name, c := range map[string]struct {
		watches string
		want    []string
	}{
		"no YAML":              {"- {", []string{"list of entries"}},
		"no list":              {"group: a", []string{"list of entries"}},
		"empty":                {"", []string{"no entry"}},
		"only comments":        {"# nothing\n", []string{"no entry"}},
		"empty entry":          {"- \n", []string{"entry 1", "group"}},
		"dry run":              {entry + "  dryRunOption: always\n", []string{"entry 1", "Welcome", "dryRunOption", "client or server", "always looked up"}},
		"chart elsewhere":      {strings.Replace(entry, "chart: chart", "chart: https://example.com/chart-1.0.0.tgz", 1), []string{"entry 1", "chart is https://example.com/chart-1.0.0.tgz", "helm pull"}},
		"chart in a registry":  {strings.Replace(entry, "chart: chart", "chart: oci://example.com/chart", 1), []string{"entry 1", "oci://example.com/chart", "helm pull"}},
		"chart of a repo":      {strings.Replace(entry, "chart: chart", "chart: repo/chart", 1), []string{"entry 1", "repo/chart", "no such file"}},
		"no chart":             {strings.Replace(entry, "  chart: chart\n", "", 1), []string{"entry 1", "chart"}},
		"field of a stock one": {entry + "  blacklist: []\n", []string{"entry 1", "blacklist"}},
		"versions of a kind":   {entry + strings.Replace(entry, "v1", "v2", 1), []string{"entry 2", "Welcome", "entry 1", "same kind"}},
		"override of numbers":  {entry + "  overrideValues: {replicas: 3}\n", []string{"entry 1", "overrideValues"}},
		"no group":             {"- {version: v1, kind: Welcome, chart: chart}", []string{"entry 1", "Welcome", "group"}},
		"no version":           {"- {group: a.b, kind: Welcome, chart: chart}", []string{"entry 1", "Welcome", "version"}},
		"no kind":              {"- {group: a.b, version: v1, chart: chart}", []string{"entry 1", "kind"}},
		"unknown field":        {entry + "  reconcilePeriods: 1m\n", []string{"entry 1", "Welcome", "reconcilePeriods"}},
		"field of wrong type":  {entry + "  maxConcurrentReconciles: many\n", []string{"entry 1", "maxConcurrentReconciles"}},
		"field twice":          {entry + "  chart: chart\n", []string{"chart", "already"}},
		"chart does not exist": {strings.Replace(entry, "chart: chart", "chart: nowhere", 1), []string{"entry 1", "Welcome", "nowhere", "no such file"}},
		"no Chart.yaml":        {strings.Replace(entry, "chart: chart", "chart: hollow", 1), []string{"entry 1", "Welcome", "hollow", "Chart.yaml"}},
		"chart without name":   {strings.Replace(entry, "chart: chart", "chart: nameless", 1), []string{"entry 1", "nameless", "name"}},
		"chart lacks a subchart": {
			strings.Replace(entry, "chart: chart", "chart: needy", 1), []string{"entry 1", "needy", "absent", "helm dependency build"},
		},
		"kind twice":          {"- {group: a.b, version: v1, kind: Other, chart: chart}\n" + entry + entry, []string{"entry 3", "Welcome", "entry 2", "same kind"}},
		"kind of two groups":  {entry + "- {group: a.b, version: v1, kind: welcome, chart: chart}\n", []string{"entry 2", "welcome", "entry 1", "same kind"}},
		"selector":            {entry + "  selector: {matchExpressions: [{key: a, operator: Is}]}\n", []string{"entry 1", "selector", "Is"}},
		"override path":       {entry + "  overrideValues: {\"a[\": b}\n", []string{"entry 1", "overrideValues", "a["}},
		"variable not set":    {entry + "  overrideValues: {image: \"${NOT_SET}\", other: $NEITHER}\n", []string{"entry 1", "Welcome", "NEITHER, NOT_SET"}},
		"override template":   {entry + "  overrideValues: {image: \"{{ nonsense }}\"}\n", []string{"entry 1", "override"}},
		"negative period":     {entry + "  reconcilePeriod: -1s\n", []string{"entry 1", "Welcome", "reconcilePeriod", "-1s"}},
		"period without unit": {entry + "  reconcilePeriod: 5x\n", []string{"entry 1", "unit"}},
		"timeout too short":   {entry + "  timeout: 30ms\n", []string{"entry 1", "Welcome", "timeout", "1s", "30ms"}},
		"no workers":          {entry + "  maxConcurrentReconciles: 0\n", []string{"entry 1", "maxConcurrentReconciles", "0"}},
		"allowed host":        {entry + "  allow: {hosts: [\"https://a.b\"]}\n", []string{"entry 1", "Welcome", "allow.hosts", "https://a.b", "*.{namespace}.example.com"}},
		"allowed what":        {entry + "  allow: {ips: [192.0.2.1]}\n", []string{"entry 1", "Welcome", "ips"}},
		"release names":       {entry + "  releaseName: nick\n", []string{"entry 1", "Welcome", "releaseName", "plain or kind", "nick"}},
		"drift mode":          {entry + "  driftDetection: {mode: repair}\n", []string{"entry 1", "driftDetection", "enabled, warn or disabled", "repair"}},
		"drift word":          {entry + "  driftDetection: {modus: warn}\n", []string{"entry 1", "modus"}},
		"drift target word":   {entry + "  driftDetection: {ignore: [{target: {kinds: a}, paths: [/spec/a]}]}\n", []string{"entry 1", "kinds"}},
		"ignored nothing":     {entry + "  driftDetection: {ignore: [{target: {kind: a}}]}\n", []string{"driftDetection", "rule 1", "no paths", "/spec/replicas"}},
		"ignored no pointer":  {entry + "  driftDetection: {ignore: [{paths: [/spec/a]}, {paths: [spec.a]}]}\n", []string{"rule 2", "spec.a", "/spec/replicas"}},
		"ignored bad escape":  {entry + "  driftDetection: {ignore: [{paths: [/spec/a~2]}]}\n", []string{"rule 1", "~0", "~1"}},
		"ignored everything":  {entry + "  driftDetection: {ignore: [{paths: [\"\"]}]}\n", []string{"rule 1", "all of the object", "mode: disabled"}},
		"ignored owner":       {entry + "  driftDetection: {ignore: [{paths: [/metadata/ownerReferences]}]}\n", []string{"rule 1", "/metadata/ownerReferences", "a single label or annotation"}},
		"ignored labels":      {entry + "  driftDetection: {ignore: [{paths: [/metadata/labels]}]}\n", []string{"rule 1", "/metadata/labels", "a single label or annotation"}},
		"ignored our label":   {entry + "  driftDetection: {ignore: [{paths: [/metadata/labels/webapp.demo.welcome.domain~1managed-by]}]}\n", []string{"rule 1", "managed-by", "whose the object is"}},
		"ignored finalizer":   {entry + "  driftDetection: {ignore: [{paths: [/metadata/finalizers/0]}]}\n", []string{"rule 1", "/metadata/finalizers/0", "and /metadata/finalizers"}},
		"ignored metadata":    {entry + "  driftDetection: {ignore: [{paths: [/metadata]}]}\n", []string{"rule 1", "/metadata", "a single label or annotation"}},
		"ignored status":      {entry + "  driftDetection: {ignore: [{paths: [/status/a]}]}\n", []string{"rule 1", "/status/a", "never the chart's"}},
		"ignored kind":        {entry + "  driftDetection: {ignore: [{paths: [/kind]}]}\n", []string{"rule 1", "/kind", "cannot be ignored"}},
		"ignored expression":  {entry + "  driftDetection: {ignore: [{paths: [/spec/a], target: {kind: \"(\"}}]}\n", []string{"rule 1", "kind", "regular expression"}},
		"ignored selector":    {entry + "  driftDetection: {ignore: [{paths: [/spec/a], target: {labelSelector: \"a in b\"}}]}\n", []string{"rule 1", "labelSelector", "a in b"}},
		"recreated no kind":   {entry + "  recreate: [Job, apps/Deployment]\n", []string{"entry 1", "Welcome", "recreate", "apps/Deployment", "Deployment.apps"}},
		"second entry is bad": {entry + "- {group: a.b, version: v1, kind: Other, chart: nowhere}\n", []string{"entry 2", "Other", "nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			workDir(t, c.watches)
			entries, refused, err := loadWatches("watches.yaml")
			if (err == nil) != (len(entries) > 0) {
				t.Errorf("%d entries can be served, and the error is: %v", len(entries), err)
			}
			for _, each := range refused {
				err = errors.Join(err, each.err)
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(c.want, "watches.yaml") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
		})
	}

	// What is wrong with one entry does not keep the others from being served, but for a second chance of the same kind.
	workDir(t, strings.Replace(entry, "chart: chart", "chart: nowhere", 1)+entry+"- {group: a.b, version: v1, kind: Other, chart: chart}\n- []\n")
	entries, refused, err := loadWatches("watches.yaml")
	if err != nil || len(entries) != 1 || entries[0].Kind != "Other" || len(refused) != 3 || refused[0].place.number != 1 || refused[1].place.number != 2 || refused[2].place.number != 4 {
		t.Errorf("got %+v, %+v, %v", entries, refused, err)
	}

	if _, _, err := loadWatches("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "--watches-file") || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}

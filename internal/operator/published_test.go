package operator

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// What is published makes the same kind again, but for what may be a secret, of which only the name of the variable is told.
func TestPublished(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	t.Setenv("RELATED_IMAGE_WELCOME", "example.com/welcome:1")
	t.Setenv("PASSWORD", "sesame")
	before := version
	version = "v1.2.3"
	t.Cleanup(func() { version = before })
	file := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(file, []byte(`
- group: example.com
  version: v1
  kind: Welcome
  chart: helm-charts/welcome
  overrideValues: {image: "${RELATED_IMAGE_WELCOME}", name: "{name}", a: "${PASSWORD}", b: "x$PASSWORD", c: '{{ env "PASSWORD" }}'}
  selector: {matchLabels: {a: b}}
  releaseName: kind
  secrets: true
  allow: {hosts: ["*.example.com"]}
  driftDetection: {mode: warn, ignore: [{paths: [/spec/replicas]}]}
  recreate: [Job]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, refused, err := loadWatches(file)
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	options := Options{WatchNamespaces: []string{"a"}}
	p, err := publish(entries, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "sesame") {
		t.Errorf("a secret is published:\n%s", text)
	}
	read, err := ReadPublished(&corev1.ConfigMap{Data: map[string]string{publishedKey: string(text)}, BinaryData: p.charts})
	if err != nil {
		t.Fatal(err)
	}
	if read.Version != version {
		t.Errorf("it is of version %q", read.Version)
	}
	entry, ok := read.Of(entries[0].GroupKind())
	if !ok {
		t.Fatal("it has no entry")
	}
	chart, err := read.ChartOf(entry)
	if err != nil || chart == nil {
		t.Fatal(chart, err)
	}
	if got := len(entry.FromEnvironment); got != 3 || entry.FromEnvironment["b"] != "x$PASSWORD" {
		t.Errorf("from the environment are %v", entry.FromEnvironment)
	}
	got, err := read.KindOptions(entry, chart)
	if err != nil {
		t.Fatal(err)
	}
	want := entries[0].kindOptions(options)
	for _, key := range []string{"a", "b", "c"} {
		delete(want.Overrides, key)
	}
	for name, pair := range map[string][2]any{
		"overrides": {got.Overrides, want.Overrides}, "allow": {got.Allow, want.Allow}, "selector": {got.Selector.String(), want.Selector.String()}, "recreate": {got.Recreate, want.Recreate},
		"drift": {got.DriftDetection.Mode, want.DriftDetection.Mode}, "names": {got.Names, want.Names}, "secrets": {got.Secrets, want.Secrets},
		"namespaces": {got.Namespaces, want.Namespaces}, "chart": {release.ChartDigest(got.Chart), release.ChartDigest(want.Chart)},
		"ignored": {len(got.DriftDetection.Ignored), len(want.DriftDetection.Ignored)},
	} {
		a, _ := yaml.Marshal(pair[0])
		b, _ := yaml.Marshal(pair[1])
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %s, not %s", name, a, b)
		}
	}
}

// A chart makes the same package each time, and a package the same chart: what is published changes only
// where the chart does.
func TestPack(t *testing.T) {
	for _, dir := range []string{"../../helm-charts/welcome", "../../tests/charts/subcharts"} {
		chart, err := loader.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		once, err := pack(chart)
		if err != nil {
			t.Fatal(err)
		}
		read, err := loader.LoadArchive(bytes.NewReader(once))
		if err != nil {
			t.Fatal(err)
		}
		again, err := pack(read)
		if err != nil || !bytes.Equal(once, again) || release.ChartDigest(read) != release.ChartDigest(chart) {
			t.Errorf("%s: it is another one (%v)", dir, err)
		}
	}
}

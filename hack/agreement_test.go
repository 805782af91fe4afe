package hack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/chart/loader"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The same kind stands in PROJECT, watches.yaml, the CRD, the samples and the chart. This test
// fails where one was changed without the others.

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestKindsAgree(t *testing.T) {
	var project struct {
		Domain    string
		Resources []struct{ Domain, Group, Kind, Version string }
	}
	read(t, "PROJECT", &project)
	var entries []watches.Watch
	read(t, "watches.yaml", &entries)
	if len(project.Resources) != len(entries) {
		t.Fatalf("PROJECT lists %d kinds, watches.yaml %d", len(project.Resources), len(entries))
	}
	for i, entry := range entries {
		resource := project.Resources[i]
		if group := resource.Group + "." + resource.Domain; group != entry.Group || resource.Kind != entry.Kind || resource.Version != entry.Version {
			t.Errorf("PROJECT says %s/%s %s, watches.yaml %s", group, resource.Version, resource.Kind, entry.GroupVersionKind)
		}
		if _, err := loader.Load(filepath.Join("..", entry.ChartPath)); err != nil {
			t.Errorf("chart of %s: %v", entry.Kind, err)
		}

		files, err := filepath.Glob(filepath.Join("..", "config", "crd", "bases", entry.Group+"_*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no CRD of group %s in config/crd/bases (make manifests): %v", entry.Group, err)
		}
		var found bool
		for _, file := range files {
			var crd apiextensionsv1.CustomResourceDefinition
			read(t, strings.TrimPrefix(file, "../"), &crd)
			found = found || crd.Spec.Names.Kind == entry.Kind && crd.Spec.Group == entry.Group && crd.Spec.Versions[0].Name == entry.Version
		}
		if !found {
			t.Errorf("config/crd/bases has no CRD of %s (make manifests)", entry.GroupVersionKind)
		}
	}
}

func TestSamplesAreOfWatchedKinds(t *testing.T) {
	var entries []watches.Watch
	read(t, "watches.yaml", &entries)
	var kustomization struct{ Resources []string }
	read(t, "config/samples/kustomization.yaml", &kustomization)
	if len(kustomization.Resources) == 0 {
		t.Fatal("config/samples/kustomization.yaml lists no sample")
	}
	for _, name := range kustomization.Resources {
		var sample unstructured.Unstructured
		read(t, "config/samples/"+name, &sample.Object)
		var found bool
		for _, entry := range entries {
			found = found || entry.GroupVersionKind == sample.GroupVersionKind()
		}
		if !found {
			t.Errorf("%s is a %s, which watches.yaml does not list", name, sample.GroupVersionKind())
		}
	}
}

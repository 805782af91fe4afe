package hack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/chart/loader"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

		if _, crd := crdOf(t, entry); crd.Spec.Versions[0].Name != entry.Version {
			t.Errorf("the CRD of %s has version %s (make manifests)", entry.GroupVersionKind, crd.Spec.Versions[0].Name)
		}
	}
}

// crdOf returns the CRD of an entry of watches.yaml, and its file in config/crd.
func crdOf(t *testing.T, entry watches.Watch) (string, apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "config", "crd", "bases", entry.Group+"_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		read(t, strings.TrimPrefix(file, "../"), &crd)
		if crd.Spec.Names.Kind == entry.Kind && crd.Spec.Group == entry.Group {
			return "bases/" + filepath.Base(file), crd
		}
	}
	t.Fatalf("config/crd/bases has no CRD of %s (make manifests)", entry.GroupVersionKind)
	return "", apiextensionsv1.CustomResourceDefinition{}
}

// A kind that watches.yaml lists is installed, allowed to the operator and to people, and shown to users.
func TestKindsAreServed(t *testing.T) {
	var entries []watches.Watch
	read(t, "watches.yaml", &entries)
	var operator rbacv1.ClusterRole
	read(t, "config/rbac/role.yaml", &operator)
	var csv struct {
		Spec struct {
			CustomResourceDefinitions struct{ Owned []struct{ Name string } }
		}
	}
	read(t, "config/manifests/bases/welcome-operator.clusterserviceversion.yaml", &csv)
	for _, entry := range entries {
		file, crd := crdOf(t, entry)
		if !slices.Contains(resources(t, "config/crd"), file) {
			t.Errorf("config/crd/kustomization.yaml does not list %s", file)
		}
		for resource, verb := range map[string]string{"": "patch", "/status": "update", "/finalizers": "update"} {
			resource = crd.Spec.Names.Plural + resource
			if !slices.ContainsFunc(operator.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, entry.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
			}) {
				t.Errorf("config/rbac/role.yaml does not let the operator %s %s of %s", verb, resource, entry.Group)
			}
		}
		for _, may := range []string{"viewer", "editor", "admin"} {
			if role := crd.Spec.Names.Singular + "_" + may + "_role.yaml"; !slices.Contains(resources(t, "config/rbac"), role) {
				t.Errorf("config/rbac/kustomization.yaml does not list %s", role)
			}
		}
		if !slices.ContainsFunc(resources(t, "config/samples"), func(file string) bool {
			return sampleKind(t, file) == entry.GroupVersionKind
		}) {
			t.Errorf("config/samples/kustomization.yaml lists no %s", entry.Kind)
		}
		if !slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(owned struct{ Name string }) bool { return owned.Name == crd.Name }) {
			t.Errorf("config/manifests/bases: customresourcedefinitions.owned has no %s", crd.Name)
		}
	}
}

// resources of a kustomization.
func resources(t *testing.T, dir string) []string {
	t.Helper()
	var kustomization struct{ Resources []string }
	read(t, dir+"/kustomization.yaml", &kustomization)
	return kustomization.Resources
}

func sampleKind(t *testing.T, file string) schema.GroupVersionKind {
	t.Helper()
	var sample unstructured.Unstructured
	read(t, "config/samples/"+file, &sample.Object)
	return sample.GroupVersionKind()
}

func TestSamplesAreOfWatchedKinds(t *testing.T) {
	var entries []watches.Watch
	read(t, "watches.yaml", &entries)
	for _, file := range resources(t, "config/samples") {
		kind := sampleKind(t, file)
		if !slices.ContainsFunc(entries, func(entry watches.Watch) bool { return entry.GroupVersionKind == kind }) {
			t.Errorf("%s is a %s, which watches.yaml does not list", file, kind)
		}
	}
}

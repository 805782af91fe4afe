package hack

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// The same kind stands in PROJECT, watches.yaml, the CRD, the samples and the chart. `make manifests` makes
// the others of watches.yaml and the chart: these tests say of which entry something was lost since, and
// hack/verify.sh what.

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
		t.Fatalf("PROJECT lists %d kinds, watches.yaml %d (make manifests)", len(project.Resources), len(entries))
	}
	for i, entry := range entries {
		resource := project.Resources[i]
		if group := resource.Group + "." + resource.Domain; group != entry.Group || resource.Kind != entry.Kind || resource.Version != entry.Version {
			t.Errorf("entry %s: PROJECT says %s/%s %s, watches.yaml %s (make manifests)", entry.Kind, group, resource.Version, resource.Kind, entry.GroupVersionKind)
		}
		if _, err := loader.Load(filepath.Join("..", entry.ChartPath)); err != nil {
			t.Errorf("entry %s: chart %s: %v", entry.Kind, entry.ChartPath, err)
		}
		if _, crd, found := crdOf(t, entry); found && crd.Spec.Versions[0].Name != entry.Version {
			t.Errorf("entry %s: its CRD has version %s, not %s (make manifests)", entry.Kind, crd.Spec.Versions[0].Name, entry.Version)
		}
	}
}

// crdOf returns the CRD of an entry of watches.yaml, and its file in config/crd.
func crdOf(t *testing.T, entry watches.Watch) (file string, crd apiextensionsv1.CustomResourceDefinition, found bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "config", "crd", "bases", entry.Group+"_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		read(t, strings.TrimPrefix(file, "../"), &crd)
		if crd.Spec.Names.Kind == entry.Kind && crd.Spec.Group == entry.Group {
			return "bases/" + filepath.Base(file), crd, true
		}
	}
	t.Errorf("entry %s: config/crd/bases has no CRD of it (make manifests)", entry.Kind)
	return "", crd, false
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
		file, crd, found := crdOf(t, entry)
		if !found {
			continue
		}
		if !slices.Contains(resources(t, "config/crd"), file) {
			t.Errorf("entry %s: config/crd/kustomization.yaml does not list %s (make manifests)", entry.Kind, file)
		}
		for _, right := range []string{" list", " watch", " patch", "/status update", "/finalizers update"} {
			resource, verb, _ := strings.Cut(crd.Spec.Names.Plural+right, " ")
			if !slices.ContainsFunc(operator.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, entry.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
			}) {
				t.Errorf("entry %s: config/rbac/role.yaml does not let the operator %s %s of %s (make manifests)", entry.Kind, verb, resource, entry.Group)
			}
		}
		for _, may := range []string{"viewer", "editor", "admin"} {
			if role := crd.Spec.Names.Singular + "_" + may + "_role.yaml"; !slices.Contains(resources(t, "config/rbac"), role) {
				t.Errorf("entry %s: config/rbac/kustomization.yaml does not list %s (make manifests)", entry.Kind, role)
			}
		}
		if !slices.ContainsFunc(resources(t, "config/samples"), func(file string) bool {
			return sampleKind(t, file) == entry.GroupVersionKind
		}) {
			t.Errorf("entry %s: config/samples/kustomization.yaml lists no sample of it (make manifests)", entry.Kind)
		}
		if !slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(owned struct{ Name string }) bool { return owned.Name == crd.Name }) {
			t.Errorf("entry %s: customresourcedefinitions.owned in config/manifests/bases has no %s (make manifests)", entry.Kind, crd.Name)
		}
	}
}

// An image that an entry pins by a variable is in the operator's Deployment, and so in relatedImages of the
// bundle: without it, the entry is broken.
func TestPinnedImages(t *testing.T) {
	var entries []watches.Watch
	read(t, "watches.yaml", &entries)
	operator := deployed[appsv1.Deployment](t, "Deployment")
	values := map[string]string{}
	for _, variable := range operator.Spec.Template.Spec.Containers[0].Env {
		values[variable.Name] = variable.Value
	}
	var bundle struct {
		Spec struct {
			RelatedImages []struct{ Name, Image string }
		}
	}
	read(t, "bundle/manifests/welcome-operator.clusterserviceversion.yaml", &bundle)
	for _, entry := range entries {
		for path, value := range entry.OverrideValues {
			os.Expand(value, func(name string) string {
				if values[name] == "" {
					t.Errorf("entry %s: %s is pinned by %s, which hack/deployment.sh does not set: add it to env in config/manager/manager.yaml", entry.Kind, path, name)
				}
				related := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "RELATED_IMAGE_"), "_", "-"))
				if !slices.ContainsFunc(bundle.Spec.RelatedImages, func(image struct{ Name, Image string }) bool { return image.Name == related }) {
					t.Errorf("entry %s: relatedImages of the bundle has no %s, by which %s is pinned (make bundle)", entry.Kind, related, path)
				}
				return ""
			})
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

// makefileVersion is the VERSION of the Makefile.
func makefileVersion(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(makefile), "\nVERSION            ?= ")
	version, _, _ = strings.Cut(version, "\n")
	return version
}

// What is deployed by kustomize alone, and what operators of their own are made from, is of the Makefile's version.
func TestImagesAreOfTheVersion(t *testing.T) {
	var manager appsv1.Deployment
	read(t, "config/manager/manager.yaml", &manager)
	container := manager.Spec.Template.Spec.Containers[0]
	images := []string{container.Image}
	for _, variable := range container.Env {
		if variable.Name == "RELATED_IMAGE_WELCOME" {
			images = append(images, variable.Value)
		}
	}
	if want := []string{"demo.welcome.domain/welcome-operator:v" + makefileVersion(t), "demo.welcome.domain/welcome:v" + makefileVersion(t)}; !slices.Equal(images, want) {
		t.Errorf("config/manager/manager.yaml has the images %q, not %q", images, want)
	}
	for _, file := range []string{"CONTRIBUTING.md", "examples/README.md"} { // what make manifests makes names these images
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range regexp.MustCompile(`demo\.welcome\.domain/[a-z-]+:v([0-9.]+[0-9])`).FindAllSubmatch(text, -1) {
			if string(tag[1]) != makefileVersion(t) {
				t.Errorf("%s has the image %s, and the Makefile version %s", file, tag[0], makefileVersion(t))
			}
		}
	}
}

// Each release in the catalog has its bundle, and replaces one before it; nothing has replaced the Makefile's version.
func TestCatalogHasItsReleases(t *testing.T) {
	version := makefileVersion(t)
	var template struct {
		Entries []struct {
			Schema, Image string
			Entries       []struct{ Name, Replaces string }
		}
	}
	read(t, "catalog/template.yaml", &template)
	var bundles, releases []string
	for _, entry := range template.Entries {
		if entry.Schema == "olm.bundle" {
			bundles = append(bundles, entry.Image)
		}
		for i, release := range entry.Entries {
			if i == 0 && release.Replaces != "" || i > 0 && release.Replaces != releases[i-1] {
				t.Errorf("%s replaces %q, and %q are before it", release.Name, release.Replaces, releases)
			}
			releases = append(releases, release.Name)
		}
	}
	for _, release := range releases {
		if bundle := strings.Replace(release, "welcome-operator.", "demo.welcome.domain/welcome-operator-bundle:", 1); !slices.Contains(bundles, bundle) {
			t.Errorf("%s has no bundle %s", release, bundle)
		}
	}
	if last := "welcome-operator.v" + version; len(releases) == 0 || releases[len(releases)-1] != last {
		t.Errorf("the catalog ends with %q, want %s", releases, last)
	}
}

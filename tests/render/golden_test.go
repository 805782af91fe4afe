package render

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	root    = "../.."
	crdFile = root + "/config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml"
)

// api is read once: it takes a third of a second.
var api = sync.OnceValues(func() (*API, error) { return LoadAPI(crdFile) })

var update = flag.Bool("update", false, "write what is rendered now into want.yaml")

// goldenCase is a directory of testdata: cr.yaml, a Welcome that somebody applies, and want.yaml, what it becomes.
type goldenCase struct {
	name, dir string
	applied   *unstructured.Unstructured
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	dirs, err := filepath.Glob("testdata/*/cr.yaml")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	var cases []goldenCase
	for _, file := range dirs {
		dir := filepath.Dir(file)
		cases = append(cases, goldenCase{name: filepath.Base(dir), dir: dir, applied: readObject(t, file)})
	}
	return cases
}

func readObject(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kit.Objects(text)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%s: %v, %d objects", file, err, len(objects))
	}
	return objects[0]
}

// manifest is what the operator would deploy for a Welcome that somebody applies.
func manifest(t *testing.T, applied *unstructured.Unstructured) string {
	t.Helper()
	t.Setenv("RELATED_IMAGE_WELCOME", "demo.welcome.domain/welcome:v0.1.0")
	welcomes, err := api()
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := LoadRenderer(root)
	if err != nil {
		t.Fatal(err)
	}
	stored := applied.DeepCopy()
	stored.SetNamespace("demo")
	if err := welcomes.Admit(stored); err != nil {
		t.Fatalf("the API server refuses it: %v", err)
	}
	rel, err := renderer.Render(stored)
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	if len(rel.Hooks) > 0 {
		t.Errorf("the chart has hooks: the operator would run them at every edit")
	}
	return rel.Manifest
}

func TestGolden(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			got := manifest(t, c.applied)
			wantFile := filepath.Join(c.dir, "want.yaml")
			if *update {
				if err := os.WriteFile(wantFile, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wantFile)
			if err != nil {
				t.Fatalf("%v: write it with make update-golden", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("rendered differently; if that is what you want: make update-golden (-want +got):\n%s", diff)
			}
		})
	}
}

// A field that no case sets is a field of which nobody knows what it does.
func TestEveryFieldHasAGoldenCase(t *testing.T) {
	welcomes, err := api()
	if err != nil {
		t.Fatal(err)
	}
	var set []string
	for _, c := range goldenCases(t) {
		set = append(set, paths(c.applied.Object["spec"], "spec")...)
	}
	for _, field := range schemaFields(welcomes.Schema.Properties["spec"], "spec") {
		if !slices.Contains(set, field) {
			t.Errorf("no case in tests/render/testdata sets %s: add a directory with a cr.yaml that does, then make update-golden", field)
		}
	}
}

// The samples are what people start from.
func TestSamplesRender(t *testing.T) {
	for _, sample := range []string{"webapp_v1_welcome.yaml", "webapp_v1_welcome_full.yaml"} {
		t.Run(sample, func(t *testing.T) {
			manifest(t, readObject(t, filepath.Join(root, "config/samples", sample)))
		})
	}
}

// TestFullSampleIsFull keeps the promise of its first line.
func TestFullSampleIsFull(t *testing.T) {
	welcomes, err := api()
	if err != nil {
		t.Fatal(err)
	}
	spec := welcomes.Schema.Properties["spec"]
	sample := readObject(t, filepath.Join(root, "config/samples/webapp_v1_welcome_full.yaml"))
	set := paths(sample.Object["spec"], "spec")
	for name := range spec.Properties {
		if !slices.Contains(set, "spec."+name) {
			t.Errorf("config/samples/webapp_v1_welcome_full.yaml does not set spec.%s", name)
		}
	}
}

// schemaFields lists the fields of a schema that hold a value: "spec.service.port", "spec.tolerations.key".
func schemaFields(schema apiextensionsv1.JSONSchemaProps, path string) []string {
	if schema.Items != nil {
		return schemaFields(*schema.Items.Schema, path)
	}
	if schema.Properties == nil {
		return []string{path}
	}
	var fields []string
	for name, property := range schema.Properties {
		fields = append(fields, schemaFields(property, path+"."+name)...)
	}
	slices.Sort(fields)
	return fields
}

// paths lists every path in value; elements of lists have the path of their list.
func paths(value any, path string) []string {
	found := []string{path}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			found = append(found, paths(inner, path+"."+name)...)
		}
	case []any:
		for _, inner := range value {
			found = append(found, paths(inner, path)...)
		}
	}
	return found
}

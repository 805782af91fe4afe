package release

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// What the guard does to objects of a cluster stands in tests/integration: TestForeignObject…, TestForgedRecord.

func info(namespace string) *resource.Info {
	return &resource.Info{
		Namespace: namespace, Name: "it",
		Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}},
		Object:  &unstructured.Unstructured{Object: map[string]any{}},
	}
}

func TestCheckNamespace(t *testing.T) {
	g := &guard{owner: owner()}
	if err := g.checkNamespace(info("here")); err != nil {
		t.Error(err)
	}
	for namespace, want := range map[string]string{"there": `Service "it" in namespace "there" is outside`, "": `cluster-scoped Service "it" is outside`} {
		if err := g.checkNamespace(info(namespace)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}

func TestAdopt(t *testing.T) {
	object := info("here").Object.(*unstructured.Unstructured)
	object.SetLabels(map[string]string{"a": "b"})
	g := &guard{owner: owner()}
	for range 2 { // again changes nothing
		if err := g.adopt(&resource.Info{Object: object}); err != nil {
			t.Fatal(err)
		}
	}
	if !metav1.IsControlledBy(object, owner()) || len(object.GetOwnerReferences()) != 1 {
		t.Errorf("owners: %v", object.GetOwnerReferences())
	}
	if labels := object.GetLabels(); labels[managedByLabel] != managedByValue || labels["a"] != "b" {
		t.Errorf("labels: %v", labels)
	}
}

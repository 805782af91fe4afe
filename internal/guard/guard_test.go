package guard

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// What the guard does to objects of a cluster stands in tests/integration: TestForeignObject…, TestForgedRecord.

func owner() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("webapp.demo.welcome.domain/v1")
	o.SetKind("Welcome")
	o.SetName("hello")
	o.SetNamespace("here")
	o.SetUID("1")
	return o
}

func info(namespace string) *resource.Info {
	return &resource.Info{
		Namespace: namespace, Name: "it",
		Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Scope: meta.RESTScopeNamespace},
		Object:  &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace}}},
	}
}

func TestCheckPlace(t *testing.T) {
	g := &Guard{owner: owner()}
	if err := g.checkPlace(info("here")); err != nil {
		t.Error(err)
	}
	for namespace, want := range map[string]string{"there": `Service "it" in namespace "there" is outside`, "": `cluster-scoped Service "it" is outside`} {
		if err := g.checkPlace(info(namespace)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}

func TestAdopt(t *testing.T) {
	obj := info("here").Object.(*unstructured.Unstructured)
	obj.SetLabels(map[string]string{"a": "b"})
	g := &Guard{owner: owner()}
	for range 2 { // again changes nothing
		g.adopt(obj)
	}
	if !metav1.IsControlledBy(obj, owner()) || len(obj.GetOwnerReferences()) != 1 {
		t.Errorf("owners: %v", obj.GetOwnerReferences())
	}
	if set := obj.GetLabels(); !object.ManagedBy().Matches(labels.Set(set)) || set["a"] != "b" || set["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("labels: %v", set)
	}
	if annotations := obj.GetAnnotations(); annotations["meta.helm.sh/release-name"] != owner().GetName() {
		t.Errorf("annotations: %v", annotations)
	}
}

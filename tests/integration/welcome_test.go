package integration

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var welcomeKind = schema.GroupVersionKind{Group: "webapp.demo.welcome.domain", Version: "v1", Kind: "Welcome"}

const (
	paused    = "webapp.demo.welcome.domain/paused"
	managedBy = "webapp.demo.welcome.domain/managed-by"
	finalizer = "uninstall-helm-release"
)

// fixture builds a Welcome: a test shows only what matters to it.
type fixture struct{ *unstructured.Unstructured }

func welcome(name string) *fixture {
	w := &fixture{newWelcome()}
	w.SetName(name)
	return w
}

// in sets the namespace.
func (w *fixture) in(namespace string) *unstructured.Unstructured {
	w.SetNamespace(namespace)
	return w.Unstructured
}

func (w *fixture) greeting(name string) *fixture { return w.with("name", name) }

// with sets a field of the spec: with("service.port", int64(80)).
func (w *fixture) with(path string, value any) *fixture {
	if err := unstructured.SetNestedField(w.Object, value, append([]string{"spec"}, strings.Split(path, ".")...)...); err != nil {
		panic(err)
	}
	return w
}

func (w *fixture) annotate(key, value string) *fixture {
	w.SetAnnotations(with(w.GetAnnotations(), key, value))
	return w
}

func (w *fixture) label(key, value string) *fixture {
	w.SetLabels(with(w.GetLabels(), key, value))
	return w
}

func with(in map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range maps.All(in) {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func newWelcome() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(welcomeKind)
	return object
}

func welcomeList() *unstructured.UnstructuredList {
	return listOf(welcomeKind.GroupVersion().String(), welcomeKind.Kind)
}

func listOf(apiVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	return list
}

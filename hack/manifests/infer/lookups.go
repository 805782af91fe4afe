package infer

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// LooksUp is whether the chart looks up objects of a kind where a spec says nothing and there are none.
func (t *Trial) LooksUp(kind schema.GroupVersionKind) bool {
	asking := *t
	asking.lookups.kinds = map[schema.GroupVersionKind]bool{}
	_, _ = asking.ByDefault() // whether it can be rendered is asked elsewhere
	return asking.lookups.kinds[kind]
}

// lookups are what Helm asks a cluster without objects for.
type lookups struct {
	dynamic.NamespaceableResourceInterface // nil, for Helm calls no other methods
	kinds                                  map[schema.GroupVersionKind]bool
}

// GetClientFor implements engine.ClientProvider.
func (l lookups) GetClientFor(apiVersion, kind string) (of dynamic.NamespaceableResourceInterface, namespaced bool, err error) {
	l.kinds[schema.FromAPIVersionAndKind(apiVersion, kind)] = true
	return l, true, nil
}

func (l lookups) Namespace(string) dynamic.ResourceInterface { return l }

func (l lookups) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (l lookups) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return &unstructured.UnstructuredList{}, nil
}

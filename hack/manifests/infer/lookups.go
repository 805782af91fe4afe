package infer

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// LooksUp are the kinds that the chart looks up in its namespace where a spec says nothing and there are none: elsewhere, nothing
// is looked for, but Secrets.
func (t *Trial) LooksUp() []schema.GroupVersionKind {
	asking := *t
	asking.lookups.asked = map[schema.GroupVersionKind]bool{}
	asking.lookups.namespace = t.release.Namespace
	_, _ = asking.ByDefault() // whether it can be rendered is asked elsewhere
	return slices.SortedFunc(maps.Keys(asking.lookups.asked), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
}

// lookups are what Helm asks a cluster without objects for.
type lookups struct {
	dynamic.NamespaceableResourceInterface // nil, for Helm calls no other methods
	asked                                  map[schema.GroupVersionKind]bool
	namespace                              string
	kind                                   schema.GroupVersionKind // that is asked for
}

// GetClientFor implements engine.ClientProvider.
func (l lookups) GetClientFor(apiVersion, kind string) (of dynamic.NamespaceableResourceInterface, namespaced bool, err error) {
	if l.kind = schema.FromAPIVersionAndKind(apiVersion, kind); l.kind == obj.Secret {
		l.asked[l.kind] = true
	}
	return l, true, nil
}

func (l lookups) Namespace(namespace string) dynamic.ResourceInterface {
	if namespace == l.namespace {
		l.asked[l.kind] = true
	}
	return l
}

func (l lookups) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (l lookups) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return &unstructured.UnstructuredList{}, nil
}

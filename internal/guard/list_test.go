package guard

import (
	"fmt"
	"maps"
	"testing"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// The items of a List are hooks, or kept, as it says, however they come to be in it.
func TestSayOfItems(t *testing.T) {
	const one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: it}}"
	for name, c := range map[string]struct {
		manifest string
		want     map[string]string
	}{
		"of a List": {"{apiVersion: v1, kind: List, metadata: {annotations: {helm.sh/hook: test, other: x}}, items: [" + one + "]}", map[string]string{"helm.sh/hook": "test"}},
		"that do not say what they are": {
			"{apiVersion: v1, kind: ConfigMapList, metadata: {annotations: {helm.sh/resource-policy: keep}}, items: [{metadata: {name: it}}]}", map[string]string{"helm.sh/resource-policy": "keep"},
		},
		"of another one":       {"{apiVersion: v1, kind: List, metadata: {annotations: {helm.sh/hook: test}}, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}]}", nil},
		"of one that has none": {"{apiVersion: v1, kind: List, metadata: {annotations: {helm.sh/hook: test}}, items: []}", nil},
		"of no List":           {"{apiVersion: v1, kind: List, metadata: {annotations: {helm.sh/hook: test}}, items: [80]}", nil},
	} {
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "it"}}}
		sayOfItems(fmt.Sprintf("---\n%s\n---\n%s\n", one, c.manifest), kube.ResourceList{&resource.Info{Name: "it", Object: made}})
		if got := made.GetAnnotations(); !maps.Equal(got, c.want) {
			t.Errorf("items %s: %v, not %v", name, got, c.want)
		}
	}
}

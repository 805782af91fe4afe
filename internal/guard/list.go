package guard

import (
	"maps"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// sayOfItems copies a List's annotations about hooks and policies to its items, unless they have their own.
// Helm treats a List as one object and reads only its annotations; the cluster has only the items.
func sayOfItems(manifest string, resources kube.ResourceList) {
	if !strings.Contains(manifest, "List") {
		return
	}
	for _, document := range object.Split(manifest) {
		text, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			continue
		}
		list := &unstructured.UnstructuredList{}
		if _, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, list); err != nil {
			continue // it is no List
		}
		said := (&unstructured.Unstructured{Object: list.Object}).GetAnnotations()
		maps.DeleteFunc(said, func(key, _ string) bool { return !strings.HasPrefix(key, "helm.sh/") })
		if len(said) == 0 {
			continue
		}
		for _, item := range list.Items {
			for _, info := range resources {
				if one := content(info.Object); one.GroupVersionKind() == item.GroupVersionKind() && one.GetName() == item.GetName() {
					both := maps.Clone(said)
					maps.Copy(both, one.GetAnnotations())
					one.SetAnnotations(both)
				}
			}
		}
	}
}

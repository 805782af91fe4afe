package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Release records are read as ConfigMaps, and a chart's ConfigMaps untyped, as all that charts make: their drift shows in a fingerprint.
func TestConfigMapsOfChartsAreSlim(t *testing.T) {
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"}}}
	config.SetLabels(map[string]string{"a": "b"})
	config.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Greeting", Name: "hello", UID: "1", Controller: ptr.To(true)}})
	want := object.Fingerprint(config, nil)
	for kind, options := range cacheOptions(nil, nil).ByObject {
		if _, ok := kind.(*corev1.ConfigMap); !ok {
			continue
		}
		slim, err := options.Transform(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := object.CachedFingerprint(slim.(*unstructured.Unstructured)); got != want || slim.(*unstructured.Unstructured).Object["data"] != nil {
			t.Errorf("it is cached as %v", slim)
		}
	}
}

package object

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func secretOf(data map[string]any) *unstructured.Unstructured {
	secret := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	secret.SetGroupVersionKind(Secret)
	secret.SetNamespace("team-a")
	secret.SetName("it")
	secret.SetAnnotations(map[string]string{"a": "b"})
	return secret
}

// What is in stringData is looked for where the API server stores it.
func TestCanonicalSecret(t *testing.T) {
	secret := secretOf(map[string]any{"a": "YQ==", "b": "Yg==", "c": nil})
	secret.Object["stringData"] = map[string]any{"b": "c", "d": nil}
	canonical := Canonical(secret)
	if data := canonical.Object["data"]; !reflect.DeepEqual(data, map[string]any{"a": "YQ==", "b": "Yw==", "c": "", "d": ""}) || canonical.Object["stringData"] != nil {
		t.Errorf("it is %v", canonical.Object)
	}
}

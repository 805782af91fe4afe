package release

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fingerprintAnnotation holds the fingerprint of an object in the cache. It is never written
// to the cluster.
const fingerprintAnnotation = "webapp.demo.welcome.domain/fingerprint"

// fingerprint is a short name of everything in an object that its author decides: all but
// the status and what the API server and the object's own controller keep in the metadata.
// As long as it is what it was after the last apply, there is no drift.
func fingerprint(object *unstructured.Unstructured) string {
	content := map[string]any{}
	for key, value := range object.Object {
		if key != "status" && key != "metadata" {
			content[key] = value
		}
	}
	annotations := object.GetAnnotations()
	for key := range annotations {
		// Kept by the Deployment controller, which bumps it after our own apply.
		if key == fingerprintAnnotation || strings.HasPrefix(key, "deployment.kubernetes.io/") {
			delete(annotations, key)
		}
	}
	content["labels"], content["annotations"] = object.GetLabels(), annotations
	text, err := json.Marshal(content)
	if err != nil {
		return "" // cannot happen for what was JSON before; it would look like a drift
	}
	return shortDigest(text)
}

// Slim is a transform of the cache. It keeps of a child what says whether it is healthy and
// where it is reached, and a fingerprint of the rest; and of a release record its metadata.
// With thousands of custom resources, pod templates and records are most of the memory.
func Slim(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		object.ManagedFields = nil
		object.Data, object.BinaryData = nil, nil
	case *unstructured.Unstructured:
		object.SetManagedFields(nil)
		annotations := object.GetAnnotations()
		if _, slim := annotations[fingerprintAnnotation]; slim {
			return object, nil // a resync passes the cached object through again
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[fingerprintAnnotation] = fingerprint(object)
		object.SetAnnotations(annotations)
		unstructured.RemoveNestedField(object.Object, "spec", "template")
		unstructured.RemoveNestedField(object.Object, "data")
	}
	return object, nil
}

package release

import (
	"encoding/json"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fingerprintAnnotation holds the fingerprint of an object in the cache. It is never written
// to the cluster.
const fingerprintAnnotation = "webapp.demo.welcome.domain/fingerprint"

// requestsAnnotation, with the name of a resource behind it, holds what a pod of a workload in the
// cache requests of it. It is never written to the cluster either.
const requestsAnnotation = "webapp.demo.welcome.domain/requests-"

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

// Slim is a transform of the cache. It keeps of a child what says whether it is healthy, whose it
// is, where it is reached and what its pods request, and a fingerprint of the rest; and of a release
// record its metadata.
// With thousands of custom resources, pod templates and records are most of the memory.
func Slim(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		object.ManagedFields = nil
		object.Data, object.BinaryData = nil, nil
	case *unstructured.Unstructured:
		if object.GetLabels() == nil {
			// A resync passes the cached object through again. One from the cluster has the label by which
			// the cache selects; an annotation could be anybody's.
			return object, nil
		}
		object.SetAnnotations(slimAnnotations(object))
		object.SetLabels(nil)
		unstructured.RemoveNestedField(object.Object, "spec", "template")
		unstructured.RemoveNestedField(object.Object, "data")
		return Share(object)
	}
	return object, nil
}

func slimAnnotations(object *unstructured.Unstructured) map[string]string {
	annotations := map[string]string{fingerprintAnnotation: fingerprint(object)}
	containers, isWorkload, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers")
	for _, name := range []string{"cpu", "memory"} {
		if isWorkload {
			annotations[requestsAnnotation+name] = sumOfRequests(list(containers), name)
		}
	}
	return annotations
}

// sumOfRequests takes the limit where a container requests nothing, as the API server does when it
// makes the pod.
func sumOfRequests(containers []any, name string) string {
	var sum resource.Quantity
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		for _, kind := range []string{"requests", "limits"} {
			text, _, _ := unstructured.NestedString(fields, "resources", kind, name)
			if quantity, err := resource.ParseQuantity(text); err == nil {
				sum.Add(quantity)
				break
			}
		}
	}
	return sum.String()
}

// Requested is what the containers of one pod of a workload in the cache request of a resource, cpu
// or memory, together.
func Requested(workload *unstructured.Unstructured, name string) float64 {
	text, _, _ := unstructured.NestedString(workload.Object, "metadata", "annotations", requestsAnnotation+name)
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0 // it has no containers
	}
	return quantity.AsApproximateFloat64()
}

// Share is a transform of the cache for objects that are kept whole, but for their managed fields,
// which are the larger part of a small object, and which nothing reads. The strings that many
// objects have, field names above all, are then in memory only once.
func Share(object any) (any, error) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
		object.Object = share(object.Object).(map[string]any)
	}
	return object, nil
}

func share(value any) any {
	switch value := value.(type) {
	case map[string]any:
		shared := make(map[string]any, len(value))
		for key, element := range value {
			shared[unique.Make(key).Value()] = share(element)
		}
		return shared
	case []any:
		for i, element := range value {
			value[i] = share(element)
		}
	case string:
		return unique.Make(value).Value()
	}
	return value
}

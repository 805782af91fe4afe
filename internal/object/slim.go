package object

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requestsAnnotation, with the name of a resource behind it, holds what a pod of a workload in the
// cache requests of it. It is never written to the cluster either.
const requestsAnnotation = "webapp.demo.welcome.domain/requests-"

// maxReference bounds the texts of an owner reference. The API server bounds none of them; a name has up to 253
// characters.
const maxReference = 1024

// maxFingerprint bounds what is kept of the fingerprint of an object that has thousands of annotations.
const maxFingerprint = 16 << 10

// readFields are those of spec and status, besides those that are no list and no map, that say how an object
// fares (see Health), which pods are its own, and where it is reached.
var readFields = map[string][]string{
	"spec":   {"selector", "updateStrategy", "ports", "rules", "tls"},
	"status": {"conditions", "containerStatuses", "loadBalancer"},
}

// maxRead bounds each of them, in bytes and parts: what is small where it is stored may be fifty times as large
// in memory.
const maxRead = 32 << 10

// Slim is a transform of the cache. It keeps of a child what says whether it is healthy, whose it is, where it
// is reached and what its pods request, and a fingerprint of the rest. Of what says of no custom resource of
// the served kinds to be made for it, it keeps hardly more than the name: it only wears the label, as what
// another operator makes of other kinds does, and could be anybody's bulk. With thousands of custom resources,
// pod templates are most of the memory. The result is packed.
func (k IgnoredByKind) Slim(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok || whole.GetLabels() == nil {
		// It is slim: what is listed at first comes twice (see Pack). One from the cluster has the label by which
		// the cache selects; an annotation could be anybody's.
		return object, nil
	}
	slim := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	slim.SetGroupVersionKind(whole.GroupVersionKind())
	metadata, _, _ := unstructured.NestedMap(whole.Object, "metadata")
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"} {
		if value, ok := metadata[key]; ok {
			slim.Object["metadata"].(map[string]any)[key] = value
		}
	}
	controller := metav1.GetControllerOfNoCopy(whole)
	isShort := controller == nil || len(controller.APIVersion)+len(controller.UID) <= maxReference
	kind, of := MadeFor(whole)
	if rules, served := k[kind]; served && of.Name != "" && isShort && len(kind.Group)+len(kind.Kind)+len(of.Namespace)+len(of.Name) <= maxReference {
		annotations := slimAnnotations(whole, rules)
		if Kept(whole) {
			annotations[Policy] = Keep
		}
		if controller != nil {
			slim.SetOwnerReferences([]metav1.OwnerReference{*controller})
		} else {
			annotations[CustomResource], annotations[ReleaseNamespace], annotations[ReleaseName] = kind.String(), of.Namespace, of.Name
		}
		slim.SetAnnotations(annotations)
		if finalizers, _ := metadata["finalizers"].([]any); metadata["deletionTimestamp"] != nil && sizeOf(finalizers) <= maxReference {
			slim.Object["metadata"].(map[string]any)["finalizers"] = finalizers // which are told as long as they keep it
		}
		for key, read := range readFields {
			if fields, ok := whole.Object[key].(map[string]any); ok {
				slim.Object[key] = slimFields(fields, read)
			}
		}
		if whole.GetKind() == "Service" { // that of a workload is read
			unstructured.RemoveNestedField(slim.Object, "spec", "selector")
		}
	}
	whole.Object = slim.Object
	return Pack(whole)
}

func slimFields(fields map[string]any, read []string) map[string]any {
	slim := map[string]any{}
	for key, value := range fields {
		switch value.(type) {
		case map[string]any, []any:
			if !slices.Contains(read, key) {
				continue
			}
		}
		if sizeOf(value) <= maxRead {
			slim[key] = value
		}
	}
	return slim
}

// sizeOf is how many bytes the texts of a value have, and parts it is made of, each of which costs some more.
func sizeOf(value any) (size int) {
	const part = 16
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			size += part + len(key) + sizeOf(element)
		}
	case []any:
		for _, element := range value {
			size += part + sizeOf(element)
		}
	case string:
		return len(value)
	}
	return size
}

func slimAnnotations(object *unstructured.Unstructured, rules Ignored) map[string]string {
	fingerprint := Fingerprint(object, rules)
	if len(fingerprint) > maxFingerprint {
		fingerprint = "" // it passes for a drift
	}
	annotations := map[string]string{fingerprintAnnotation: fingerprint}
	containers, isWorkload, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers")
	for _, name := range []string{"cpu", "memory"} {
		if isWorkload {
			annotations[requestsAnnotation+name] = strconv.FormatFloat(sumOfRequests(list(containers), name), 'g', -1, 64)
		}
	}
	return annotations
}

// sumOfRequests takes the limit where a container requests nothing, as the API server does when it
// makes the pod.
func sumOfRequests(containers []any, name string) (sum float64) {
	for _, container := range containers {
		for _, kind := range []string{"requests", "limits"} {
			text, _, _ := unstructured.NestedString(fields(container), "resources", kind, name)
			if quantity, ok := quantityOf(text); ok {
				sum += quantity
				break
			}
		}
	}
	return sum
}

// Requested is what the containers of one pod of a workload in the cache request of a resource, cpu
// or memory, together.
func Requested(workload *unstructured.Unstructured, name string) float64 {
	text, _, _ := unstructured.NestedString(workload.Object, "metadata", "annotations", requestsAnnotation+name)
	sum, _ := strconv.ParseFloat(text, 64) // else it has no containers
	return sum
}

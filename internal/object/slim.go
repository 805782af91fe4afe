package object

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requestsAnnotation, followed by the name of a resource, holds what one pod of a cached workload requests of
// it. It is never written to the cluster.
const requestsAnnotation = "webapp.demo.welcome.domain/requests-"

// maxReference bounds the texts of an owner reference, which the API server does not bound. A name has up to
// 253 characters.
const maxReference = 1024

// maxFingerprint bounds the fingerprint that is kept of an object, which may have thousands of annotations.
const maxFingerprint = 16 << 10

// readFields are the lists and maps of spec and status that are read from the cache: they tell how an object
// fares (see Health), which pods are its own, and where it is reached. Scalars are all kept.
var readFields = map[string][]string{
	"spec":   {"selector", "updateStrategy", "ports", "rules", "tls"},
	"status": {"conditions", "containerStatuses", "loadBalancer"},
}

// maxRead bounds each of these fields, in bytes and elements: what is small in etcd may be fifty times as
// large in memory.
const maxRead = 32 << 10

// Slim is a transform of the cache. Of a child it keeps what tells whether it is healthy, whose it is, where
// it is reached and what its pods request, and a fingerprint of the rest: with thousands of custom resources,
// pod templates would be most of the memory. Of an object that does not name a custom resource of the served
// kinds, it keeps hardly more than the name: another operator's objects may have the label, too, and be of
// any size. The result is packed.
func (k IgnoredByKind) Slim(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok || whole.GetLabels() == nil {
		// It is slim already: what is listed first is transformed twice (see Pack). An object from the
		// cluster always has labels, for the cache selects by one. An annotation of its own would not do as
		// the sign, for anybody may write that.
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
	if marks := k.Marks(whole); marks != nil {
		slim.SetAnnotations(marks)
		if controller := metav1.GetControllerOfNoCopy(whole); controller != nil {
			slim.SetOwnerReferences([]metav1.OwnerReference{*controller})
		}
		if finalizers, _ := metadata["finalizers"].([]any); metadata["deletionTimestamp"] != nil && sizeOf(finalizers) <= maxReference {
			slim.Object["metadata"].(map[string]any)["finalizers"] = finalizers // the status names them while they keep it
		}
		for key, read := range readFields {
			if fields, ok := whole.Object[key].(map[string]any); ok {
				slim.Object[key] = slimFields(fields, read)
			}
		}
		if whole.GetKind() == "Service" { // only that of a workload is read
			unstructured.RemoveNestedField(slim.Object, "spec", "selector")
		}
	}
	whole.Object = slim.Object
	return Pack(whole)
}

// Marks are the annotations of a cached child: its fingerprint, what its pods request, and what else tells whose
// it is. They are nil for an object that does not name a custom resource of the served kinds.
func (k IgnoredByKind) Marks(whole *unstructured.Unstructured) map[string]string {
	controller := metav1.GetControllerOfNoCopy(whole)
	if controller != nil && len(controller.APIVersion)+len(controller.UID) > maxReference {
		return nil
	}
	kind, of := MadeFor(whole)
	rules, served := k[kind]
	if !served || of.Name == "" || len(kind.Group)+len(kind.Kind)+len(of.Namespace)+len(of.Name) > maxReference {
		return nil
	}
	marks := slimAnnotations(whole, rules)
	if Kept(whole) {
		marks[Policy] = Keep
	}
	if controller == nil {
		marks[CustomResource], marks[ReleaseNamespace], marks[ReleaseName] = kind.String(), of.Namespace, of.Name
	}
	return marks
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

// sizeOf is the size of a value: the bytes of its texts, and a constant for each of its parts.
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
		fingerprint = "" // it looks like a drift
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

// sumOfRequests counts the limit of a container that has no request, as the API server does when it creates
// the pod.
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

// Requested is the sum of what the containers of one pod of a cached workload request of a resource, cpu or
// memory.
func Requested(workload *unstructured.Unstructured, name string) float64 {
	text, _, _ := unstructured.NestedString(workload.Object, "metadata", "annotations", requestsAnnotation+name)
	sum, _ := strconv.ParseFloat(text, 64) // it is 0 without containers
	return sum
}

package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requestsAnnotation, with the name of a resource behind it, holds what a pod of a workload in the
// cache requests of it. It is never written to the cluster either.
const requestsAnnotation = "webapp.demo.welcome.domain/requests-"

// maxReference bounds the texts of an owner reference. The API server bounds none of them; a name has up to 253 characters.
const maxReference = 1024

// maxFingerprint bounds what is kept of the fingerprint of an object that has thousands of annotations.
const maxFingerprint = 16 << 10

// unread are fields of the spec of Deployments and Services that nobody reads in the cache.
var unread = []string{
	"template", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds",
	"clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity",
}

// Slim is a transform of the cache. It keeps of a child what says whether it is healthy, whose it
// is, where it is reached and what its pods request, and a fingerprint of the rest. Of what says of no custom
// resource of the served kinds to be made for it, it keeps hardly more than the name: it only wears the label, as what another operator makes of other
// kinds does, and could be anybody's bulk.
// With thousands of custom resources, pod templates are most of the memory.
func (k IgnoredByKind) Slim(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok || whole.GetLabels() == nil {
		// A resync passes the cached object through again. One from the cluster has the label by which
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
		for _, key := range []string{"spec", "status"} {
			if value, ok := whole.Object[key]; ok {
				slim.Object[key] = value
			}
		}
		for _, unread := range unread {
			unstructured.RemoveNestedField(slim.Object, "spec", unread)
		}
	}
	whole.Object = slim.Object
	return Share(whole)
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
			shared[Common(key)] = share(element)
		}
		return shared
	case []any:
		for i, element := range value {
			value[i] = share(element)
		}
	case string:
		return Common(value)
	}
	return value
}

// lately are strings that came a moment ago, of all objects.
var lately = struct {
	sync.Mutex
	known map[string]string
}{known: make(map[string]string, maxWords)}

const (
	maxWords = 2048
	// maxWord bounds, in bytes, what of somebody's bulk is held beyond its object.
	maxWord = 256
)

// Common is a string that equals word: one that is in memory already, if many objects have it. What is remembered for that begins anew when it is too much: what all
// objects have is back with the next one, and what one of them has does not stay, as it would with package unique, where each costs more than the string.
func Common(word string) string {
	if len(word) > maxWord {
		return word
	}
	lately.Lock()
	defer lately.Unlock()
	if known, ok := lately.known[word]; ok {
		return known
	}
	if len(lately.known) == maxWords {
		clear(lately.known)
	}
	lately.known[word] = word
	return word
}

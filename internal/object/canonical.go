package object

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Canonical is a rendered object in the form in which the API server answers: typed kinds
// write "0.1" CPUs as "100m". An object with a field that its type does not have, as a newer
// Kubernetes may know it, stays as it is.
func Canonical(rendered *unstructured.Unstructured) *unstructured.Unstructured {
	canonical := rendered.DeepCopy()
	if IsSecret(rendered) {
		withData(canonical)
	}
	if typed, err := builtIn.New(rendered.GroupVersionKind()); err == nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(canonical.Object, typed, true); err == nil {
			if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err == nil {
				withoutNulls(fields(content["binaryData"]))
				if canonical.GetKind() == "EndpointSlice" { // whose Go type makes nulls of what a controller is to fill
					maps.DeleteFunc(content, func(_ string, value any) bool { return isEmpty(value) })
				}
				canonical.Object = content
				canonical.SetGroupVersionKind(rendered.GroupVersionKind())
			}
		}
	}
	unstructured.RemoveNestedField(canonical.Object, "status")
	DropServers(canonical)
	if canonical.Object["aggregationRule"] != nil && canonical.GetKind() == "ClusterRole" {
		delete(canonical.Object, "rules") // they are collected from others
	}
	return canonical
}

// DropServers removes the metadata that only the API server writes. kubectl get -o yaml shows it, so that
// people copy it into charts.
func DropServers(o *unstructured.Unstructured) {
	for _, key := range []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(o.Object, "metadata", key)
	}
}

// Patch is the JSON merge patch that turns live into restored. It is empty if nothing differs.
func Patch(live, restored *unstructured.Unstructured) (map[string]any, error) {
	text, err := client.MergeFrom(live).Data(restored)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return patch, nil
}

// Repeats is whether patch asks for nothing that sent has not asked for: what the API server has just
// answered to that, it would answer again. Where it gives fields their defaults, a patch is never empty.
func Repeats(patch, sent map[string]any) bool {
	for key, value := range patch {
		other, ok := sent[key]
		if !ok {
			return false
		}
		nested, isMap := value.(map[string]any)
		if before, wasMap := other.(map[string]any); isMap && wasMap {
			if !Repeats(nested, before) {
				return false
			}
		} else if !reflect.DeepEqual(value, other) {
			return false
		}
	}
	return true
}

// WritesLists is whether a patch has lists. It writes them whole: what somebody has put into one since the object was
// read, as Reloader a variable into a container, would be gone.
func WritesLists(patch any) bool {
	return list(patch) != nil || slices.ContainsFunc(slices.Collect(maps.Values(fields(patch))), WritesLists)
}

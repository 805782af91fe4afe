package object

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finalizers are where an object has them. They are a list of which each element is of somebody else.
var finalizers = mustPointer("/metadata/finalizers")

// withFinalizers returns content with the finalizers that live is to have: without those that the chart had
// set, and no longer does, and with those that it sets. What is being deleted gets none: the API server takes
// no new ones then.
func withFinalizers(content map[string]any, previous, live, desired *unstructured.Unstructured) map[string]any {
	all, wanted := live.GetFinalizers(), desired.GetFinalizers()
	all = slices.DeleteFunc(all, func(one string) bool {
		return slices.Contains(previous.GetFinalizers(), one) && !slices.Contains(wanted, one)
	})
	for _, one := range wanted {
		if live.GetDeletionTimestamp() == nil && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	list := make([]any, len(all))
	for i, one := range all {
		list[i] = one
	}
	return finalizers.set(content, list, len(list) > 0).(map[string]any)
}

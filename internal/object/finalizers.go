package object

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finalizers is where an object has its finalizers. Each element of that list belongs to somebody else.
var finalizers = mustPointer("/metadata/finalizers")

// withFinalizers returns content with the finalizers that live is to have: without those that the chart no
// longer sets, and with those that it sets. An object that is being deleted gets no new ones, because the API
// server accepts none then.
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

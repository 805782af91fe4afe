package object

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Effect is what a patch itself has made of seen, when it was to make it wanted: seen, with the values of the
// answer applied in the fields in which seen and wanted differ. What others, such as Kubernetes' controllers,
// have changed in the meantime is left out.
func Effect(seen, wanted, applied *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: effect(seen.Object, wanted.Object, applied.Object).(map[string]any)}
}

func effect(seen, wanted, applied any) any {
	if equality.Semantic.DeepEqual(seen, wanted) {
		return seen
	}
	a, b, c := list(seen), list(wanted), list(applied)
	if len(a) > 0 && len(a) == len(b) && len(a) == len(c) {
		all := make([]any, len(a))
		for i := range a {
			all[i] = effect(a[i], b[i], c[i])
		}
		return all
	}
	before, isMap := seen.(map[string]any)
	want, isWanted := wanted.(map[string]any)
	after, isApplied := applied.(map[string]any)
	if !isMap || !isWanted || !isApplied {
		return applied
	}
	all := map[string]any{}
	for key := range both(both(before, want), after) {
		if value := effect(before[key], want[key], after[key]); value != nil {
			all[key] = value
		}
	}
	return all
}

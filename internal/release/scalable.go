package release

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// scalable is whether the custom resource leaves the replicas of a workload to whoever scales it: it sets none,
// or as many as the chart does by default. Only a rendering tells which value sets the replicas of which
// workload. So the chart is rendered with no spec and, where that makes no such workload or fails, with the
// spec without the values that equal its number of replicas.
//
// another is whether the workload is to have another number than before. If the custom resource was edited, and
// names the default number somewhere, then somebody asks for it. Else the chart has another default.
func (a *actionClient) scalable(desired *unstructured.Unstructured, another bool) bool {
	if a.chart == nil {
		return false
	}
	wanted, set, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	spec, _ := without(wanted, a.values).(map[string]any)
	if another && a.appliedGeneration() != a.owner.GetGeneration() && !reflect.DeepEqual(spec, a.values) {
		return false
	}
	for _, spec := range []map[string]any{{}, spec} {
		made, err := a.clients.capabilities.Made(a.clients.mapper, a.owner, a.chart, a.Overrides, spec)
		i := slices.IndexFunc(made, func(obj *unstructured.Unstructured) bool {
			return obj.GetKind() == desired.GetKind() && obj.GetName() == desired.GetName()
		})
		if err == nil && i >= 0 {
			usual, usuallySet, _ := unstructured.NestedFieldNoCopy(made[i].Object, "spec", "replicas")
			return set == usuallySet && fmt.Sprint(wanted) == fmt.Sprint(usual)
		}
	}
	return false
}

// without is a copy of value without what equals number, as a number or a text. It has no templates either:
// those of the spec were tried and are known to end, those of another one need not.
func without(number, value any) any {
	switch value := value.(type) {
	case map[string]any:
		rest := map[string]any{}
		for key, inner := range value {
			if inner = without(number, inner); inner != nil && !strings.Contains(key, "{{") {
				rest[key] = inner
			}
		}
		return rest
	case []any:
		rest := []any{}
		for _, inner := range value {
			if inner = without(number, inner); inner != nil {
				rest = append(rest, inner)
			}
		}
		return rest
	}
	if text := fmt.Sprint(value); text == fmt.Sprint(number) || strings.Contains(text, "{{") {
		return nil
	}
	return value
}

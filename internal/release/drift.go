package release

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// repair returns live with everything that the chart wants put back, and whether that
// changed anything. Fields of maps that the chart does not mention stay: they are the API
// server's defaults, an autoscaler's replicas, or labels and annotations of other tools.
// Lists are the chart's: an element that was added to one is removed.
func repair(live, desired *unstructured.Unstructured) (repaired *unstructured.Unstructured, drifted bool) {
	repaired = &unstructured.Unstructured{Object: mergeMap(live.Object, desired.Object)}
	return repaired, !equality.Semantic.DeepEqual(live.Object, repaired.Object)
}

func mergeMap(live, desired map[string]any) map[string]any {
	merged := make(map[string]any, len(live))
	for key, value := range live {
		merged[key] = value
	}
	for key, value := range desired {
		if isEmpty(value) && isEmpty(live[key]) {
			continue // the API server drops empty values: to put them back would never end
		}
		merged[key] = mergeValue(live[key], value)
	}
	return merged
}

func mergeValue(live, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return mergeMap(live, desired)
		}
	case []any:
		if live, ok := live.([]any); ok {
			return mergeList(live, desired)
		}
	}
	return desired
}

// mergeList keeps the order and the elements of desired, each with the defaults of its
// counterpart in live: the element of that name, or of that place where there are no names.
func mergeList(live, desired []any) []any {
	merged := make([]any, len(desired))
	for i, element := range desired {
		merged[i] = mergeValue(counterpart(live, element, i), element)
	}
	return merged
}

func counterpart(live []any, element any, place int) any {
	name, named := nameOf(element)
	if !named {
		if place < len(live) {
			return live[place]
		}
		return nil
	}
	for _, candidate := range live {
		if other, ok := nameOf(candidate); ok && other == name {
			return candidate
		}
	}
	return nil
}

func nameOf(element any) (string, bool) {
	fields, _ := element.(map[string]any)
	name, ok := fields["name"].(string)
	return name, ok
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return false
	}
}

// canonical is the rendered object in the form in which the API server answers, so that
// "0.1" CPUs do not look like a drift from "100m".
func canonical(info *resource.Info) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(kube.AsVersioned(info))
	if err != nil {
		return nil, fmt.Errorf("read the rendered %s: %w", describe(info), err)
	}
	object := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	object.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	return object, nil
}

package release

import (
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// assigned lists, for the kinds whose whole spec is the chart's, the fields that others fill
// in and that an update must not lose. The API server gives every other field its default
// again, so one that somebody added disappears.
var assigned = map[schema.GroupKind][]string{
	{Group: "apps", Kind: "Deployment"}:                     {"replicas"}, // an autoscaler's
	{Group: "apps", Kind: "StatefulSet"}:                    {"replicas"},
	{Group: "apps", Kind: "DaemonSet"}:                      {},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {},
	{Group: "networking.k8s.io", Kind: "Ingress"}:           {"ingressClassName"}, // the default class
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     {},
	{Group: "policy", Kind: "PodDisruptionBudget"}:          {},
	{Kind: "Service"}:                                       {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort", "loadBalancerClass"},
}

// restore returns live with everything put back that the chart wants. Labels and annotations
// that the chart does not mention stay: by convention they belong to everybody. Of kinds not
// listed in assigned, fields that the chart does not mention stay as well, for their
// controllers may have set them.
func restore(live, desired *unstructured.Unstructured) *unstructured.Unstructured {
	live, desired = live.DeepCopy(), desired.DeepCopy()
	restored := &unstructured.Unstructured{Object: mergeMap(live.Object, desired.Object)}
	restored.SetOwnerReferences(live.GetOwnerReferences())
	wanted, hasSpec := desired.Object["spec"].(map[string]any)
	current, _ := live.Object["spec"].(map[string]any)
	kept, known := assigned[live.GroupVersionKind().GroupKind()]
	if !known || !hasSpec {
		return restored
	}
	spec := maps.Clone(wanted)
	for _, field := range kept {
		if value, ok := current[field]; ok && spec[field] == nil {
			spec[field] = value
		}
	}
	if ports, ok := wanted["ports"]; ok { // of a Service: keep the node ports
		spec["ports"] = mergeValue(current["ports"], ports)
	}
	restored.Object["spec"] = spec
	return restored
}

func mergeMap(live, desired map[string]any) map[string]any {
	merged := maps.Clone(live)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range desired {
		if isEmpty(value) && isEmpty(live[key]) {
			continue // the API server drops empty values
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

// mergeList keeps the order and the elements of desired, each with the fields of its
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

// canonical is the rendered object in the form in which the API server answers: typed kinds
// write "0.1" CPUs as "100m".
func canonical(info *resource.Info) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(kube.AsVersioned(info))
	if err != nil {
		return nil, fmt.Errorf("read the rendered %s: %w", describe(info), err)
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	return object, nil
}

// changes lists the paths of the fields in which two objects differ, but for what the API
// server keeps, for people to read.
func changes(before, after map[string]any) []string {
	var paths []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if equality.Semantic.DeepEqual(a, b) {
			return
		}
		if before, after := list(a), list(b); len(before) == len(after) && len(after) > 0 {
			for i := range after {
				walk(fmt.Sprintf("%s[%d]", path, i), before[i], after[i])
			}
			return
		}
		left, leftIsMap := a.(map[string]any)
		right, rightIsMap := b.(map[string]any)
		if !leftIsMap || !rightIsMap {
			paths = append(paths, path)
			return
		}
		keys := maps.Clone(left)
		maps.Copy(keys, right)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			walk(path+"."+key, left[key], right[key])
		}
	}
	for _, key := range []string{"labels", "annotations"} {
		a, _, _ := unstructured.NestedFieldNoCopy(before, "metadata", key)
		b, _, _ := unstructured.NestedFieldNoCopy(after, "metadata", key)
		walk("metadata."+key, a, b)
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if key != "metadata" && key != "status" {
			walk(key, before[key], after[key])
		}
	}
	return paths
}

func list(value any) []any {
	elements, _ := value.([]any)
	return elements
}

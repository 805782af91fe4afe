package object

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Restore, Reset and Anew say what is to become of an object. Here others have written what is 9:
//
//	previous  {a: 1, b: 1, c: 1}              as the chart wanted it when it was last applied, nil if nothing proves that
//	desired   {a: 2, b: 1, d: 2}              as the chart wants it now
//	live      {a: 1, b: 9, c: 9, d: 9, e: 9}  as it is
//	left      [d]                             what is left to others, whatever the chart wants
//
//	Restore   {a: 2, b: 1, d: 9, e: 9}  live as it is to become
//	Reset     {a: 2, b: 1, d: 9}        the same, if the API server refuses that for what others have set
//	Anew      {a: 2, b: 1, d: 9}        a new object in its place
//
// So what the chart wants is put back, and what it drops goes, even where others have changed that. If previous is
// nil, c stays, since it may be theirs. What only others have set, as e, stays where it is
//   - a label, an annotation or a finalizer: by convention they belong to everybody. Reset leaves them, too
//   - of a kind that is not in othersUnlessSet: its controllers may have set it
//   - in othersUnlessSet, even if the chart drops it, but for the chart's own value of what is in notAssigned
//   - in a Secret, also for keys of the chart, if that gives it no value at all, see withFilled
//   - replicas, even if the chart drops them, and even for Reset and Anew: their default of one would hold until
//     an autoscaler has counted. Only 0 goes with the chart, see isStopped

// Restore is live with everything put back that the chart wants, except what is left to others.
func Restore(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	live, desired = live.DeepCopy(), desired.DeepCopy()
	before, kind := knownBefore(previous, live, desired), live.GroupVersionKind().GroupKind()
	if kind == Pod {
		desired.Object = withInjected(before, live.Object, desired.Object).(map[string]any)
	}
	if IsSecret(live) {
		withFilled(before, live, desired)
	}
	content := dropsEmpty(builtIn.Recognizes(desired.GroupVersionKind())).mergeMap(before, live.Object, desired.Object)
	wanted, hasSpec := desired.Object["spec"].(map[string]any)
	if others, known := othersUnlessSet[kind]; known && hasSpec {
		content = withWholeSpec(content, before, live, wanted, others)
	}
	if live.GetKind() == "ServiceAccount" {
		content = withAccountSecrets(content, live.Object, live.GetName())
	}
	content = withFinalizers(content, &unstructured.Unstructured{Object: before}, live, desired)
	restored := &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(content, live.Object)}
	restored.SetOwnerReferences(live.GetOwnerReferences())
	return restored
}

// knownBefore is what is known of previous, in the API version of the others.
func knownBefore(previous, live, desired *unstructured.Unstructured) map[string]any {
	switch {
	case previous == nil || previous.GroupVersionKind().GroupKind() != desired.GroupVersionKind().GroupKind():
		return nil
	case previous.GetAPIVersion() == desired.GetAPIVersion():
		return previous.Object
	}
	before := unconverted(previous.Object, live.Object)
	before["metadata"] = previous.Object["metadata"]
	return before
}

// unconverted is the part of a previous object, in another API version, that live has as well. The rest may
// have another meaning or name in live's version.
func unconverted(previous, live map[string]any) map[string]any {
	same := map[string]any{}
	for key, value := range previous {
		if inner, there := fields(value), fields(live[key]); inner != nil && there != nil {
			same[key] = unconverted(inner, there)
		} else if reflect.DeepEqual(value, live[key]) {
			same[key] = value
		} else if elements := unconvertedList(list(value), list(live[key])); elements != nil {
			same[key] = elements
		}
	}
	return same
}

// unconvertedList is unconverted for lists whose elements correspond, each to one; else nil. The API server may
// have added defaults to elements.
func unconvertedList(previous, live []any) (same []any) {
	if len(previous) != len(live) {
		return nil
	}
	for i, there := range counterparts(live, previous) {
		inner := unconverted(fields(previous[i]), fields(there))
		if len(inner) == 0 {
			return nil
		}
		same = append(same, inner)
	}
	return same
}

// withWholeSpec is content with the spec that the chart wants, and nothing else in it but what belongs to others.
func withWholeSpec(content, before map[string]any, live *unstructured.Unstructured, wanted map[string]any, others []pointer) map[string]any {
	spec, current := maps.Clone(wanted), fields(live.Object["spec"])
	if ports, ok := wanted["ports"]; ok { // of a Service
		spec["ports"] = withNodePorts(list(ports), list(current["ports"]))
	}
	if rules, ok := wanted["rules"]; ok { // of an Ingress
		spec["rules"] = withChallenges(list(rules), list(current["rules"]))
	}
	content["spec"] = spec
	if containers, _, _ := podContainers.in(content); len(list(containers)) > 0 { // of a workload
		there, _, _ := podContainers.in(live.Object)
		content = podContainers.set(content, withReloads(list(containers), list(there)), true).(map[string]any)
	}
	for _, p := range others {
		_, set, _ := p.in(content)
		value, ok, _ := p.in(live.Object)
		was, had, _ := p.in(before)
		dropped := had && reflect.DeepEqual(was, value) && (p.among(notAssigned) || slices.Equal(p, replicas) && isStopped(live))
		if ok && !set && !dropped {
			content = p.set(content, value, true).(map[string]any)
		}
	}
	return content
}

// Reset is Restore for an object that the API server refuses with what others have set in it. What the API server
// assigns, it assigns again. Replicas are never refused, and their default would end pods.
func Reset(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	bare := live.DeepCopy()
	maps.DeleteFunc(bare.Object, func(key string, _ any) bool {
		return !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, key)
	})
	reset := Restore(previous, bare, desired, nil)
	reset.Object = left.andReplicas(previous, live, desired).keep(reset.Object, live.Object)
	return reset
}

// Anew is the object to create in place of live.
func Anew(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(desired.DeepCopy().Object, live.Object)}
}

// StaysHeadless is whether a Service would stay headless though the chart no longer wants that. Of all that a
// chart drops, this is the only field that the API server keeps without an error.
func StaysHeadless(previous, live, desired *unstructured.Unstructured, left Left) bool {
	isHeadless := func(object *unstructured.Unstructured) bool {
		return object != nil && field(object.Object["spec"], "clusterIP") == corev1.ClusterIPNone
	}
	return desired.GroupVersionKind().GroupKind() == service && isHeadless(previous) && isHeadless(live) && !isHeadless(desired) &&
		field(desired.Object["spec"], "type") != string(corev1.ServiceTypeExternalName) && isTheCharts(clusterIP, previous, left)
}

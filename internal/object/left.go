package object

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Left are the fields of an object that are left to others, whatever the chart wants there.
type Left []pointer

// LeftTo returns the fields of live that are left to others:
//   - those that rules ignore
//   - the replicas, once somebody has scaled the object (isScaled): if they were left when it was last applied
//     (wasScaled) and the same number is wanted; else if the custom resource leaves them (scalable, which is told
//     whether another number is wanted than before), unless the chart sets them now and did not before
//   - the size of a claim that somebody has made grow, since it cannot shrink
func LeftTo(previous, live, desired *unstructured.Unstructured, rules Ignored, wasScaled bool, scalable func(_ *unstructured.Unstructured, another bool) bool) Left {
	left := rules.of(desired)
	asked := func(object *unstructured.Unstructured) any { return field(object.Object["spec"], "replicas") }
	same := previous != nil && reflect.DeepEqual(asked(previous), asked(desired))
	if live != nil && isScaled(live, wasScaled) && (wasScaled && same || (previous == nil || same || asked(previous) != nil) && scalable(desired, previous != nil && !same)) {
		left = append(left, replicas)
	}
	if live != nil && desired.GroupVersionKind().GroupKind() == Claim && isGrown(previous, live, desired) {
		left = append(left, storage)
	}
	return left
}

// isScaled is whether the replicas were last set by the scale subresource, or by somebody else after that
// (wasScaled). The operator itself sets those that an upgrade asks for. Scaling to none leaves no owner of the
// field in the managed fields, since it is written as empty; and nobody owns it once they were cleared.
func isScaled(live *unstructured.Unstructured, wasScaled bool) bool {
	isOwned := false
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "status" || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) {
			continue
		}
		if entry.Subresource == "scale" || wasScaled && entry.Manager != Manager {
			return true
		}
		isOwned = true
	}
	return !isOwned && (wasScaled || isStopped(live))
}

// isGrown is whether a claim asks for more than the chart wants, unless the chart itself wanted that before: to
// want less is then a mistake, which the API server reports.
func isGrown(previous, live, desired *unstructured.Unstructured) bool {
	asked := func(object *unstructured.Unstructured) (quantity float64) {
		if object == nil {
			return 0
		}
		value, _, _ := storage.in(object.Object)
		quantity, _ = quantityOf(fmt.Sprint(value)) // else it is zero
		return quantity
	}
	now, wanted, before := asked(live), asked(desired), asked(previous)
	return wanted > 0 && now > wanted && now != before
}

// LeftToAdmission are the fields of live outside its metadata that restored changes but that would be as in live
// if the object was created anew: whatever the chart wants, admission has the last word there.
func LeftToAdmission(live, restored, anew *unstructured.Unstructured) (left Left) {
	for key := range both(live.Object, restored.Object) {
		if key != "metadata" {
			left = append(left, sameAnew(pointer{key}, live.Object[key], restored.Object[key], anew.Object[key])...)
		}
	}
	return left
}

// sameAnew is LeftToAdmission for what is at p in restored.
func sameAnew(p pointer, live, restored, anew any) (left Left) {
	was, isMap := live.(map[string]any)
	wanted, isWanted := restored.(map[string]any)
	elements := list(restored)
	switch {
	case reflect.DeepEqual(live, restored): // whatever others have written there, however deep
	case isMap && isWanted:
		for key := range both(was, wanted) {
			left = append(left, sameAnew(slices.Concat(p, pointer{key}), was[key], wanted[key], field(anew, key))...)
		}
	case len(elements) > 0 && len(elements) == len(list(live)) && fields(elements[0]) != nil:
		for i, element := range elements {
			at := pointer{strconv.Itoa(i), ""} // across translates all but the last
			there, _, _ := at.across(restored, live)[:1].in(live)
			made, _, _ := at.across(restored, anew)[:1].in(anew)
			if fields(there) != nil {
				left = append(left, sameAnew(slices.Concat(p, at[:1]), there, element, made)...)
			}
		}
	case reflect.DeepEqual(live, anew):
		left = Left{p}
	}
	return left
}

// andReplicas adds the replicas, unless the chart sets them, or had stopped the object before.
func (left Left) andReplicas(previous, live, desired *unstructured.Unstructured) Left {
	if _, set, _ := replicas.in(desired.Object); set || desired.Object["spec"] == nil || isStopped(previous) && isStopped(live) {
		return left
	}
	return append(slices.Clone(left), replicas)
}

// keep is content with the left fields as live has them.
func (left Left) keep(content, live map[string]any) map[string]any {
	for _, p := range slices.Backward(left) { // from behind, since removing an element moves those behind it
		value, ok, whole := p.across(content, live).in(live)
		if _, set, _ := p.in(content); whole && (ok || set) {
			content = p.set(content, value, ok).(map[string]any)
		}
	}
	return content
}

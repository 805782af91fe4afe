package object

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Left are the fields of an object that are left to others, whatever the chart wants in them.
type Left []pointer

// LeftTo returns what is left to others in live: what rules ignore, replicas that somebody has set by the scale subresource, as
// autoscalers and kubectl scale do, or had when the object was applied last (wasScaled), where the custom resource does not set them (scalable, which is asked of desired) and
// what the chart wants has not changed, and what a claim asks for where somebody has made it grow: it can't shrink.
func LeftTo(previous, live, desired *unstructured.Unstructured, rules Ignored, wasScaled bool, scalable func(*unstructured.Unstructured) bool) Left {
	left := rules.of(desired)
	count := mustPointer(replicas)
	if live != nil && isScaled(live, wasScaled) && scalable(desired) {
		wanted, _, _ := count.in(desired.Object)
		if previous == nil || reflect.DeepEqual(field(previous.Object["spec"], "replicas"), wanted) {
			left = append(left, count)
		}
	}
	if live != nil && desired.GroupVersionKind().GroupKind() == Claim && isGrown(previous, live, desired) {
		left = append(left, storage)
	}
	return left
}

// AsAnew are the fields of live, but for its metadata, in which it is not as restored, and what the API server would make anew in its place is as live: whatever the chart
// wants, admission has the last word there.
func AsAnew(live, restored, anew *unstructured.Unstructured) (left Left) {
	for key := range both(live.Object, restored.Object) {
		if key != "metadata" {
			left = append(left, asAnew(pointer{key}, live.Object[key], restored.Object[key], anew.Object[key])...)
		}
	}
	return left
}

func asAnew(p pointer, live, restored, anew any) (left Left) {
	inner := func(token string, live, restored, anew any) {
		left = append(left, asAnew(append(slices.Clone(p), token), live, restored, anew)...)
	}
	was, isMap := live.(map[string]any)
	wanted, isWanted := restored.(map[string]any)
	elements := list(restored)
	switch {
	case isMap && isWanted:
		for key := range both(was, wanted) {
			inner(key, was[key], wanted[key], field(anew, key))
		}
	case len(elements) > 0 && len(elements) == len(list(live)) && fields(elements[0]) != nil:
		for i, element := range elements {
			p := pointer{strconv.Itoa(i), ""}
			there, _, _ := p.across(restored, live)[:1].in(live)
			made, _, _ := p.across(restored, anew)[:1].in(anew)
			if fields(there) != nil {
				inner(p[0], there, element, made)
			}
		}
	case !reflect.DeepEqual(live, restored) && reflect.DeepEqual(live, anew):
		left = Left{p}
	}
	return left
}

// isGrown is whether a claim asks for more than the chart wants, and not because the chart wanted that before: to want less then is a mistake, of which the API server tells.
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

// isScaled is whether the replicas were last set by the scale subresource, or by somebody else since they were (wasScaled). The operator has set those that an upgrade asked for. Who sets none by
// that subresource owns no field, as of what is written empty; and nor does anybody else then, or once somebody has cleared the managed fields.
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
	return !isOwned && (wasScaled || isStop(mustPointer(replicas), field(live.Object["spec"], "replicas")))
}

// keep returns content with what of it is left to others as live has it.
func (left Left) keep(content, live map[string]any) map[string]any {
	for _, p := range slices.Backward(left) { // or those behind an element that goes would be others by then
		value, ok, whole := p.across(content, live).in(live)
		if _, set, _ := p.in(content); whole && (ok || set) {
			content = p.set(content, value, ok).(map[string]any)
		}
	}
	return content
}

// andReplicas has the replicas among what is left to others, unless the chart sets them, or has stopped the object before.
func (left Left) andReplicas(previous, live, desired *unstructured.Unstructured) Left {
	count := mustPointer(replicas)
	stops := func(object *unstructured.Unstructured) bool {
		return object != nil && isStop(count, field(object.Object["spec"], "replicas"))
	}
	if _, set, _ := count.in(desired.Object); set || desired.Object["spec"] == nil || stops(previous) && stops(live) {
		return left
	}
	return append(slices.Clone(left), count)
}

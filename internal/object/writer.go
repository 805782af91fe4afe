package object

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Writer is the field manager that was the last to write a field of live that is not as wanted. It is empty
// if there is none: whoever removes a field leaves no trace.
func Writer(live, wanted *unstructured.Unstructured) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range live.GetManagedFields() {
		fields := managed(entry)
		if fields == nil {
			continue
		}
		later := last.Time == nil || !entry.Time.Before(last.Time)
		// An entry of another manager takes precedence over the operator's own, whatever their times: the
		// operator still owns a list in which somebody has changed an element, and times have whole seconds.
		// If only the operator's is left, another installation of it was the writer.
		if ours := entry.Manager == Manager; last.Time != nil && ours != (last.Manager == Manager) {
			later = !ours
		}
		if later && differs(fields, live.Object, wanted.Object) {
			last = entry
		}
	}
	return last.Manager
}

// Written is the part of made that the operator was the last to write, as the managed fields of live say; nil if that is
// nothing. It stands in for what was applied, where nothing proves that. Of what is in made several times, the last counts.
func Written(live *unstructured.Unstructured, made []*unstructured.Unstructured) *unstructured.Unstructured {
	all := map[string]any{}
	for _, one := range made {
		all = dropsEmpty(false).mergeMap(nil, all, one.Object)
	}
	for _, entry := range live.GetManagedFields() {
		if owned := managed(entry); entry.Manager == Manager && len(owned) > 0 {
			if written, _ := part(owned, all).(map[string]any); written != nil {
				written["apiVersion"], written["kind"] = all["apiVersion"], all["kind"]
				return &unstructured.Unstructured{Object: written}
			}
		}
	}
	return nil
}

// part is what a manager owns of a value, nil if that is nothing. A list that is too long counts as owned as a
// whole.
func part(owned map[string]any, of any) any {
	if len(owned) == 0 {
		return of
	}
	switch of := of.(type) {
	case map[string]any:
		mine := map[string]any{}
		for key, value := range of {
			if inner, is := owned["f:"+key].(map[string]any); is {
				if value = part(inner, value); value != nil {
					mine[key] = value
				}
			}
		}
		if len(mine) > 0 {
			return mine
		}
	case []any:
		if max(len(of), len(owned)) > maxMoved {
			return of
		}
		var mine []any
		for _, one := range of {
			for key, inner := range owned {
				kind, name, _ := strings.Cut(key, ":")
				inner, is := inner.(map[string]any)
				if is && element([]any{one}, kind, name) != nil {
					mine = append(mine, part(inner, one))
				}
			}
		}
		if len(mine) > 0 {
			return mine
		}
	}
	return nil
}

// managed are the fields of an entry of the managed fields. They are nil if that is one of the status, or not readable.
func managed(entry metav1.ManagedFieldsEntry) (fields map[string]any) {
	if entry.Subresource == "status" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// maxElements bounds the lists that are compared element by element: each element is searched for in the
// whole list, and somebody may have put ten thousands into it.
const maxElements = 1000

// differs is whether one of the fields that a manager owns has different values in a and b. A list that is
// too long counts as owned as a whole.
func differs(owned map[string]any, a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return false
	}
	if max(len(list(a)), len(list(b))) > maxElements {
		return true
	}
	for key, inner := range owned {
		kind, name, _ := strings.Cut(key, ":")
		var left, right any
		switch kind {
		case "f":
			left, right = field(a, name), field(b, name)
		case "k", "v":
			left, right = element(a, kind, name), element(b, kind, name)
		default: // ".": the object itself, of which a part is owned
			continue
		}
		if inner, _ := inner.(map[string]any); len(inner) > 0 && left != nil && right != nil {
			if differs(inner, left, right) {
				return true
			}
		} else if !reflect.DeepEqual(left, right) {
			return true
		}
	}
	return false
}

// element is the element of a list that has the key fields ("k"), or is the value ("v"), of a managed field.
func element(in any, kind, text string) any {
	var wanted any
	if json.Unmarshal([]byte(text), &wanted) != nil {
		return nil
	}
	elements := list(in)
	at := slices.IndexFunc(elements, func(element any) bool {
		if kind == "v" {
			return equal(element, wanted)
		}
		keys, isKeys := wanted.(map[string]any)
		for name, value := range keys {
			if !equal(field(element, name), value) {
				return false
			}
		}
		return isKeys
	})
	if at < 0 {
		return nil
	}
	return elements[at]
}

// equal compares a scalar of an object, in which whole numbers are integers, with one of plain JSON.
func equal(scalar, plain any) bool {
	if number, ok := plain.(float64); ok {
		whole, isWhole := scalar.(int64)
		return isWhole && float64(whole) == number || scalar == plain
	}
	return reflect.DeepEqual(scalar, plain)
}

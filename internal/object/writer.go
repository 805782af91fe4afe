package object

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Writer is the field manager that was the last to write something in live that is not as wanted. It is empty
// where nobody has: who takes a field away leaves no trace.
func Writer(live, wanted *unstructured.Unstructured) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range live.GetManagedFields() {
		var fields map[string]any
		if entry.Subresource == "status" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		later := last.Time == nil || !entry.Time.Before(last.Time)
		// What the operator wrote says nothing, whenever it was, where somebody else has: of a list whose
		// element was changed it still owns the list, and times are whole seconds. It is named for another
		// installation of it.
		if ours := entry.Manager == Manager; last.Time != nil && ours != (last.Manager == Manager) {
			later = !ours
		}
		if later && differs(fields, live.Object, wanted.Object) {
			last = entry
		}
	}
	return last.Manager
}

// maxElements bounds the lists whose elements are told apart: each is looked for among all, and somebody may
// have put ten thousands into one.
const maxElements = 1000

// differs is whether one of the fields that a manager owns has another value in a than in b. Of a list that is
// too long, all counts as owned.
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
		default: // the whole, as a part of it is owned
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

// element of a list that has a key's fields, or is a value.
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

// equal compares a scalar of an object, whose whole numbers are integers, with one of plain JSON.
func equal(scalar, plain any) bool {
	if number, ok := plain.(float64); ok {
		whole, isWhole := scalar.(int64)
		return isWhole && float64(whole) == number || scalar == plain
	}
	return reflect.DeepEqual(scalar, plain)
}

package object

import (
	"reflect"
	"testing"
)

func TestChanges(t *testing.T) {
	before := parse(t, "{metadata: {labels: {a: '1'}, resourceVersion: '1'}, spec: {a: 1, deep: {b: 1, c: 1}, list: [{n: x, v: 1}], other: [1]}, status: {x: 1}}").Object
	after := parse(t, "{metadata: {labels: {a: '2'}, resourceVersion: '2'}, spec: {a: 1, deep: {b: 2, d: 1}, list: [{n: x, v: 2}], other: [1, 2]}, status: {x: 2}}").Object
	want := []string{"metadata.labels.a", "spec.deep.b", "spec.deep.c", "spec.deep.d", "spec.list[0].v", "spec.other"}
	if got := Changes(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

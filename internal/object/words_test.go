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

// It says what may be done about it, as far as that is anything.
func TestInTheWay(t *testing.T) {
	owner := parse(t, "{apiVersion: a.b/v1, kind: Welcome, metadata: {name: hello, uid: '2'}}")
	of := func(name string) string {
		return ", ownerReferences: [{apiVersion: a.b/v1, kind: Welcome, name: " + name + ", uid: '1', controller: true}]"
	}
	const going = ", deletionTimestamp: '2026-01-01T00:00:00Z'"
	for metadata, want := range map[string]string{
		"":          ": delete or rename one of the two",
		of("other"): `, but by Welcome "other": delete or rename one of the two`,
		of("hello"): ": delete or rename one of the two", // which nobody could tell from this one
		going:       ": it is being deleted",
		", ownerReferences: [{apiVersion: a.b/v1, kind: Welcome, name: hello, uid: '2', controller: true}]" + going: " any longer: it is being deleted",
		of("other") + going + ", finalizers: [a/b, c/d]":                                                            `, but by Welcome "other": it is being deleted, and these finalizers keep it: a/b, c/d`,
	} {
		err := InTheWay("Service", parse(t, "{metadata: {name: x, namespace: test"+metadata+"}}"), owner)
		if want = `Service "x" in namespace "test" exists and is not controlled by this custom resource` + want; err.Error() != want || !IsInTheWay(err) {
			t.Errorf("it says %q, want %q", err, want)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChanges(t *testing.T) {
	object := func(name string, replicas int64) map[string]any {
		return map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas}}
	}
	before := &revision{Chart: "welcome", Version: "0.1.0", values: map[string]any{"name": "a", "service": map[string]any{"port": int64(80)}},
		objects: map[string]map[string]any{"Deployment \"a\"": object("a", 1), "Service \"a\"": {"kind": "Service"}}}
	after := &revision{Chart: "welcome", Version: "0.2.0", values: map[string]any{"name": "b", "service": map[string]any{}},
		objects: map[string]map[string]any{"Deployment \"a\"": object("a", 2), "Job \"a\"": {"kind": "Job"}}}
	objects := []string{`Deployment "a": spec.replicas`, `Job "a": new`, `Service "a": gone`}
	for discreet, want := range map[bool][]string{
		false: {"chart: welcome 0.1.0 → welcome 0.2.0", `values.name: "a" → "b"`, "values.service: unset → {}", "values.service.port: 80 → unset"},
		true:  {"chart: welcome 0.1.0 → welcome 0.2.0", "values.name: changed", "values.service: changed", "values.service.port: changed"},
	} {
		if got := changes(before, after, discreet); !slices.Equal(got, append(want, objects...)) {
			t.Errorf("got %q", got)
		}
	}
	if got := changes(after, after, false); len(got) > 0 {
		t.Errorf("against itself: %q", got)
	}
}

// What a revision has changed is not known if the one before cannot be read: that is not nothing.
func TestHistoryAfterAnUnreadableRecord(t *testing.T) {
	readable := map[string]map[string]any{}
	revisions := []*revision{{Revision: 3, objects: readable}, {Revision: 2}, {Revision: 1, objects: readable}}
	compare(revisions, false)
	if want := []string{"unknown, for revision 2 cannot be read"}; !slices.Equal(revisions[0].Changes, want) {
		t.Errorf("it says %q", revisions[0].Changes)
	}
	if len(revisions[1].Changes) > 0 || !revisions[2].First { // it says itself that it cannot be read
		t.Errorf("%+v, %+v", revisions[1], revisions[2])
	}
}

// There may be no records: somebody has deleted them, or another finalizer keeps a custom resource whose release is
// uninstalled.
func TestHistoryWithoutRecords(t *testing.T) {
	var out strings.Builder
	if showHistory(&out, nil, time.Now()); out.String() != "No revision is recorded any more.\n" {
		t.Errorf("it says %q", out.String())
	}
}

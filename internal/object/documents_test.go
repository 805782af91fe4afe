package object

import (
	"slices"
	"strings"
	"testing"
)

func TestDocuments(t *testing.T) {
	const one, two = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}", "{metadata: {name: two}}"
	for text, want := range map[string][]string{
		one + "\n---\n# nothing\n---\nnull\n---\n{}\n":                                              {"v1 ConfigMap one"},
		"{apiVersion: v1, kind: List, items: [" + one + "]}":                                        {"v1 ConfigMap one"},
		"{apiVersion: v1, kind: List, items: []}":                                                   nil,
		"{apiVersion: v1, kind: List, items: null}\n---\n" + one:                                    {"v1 ConfigMap one"},
		"{apiVersion: rbac/v1, kind: RoleList, items: [" + two + ", " + one + "]}":                  {"rbac/v1 Role two", "v1 ConfigMap one"},
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [" + one + "]}]}": {"v1 List "}, // as Helm has it, which then can't read it
	} {
		objects, err := Documents(strings.NewReader(text))
		var got []string
		for _, object := range objects {
			got = append(got, object.GetAPIVersion()+" "+object.GetKind()+" "+object.GetName())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %q, not %q: %v", text, got, want, err)
		}
	}
	for _, text := range []string{"hello", "{apiVersion: v1, kind: List, items: 80}", "{apiVersion: v1, kind: List, items: [80]}", "{apiVersion: v1, kind: List, items: [null]}"} {
		if objects, err := Documents(strings.NewReader(text)); err == nil {
			t.Errorf("%s has %v", text, objects)
		}
	}
}

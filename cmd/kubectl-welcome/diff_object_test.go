package main

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/release"
)

func objectOf(kind, name string, content map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
	obj.SetNamespace("team-a")
	obj.SetName(name)
	return obj
}

// Of a Secret, the keys that change are shown, and no values.
func TestChangeOfASecret(t *testing.T) {
	secret := func(values map[string]any) *unstructured.Unstructured {
		return objectOf("Secret", "hello", map[string]any{"data": values})
	}
	c := newChange(objectOf("Welcome", "hello", map[string]any{}), guard.Outlook{
		Live: secret(map[string]any{"same": "c2FtZQ==", "changes": "YmVmb3Jl", "goes": "Z29lcw=="}), After: secret(map[string]any{"same": "c2FtZQ==", "changes": "YWZ0ZXI=", "comes": "Y29tZXM="}),
	}, &release.Preview{}, nil)
	for _, line := range []string{"-  changes: (not shown) before", "+  changes: (not shown) after", "-  goes: (not shown)", "+  comes: (not shown)", "   same: (not shown)"} {
		if !strings.Contains(c.text, line+"\n") {
			t.Errorf("it lacks %q:\n%s", line, c.text)
		}
	}
	if strings.Contains(c.text, "==") || strings.Contains(c.text, "YmVm") {
		t.Errorf("it shows a value:\n%s", c.text)
	}
}

// What a chart makes by chance is hidden where it was before, too, though lines and elements have come above it, and
// what is there stays visible.
func TestMaskOfWhatHasMoved(t *testing.T) {
	content := func(text string, env ...any) map[string]any { return map[string]any{"text": text, "env": env} }
	variable := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	before := content("a: 1\npassword: old\nb: 2", variable("A", "1"), variable("PASSWORD", "old"))
	after := content("a: 1\nmore: 3\npassword: new\nb: 2", variable("MORE", "3"), variable("A", "1"), variable("PASSWORD", "new"))
	mask(before, after, []string{"text", "2"}, false)
	mask(before, after, []string{"env", "2", "value"}, false)
	if want := content("a: 1\n(not shown)\nb: 2", variable("A", "1"), "(not shown)"); !reflect.DeepEqual(before, want) {
		t.Errorf("before: %v", before)
	}
	if want := content("a: 1\nmore: 3\n(not shown)\nb: 2", variable("MORE", "3"), variable("A", "1"), variable("PASSWORD", "(not shown)")); !reflect.DeepEqual(after, want) {
		t.Errorf("after: %v", after)
	}
}

// Changes are alike if they differ only in the names of their custom resources.
func TestAlike(t *testing.T) {
	change := func(name, before, after string) string {
		config := func(text string) *unstructured.Unstructured {
			return objectOf("ConfigMap", name+"-config", map[string]any{"data": map[string]any{"text": text}})
		}
		return newChange(objectOf("Welcome", name, map[string]any{}), guard.Outlook{Live: config(before), After: config(after)}, &release.Preview{}, nil).alike
	}
	one := change("a", "of a", "for a.team-a.svc")
	if other := change("bc", "of bc", "for bc.team-a.svc"); other != one {
		t.Errorf("two that are alike differ:\n%s\n%s", one, other)
	}
	for _, other := range []string{change("bc", "of bc", "for abc.team-a.svc"), change("bc", "of a", "for bc.team-a.svc")} {
		if other == one {
			t.Errorf("two that differ are alike:\n%s", other)
		}
	}
}

// A namespace that begins with the name of its custom resource is still taken as one word, and the other way round.
func TestPlainly(t *testing.T) {
	for _, c := range []struct{ name, namespace, want string }{
		{"hello", "hello-prod", "{name}-config of {name} in {namespace}"},
		{"hello-prod", "hello", "{name}-config of {name} in {namespace}"},
	} {
		owner := &unstructured.Unstructured{}
		owner.SetName(c.name)
		owner.SetNamespace(c.namespace)
		for range 20 { // the result does not depend on the order of a map
			if got := plainly(owner, c.name+"-config of "+c.name+" in "+c.namespace); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
		}
	}
}

// Of a new object, only the fields that were sent are shown, with the API server's values.
func TestShared(t *testing.T) {
	got := text(shared(map[string]any{"asked": []any{map[string]any{"cpu": "100m", "default": true}}, "default": 1}, map[string]any{"asked": []any{map[string]any{"cpu": "0.1"}}, "dropped": ""}).(map[string]any))
	if want := "asked:\n- cpu: 100m\n"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A value is found in a text, plain and in base64. Values that are too short are not looked for.
func TestHider(t *testing.T) {
	if got, want := (hider{"sesame", "a"}).hide("a sesame, c2VzYW1l"), "a (not shown), (not shown)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// Control characters are shown escaped, so that a reviewer sees them and everything after them.
func TestChangeWithControlCharacters(t *testing.T) {
	note := func(text string) *unstructured.Unstructured {
		return objectOf("ConfigMap", "hello", map[string]any{"data": map[string]any{"note": text, "image": text[:1]}})
	}
	c := newChange(objectOf("Welcome", "hello", map[string]any{}), guard.Outlook{Live: note("a"), After: note("b\u009b2J\u007f\x1b[31m\u202ec")}, &release.Preview{}, nil)
	for _, line := range []string{"-  note: a", "-  image: a", "+  image: b", `+  note: "b\x9B2J\x7F\e[31m\u202ec"`} {
		if !strings.Contains(c.text, line+"\n") {
			t.Errorf("it lacks %q:\n%s", line, c.text)
		}
	}
}

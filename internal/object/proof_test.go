package object

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The fingerprint of a Secret tells a change of it, and nothing without the key.
func TestSeal(t *testing.T) {
	rules, err := NewIgnored([]IgnoreRule{{Paths: []string{"/data/b"}}})
	if err != nil {
		t.Fatal(err)
	}
	key, other := NewKey(), NewKey()
	if len(key) != KeyLength || key == other {
		t.Errorf("the keys are %q and %q", key, other)
	}
	made := secretOf(map[string]any{"a": "YQ==", "b": "Yg=="})
	made.SetOwnerReferences(nil)
	Adopt(made, greeting())
	child := ChildOf(made, made, nil, rules, key)
	plain := Fingerprint(made, rules)
	for i := 0; i+markLength <= len(plain); i++ {
		if strings.Contains(child.Fingerprint, plain[i:i+markLength]) {
			t.Errorf("%s has %s of %s", child.Fingerprint, plain[i:i+markLength], plain)
		}
	}
	cached := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		live := made.DeepCopy()
		change(live)
		if _, err := (IgnoredByKind{greeting().GroupVersionKind().GroupKind(): rules}).Slim(live); err != nil {
			t.Fatal(err)
		}
		return live
	}
	same := cached(func(*unstructured.Unstructured) {})
	if !child.Intact(same, greeting(), key) || child.Intact(same, greeting(), other) || child.Intact(same, greeting(), Plain) {
		t.Error("it is not intact, or with another key")
	}
	if strings.Contains(fmt.Sprint(same.Object), "YQ==") {
		t.Errorf("the cache has %v", same.Object)
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"a value":       func(o *unstructured.Unstructured) { o.Object["data"].(map[string]any)["a"] = "Yw==" },
		"another value": func(o *unstructured.Unstructured) { o.Object["data"].(map[string]any)["b"] = "Yw==" },
		"an annotation": func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": "c"}) },
	} {
		if child.Intact(cached(change), greeting(), key) {
			t.Errorf("%s was changed, and it is intact", name)
		}
	}
	if !child.Intact(cached(func(o *unstructured.Unstructured) { labels := o.GetLabels(); labels["c"] = "d"; o.SetLabels(labels) }), greeting(), key) {
		t.Error("somebody's label is a drift")
	}
}

// A proof holds for its text, with its key; a plain one holds beside a key.
func TestProves(t *testing.T) {
	key := NewKey()
	for name, c := range map[string]struct {
		key, by Key
		text    string
		holds   bool
	}{
		"the same":            {key, key, "a", true},
		"plain":               {Plain, Plain, "a", true},
		"made before the key": {key, Plain, "a", true},
		"another text":        {key, key, "b", false},
		"another text, plain": {key, Plain, "b", false},
		"another key":         {NewKey(), key, "a", false},
		"without the key":     {Plain, key, "a", false},
	} {
		if c.key.Proves(c.by.Proof("a"), c.text) != c.holds {
			t.Errorf("%s: not %t", name, c.holds)
		}
	}
	if key.Proves("", "") || Sealed(Plain.Proof("a")) || !Sealed(key.Proof("a")) {
		t.Error("nothing proves something, or a proof does not say how it was made")
	}
}

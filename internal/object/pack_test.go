package object

import (
	"math"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Nothing is lost, and nothing can pass for what was packed.
func TestPack(t *testing.T) {
	fresh := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": map[string]any{"name": "hello", "generation": int64(2)},
			"spec":   map[string]any{"number": int64(math.MaxInt64), "ratio": 0.1, "large": 1e300, "text": "<ä>&\u2028", "list": []any{nil, true, map[string]any{}}},
			"packed": `{"status": {"operator": "somebody"}}`,
		}}
	}
	cached, whole := fresh(), fresh()
	for range 2 {
		if _, err := Pack(cached); err != nil {
			t.Fatal(err)
		}
	}
	if got := cached.Object; len(got) != 4 || !reflect.DeepEqual(got["metadata"], whole.Object["metadata"]) || cached.GroupVersionKind() != whole.GroupVersionKind() {
		t.Errorf("the cache finds it by %v", got)
	}
	if got := Unpack(cached); !reflect.DeepEqual(got, whole) {
		t.Errorf("it is read as %v", got)
	}
	if got := Unpack(Unpack(&unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}})); len(got.Object) != 1 {
		t.Errorf("one that is whole is read as %v", got)
	}
}

// Whoever writes the values of a custom resource has nobody look for a field that it does not have.
func TestMayHave(t *testing.T) {
	for _, c := range []struct {
		status any
		want   bool
	}{
		{map[string]any{"challenger": "other/lease"}, true},
		{map[string]any{"operator": `"challenger":`, `\"challenger\"`: "challenger"}, false},
		{nil, false},
	} {
		whole := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"challenger": ""}, "status": c.status}}
		if !MayHave(whole, "challenger") {
			t.Errorf("%v: not asked of one that is not packed", c.status)
		}
		if _, err := Pack(whole); err != nil {
			t.Fatal(err)
		}
		if got := MayHave(whole, "challenger"); got != c.want {
			t.Errorf("%v: got %v", c.status, got)
		}
	}
}

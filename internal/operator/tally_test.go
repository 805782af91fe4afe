package operator

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestTally(t *testing.T) {
	tally, err := newTally(fixedInformer{}, func(object *unstructured.Unstructured) string { return object.GetResourceVersion() })
	if err != nil {
		t.Fatal(err)
	}
	object := func(name, version string) *unstructured.Unstructured {
		o := thing("a", name, "True")
		o.SetResourceVersion(version)
		return &o
	}
	expect := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		tally.forEach(func(name types.NamespacedName, version string) { got[name.Name] = version })
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	tally.OnAdd(object("one", "1"), true)
	tally.OnAdd(object("two", "2"), false)
	tally.OnUpdate(object("one", "1"), object("one", "3"))
	expect(map[string]string{"one": "3", "two": "2"})
	tally.OnDelete(object("one", "4"))
	expect(map[string]string{"two": "2"})
	tally.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a/two", Obj: object("two", "2")}) // it went while the watch was down
	expect(map[string]string{})
}

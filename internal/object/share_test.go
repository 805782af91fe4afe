package object

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What objects have in common is in memory once; what one of them has stays there no longer than it, however many there are.
func TestShare(t *testing.T) {
	read := func(number int) map[string]any {
		fresh := func(text string) string { return strings.Clone(text) }
		object := &unstructured.Unstructured{Object: map[string]any{
			fresh("kind"): fresh("Welcome"), fresh("metadata"): map[string]any{fresh("name"): fmt.Sprintf("welcome-%d", number)},
			fresh("items"): []any{fresh("item"), int64(1)}, fresh("bulk"): strings.Repeat("a", maxWord+1),
		}}
		if _, err := Share(object); err != nil {
			t.Fatal(err)
		}
		return object.Object
	}
	isOne := func(a, b any) bool { return unsafe.StringData(a.(string)) == unsafe.StringData(b.(string)) }
	first, second := read(1), read(2)
	if !isOne(first["kind"], second["kind"]) || !isOne(first["items"].([]any)[0], second["items"].([]any)[0]) {
		t.Error("what both have is there twice")
	}
	if isOne(first["bulk"], second["bulk"]) {
		t.Error("a bulk is held beyond its object")
	}
	if second["metadata"].(map[string]any)["name"] != "welcome-2" || second["items"].([]any)[1] != int64(1) {
		t.Errorf("it is another object by now: %v", second)
	}
	for number := range 2 * maxWords {
		read(number)
	}
	if held := len(lately.known); held > maxWords {
		t.Errorf("%d strings are held for all objects", held)
	}
}

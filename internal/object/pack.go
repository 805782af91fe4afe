package object

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// packed is the field of an object in the cache that has as JSON all but its apiVersion, kind and metadata. It
// is a json.Number, which no object is decoded to: whatever the cluster has in a field of that name is packed
// like all others.
const packed = "packed"

// Pack is a transform of the cache: it leaves of an object the metadata, by which it is found, but for the
// managed fields, which nothing reads, and has the rest as JSON. That takes less memory, and the garbage
// collector need not go through it, which took more than half of all CPU time with 50,000 custom resources. A
// Get that makes a copy reads it whole; whatever else the cache tells, by a list, an event or a Get without a
// copy, has to be unpacked for more than the metadata. One that is packed stays as it is: what is listed at
// first is transformed twice (watchList in tools/cache/reflector.go of client-go 0.37).
func Pack(object *unstructured.Unstructured) (any, error) {
	if _, isPacked := object.Object[packed].(json.Number); isPacked {
		return object, nil
	}
	rest, found := map[string]any{}, map[string]any{}
	for key, value := range object.Object {
		switch key {
		case "apiVersion", "kind", "metadata":
			found[key] = value
		default:
			rest[key] = value
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // which makes six bytes of one
	if err := encoder.Encode(rest); err != nil {
		return nil, err // cannot happen for what was JSON before
	}
	found[packed] = json.Number(text.String())
	object.Object = found
	return Share(object)
}

// Unpack returns an object of the cache as it was packed. Its metadata are those of the cache, and not to be changed.
func Unpack(object *unstructured.Unstructured) *unstructured.Unstructured {
	text, isPacked := object.Object[packed].(json.Number)
	if !isPacked {
		return object
	}
	whole := map[string]any{}
	_ = utiljson.Unmarshal([]byte(text), &whole) // it is Pack's
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		whole[key] = object.Object[key]
	}
	return &unstructured.Unstructured{Object: whole}
}

// SameStatus is whether two objects of the cache have the same status.
func SameStatus(a, b *unstructured.Unstructured) bool {
	if text, isPacked := a.Object[packed].(json.Number); isPacked && text == b.Object[packed] {
		return true
	}
	return reflect.DeepEqual(Unpack(a).Object["status"], Unpack(b).Object["status"])
}

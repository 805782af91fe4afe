package object

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// packed is the field of a cached object that holds everything except apiVersion, kind and metadata, as JSON.
// It is a json.Number, a type that decoding an object never yields: if an object of the cluster has a field
// of that name, it is packed like all others.
const packed = "packed"

// Pack is a transform of the cache. It keeps the metadata, by which an object is found, without the managed
// fields, which nothing reads; the rest becomes JSON text. That takes less memory, and the garbage collector
// need not go through it, which took more than half of all CPU time with 50,000 custom resources.
//
// A Get that makes a copy returns the whole object. What the cache returns in other ways, by a list, an event
// or a Get without a copy, has to be unpacked if more than the metadata is read. A packed object is left as
// it is, because what is listed first is transformed twice (watchList in tools/cache/reflector.go of
// client-go 0.37).
func Pack(object *unstructured.Unstructured) (any, error) {
	if IsPacked(object) {
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
	encoder.SetEscapeHTML(false) // it would make six bytes of one
	if err := encoder.Encode(rest); err != nil {
		return nil, err // cannot happen for decoded JSON
	}
	found[packed] = json.Number(text.String())
	object.Object = found
	return Share(object)
}

// IsPacked is whether an object is as Pack leaves it.
func IsPacked(object *unstructured.Unstructured) bool {
	_, isPacked := object.Object[packed].(json.Number)
	return isPacked
}

// Unpack returns a cached object as it was before Pack. Its metadata is shared with the cache, and must not
// be changed.
func Unpack(object *unstructured.Unstructured) *unstructured.Unstructured {
	text, isPacked := object.Object[packed].(json.Number)
	if !isPacked {
		return object
	}
	whole := map[string]any{}
	_ = utiljson.Unmarshal([]byte(text), &whole) // the text is Pack's
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		whole[key] = object.Object[key]
	}
	return &unstructured.Unstructured{Object: whole}
}

// MayHave is whether a cached object has a field of that name anywhere but in its metadata. It takes a hundredth
// of the time of Unpack.
func MayHave(object *unstructured.Unstructured, field string) bool {
	text, isPacked := object.Object[packed].(json.Number)
	return !isPacked || strings.Contains(string(text), `"`+field+`":`) // a text has no quote without a backslash
}

// SameStatus is whether two objects of the cache have the same status.
func SameStatus(a, b *unstructured.Unstructured) bool {
	if text, isPacked := a.Object[packed].(json.Number); isPacked && text == b.Object[packed] {
		return true
	}
	return reflect.DeepEqual(Unpack(a).Object["status"], Unpack(b).Object["status"])
}

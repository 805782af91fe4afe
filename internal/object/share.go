package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Share is a transform of the cache. It drops the managed fields, the larger part of a small object, which
// nothing reads, and keeps strings that many objects have, such as field names, in memory only once.
func Share(object any) (any, error) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
		object.Object = share(object.Object).(map[string]any)
	}
	return object, nil
}

func share(value any) any {
	switch content := value.(type) {
	case map[string]any:
		shared := make(map[string]any, len(content))
		for key, element := range content {
			shared[Common(key)] = share(element)
		}
		return shared
	case []any:
		for i, element := range content {
			content[i] = share(element)
		}
	case string:
		return lately.common(content, value)
	}
	return value
}

// vocabulary holds recent strings of all objects, as the interface values that they are in a map: each
// conversion would take as much memory again.
type vocabulary struct {
	sync.Mutex
	known map[string]any
}

const (
	maxWords = 2048
	// maxWord bounds the strings that are shared, in bytes: an author's bulk must not stay beyond its object.
	maxWord = 256
)

var lately = vocabulary{known: make(map[string]any, maxWords)}

// common is a value equal to word: one that is in memory already, if many objects have it. A full vocabulary
// begins anew: what all objects have is back soon, and what only one has does not stay. With package unique,
// each string would cost more than its own size.
func (v *vocabulary) common(word string, value any) any {
	if len(word) > maxWord {
		return value
	}
	v.Lock()
	defer v.Unlock()
	if known, ok := v.known[word]; ok {
		return known
	}
	if len(v.known) == maxWords {
		clear(v.known)
	}
	v.known[word] = value
	return value
}

// Common is a string equal to word: one that is in memory already, if many objects have it.
func Common(word string) string { return lately.common(word, word).(string) }

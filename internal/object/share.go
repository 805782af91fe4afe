package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Share is a transform of the cache that drops the managed fields, which are the larger part of a small object, and which nothing reads. The strings that many
// objects have, field names above all, are then in memory only once.
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

// vocabulary holds strings that came a moment ago, of all objects, as the values that they are in a map: as such, each takes as much again.
type vocabulary struct {
	sync.Mutex
	known map[string]any
}

const (
	maxWords = 2048
	// maxWord bounds, in bytes, what of somebody's bulk is held beyond its object.
	maxWord = 256
)

var lately = vocabulary{known: make(map[string]any, maxWords)}

// common is a value that equals word, which value is: one that is in memory already, if many objects have it. The vocabulary begins anew when it is full: what all
// objects have is back with the next one, and what one of them has does not stay, as it would with package unique, where each costs more than the string.
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

// Common is a string that equals word: one that is in memory already, if many objects have it.
func Common(word string) string { return lately.common(word, word).(string) }

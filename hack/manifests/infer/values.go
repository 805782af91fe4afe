package infer

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Put sets what is at a path, in which [] stands for every element of a list. It reports whether there is such a place.
func Put(in any, path []string, value any) bool {
	switch in := in.(type) {
	case map[string]any:
		if len(path) == 1 {
			in[path[0]] = runtime.DeepCopyJSONValue(value)
			return true
		}
		return Put(in[path[0]], path[1:], value)
	case []any:
		if path[0] != "[]" { // in a path that people have written
			return false
		}
		found := false
		for n := range in {
			if len(path) == 1 {
				in[n], found = runtime.DeepCopyJSONValue(value), true
			} else if Put(in[n], path[1:], value) {
				found = true
			}
		}
		return found
	}
	return false
}

// united has what two maps have, in maps and lists of theirs, too. An empty value counts where the other map has none.
func united(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	for key, value := range b {
		switch before := all[key].(type) {
		case map[string]any:
			if fields, ok := value.(map[string]any); ok {
				value = united(before, fields)
			}
		case []any:
			if elements, ok := value.([]any); ok {
				value = slices.Concat(before, elements)
			}
		}
		if IsEmpty(all[key]) || !IsEmpty(value) {
			all[key] = value
		}
	}
	return all
}

// options are the paths of all values that are true or false.
func options(value any, path []string) [][]string {
	switch value := value.(type) {
	case bool:
		return [][]string{slices.Clone(path)}
	case map[string]any:
		var all [][]string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, options(value[key], append(path, key))...)
		}
		return all
	}
	return nil
}

// leaves are the paths of all values that are no maps with something in them.
func leaves(value any, path []string) [][]string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 && len(path) > 0 { // a chart may have no values at all
		return [][]string{slices.Clone(path)}
	}
	var all [][]string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, leaves(fields[key], append(path, key))...)
	}
	return all
}

// dotted is a path as people write it: ingress.hosts[].host. A dot within a key is escaped, as in overrideValues.
func dotted(path []string) string {
	escaped := make([]string, len(path))
	for i, key := range path {
		escaped[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.ReplaceAll(strings.Join(escaped, "."), ".[]", "[]")
}

// IsEmpty is whether a value says nothing.
func IsEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// Compact is the JSON of a default as people write it.
func Compact(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // values come from YAML, which JSON can always hold
	}
	return strings.TrimSpace(out.String())
}

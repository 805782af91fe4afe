package object

import "maps"

// fields are the fields of an object, nil if value is not one.
func fields(value any) map[string]any {
	content, _ := value.(map[string]any)
	return content
}

// field is a field of an object, nil if value has none of that name.
func field(value any, name string) any { return fields(value)[name] }

// list is value as a list, nil if it is not one.
func list(value any) []any {
	elements, _ := value.([]any)
	return elements
}

// elements are the elements of a list, or a single value as the only element. An empty value has none.
func elements(value any) []any {
	if elements, ok := value.([]any); ok {
		return elements
	}
	if value == nil || value == "" {
		return nil
	}
	return []any{value}
}

// both is the union of two maps, never nil. If both have a key, b's value counts.
func both(a, b map[string]any) map[string]any {
	keys := make(map[string]any, len(a))
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	return keys
}

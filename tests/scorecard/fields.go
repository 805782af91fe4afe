package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// field is a field of a spec that has none below it. A path goes through fields only, not through lists.
type field struct {
	path   []string
	schema apiextensionsv1.JSONSchemaProps
}

func (f field) String() string { return "spec." + strings.Join(f.path, ".") }

// fieldsOf are those of a schema, by their names.
func fieldsOf(schema apiextensionsv1.JSONSchemaProps, path []string) []field {
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property, path := schema.Properties[name], append(slices.Clone(path), name)
		if len(property.Properties) > 0 {
			fields = append(fields, fieldsOf(property, path)...)
		} else {
			fields = append(fields, field{path, property})
		}
	}
	return fields
}

// attempt is another value of a field.
type attempt struct {
	field
	value any
}

// edits are what may be tried with fields, and is not so in spec: first what other specs have there, and then
// what is the least likely to keep pods from running.
func edits(spec map[string]any, others []map[string]any, fields []field) []attempt {
	likely := []string{"integer", "string", "boolean", "object"}
	fields = slices.Clone(fields)
	slices.SortStableFunc(fields, func(a, b field) int {
		return cmp.Or(slices.Index(likely, a.schema.Type)-slices.Index(likely, b.schema.Type), len(a.path)-len(b.path))
	})
	var shown, derived []attempt
	for _, f := range fields {
		now, _, _ := unstructured.NestedFieldNoCopy(spec, f.path...)
		for _, other := range others {
			if value, found, _ := unstructured.NestedFieldCopy(other, f.path...); found && !equality.Semantic.DeepEqual(value, now) {
				shown = append(shown, attempt{f, value})
			}
		}
		for _, value := range f.values() {
			if !equality.Semantic.DeepEqual(value, now) {
				derived = append(derived, attempt{f, value})
			}
		}
	}
	return append(shown, derived...)
}

// values are some that a field may well have: none where only its author can tell.
func (f field) values() (values []any) {
	switch {
	case len(f.schema.Enum) > 0:
		for _, choice := range f.schema.Enum {
			var value any
			if json.Unmarshal(choice.Raw, &value) == nil && value != "" {
				values = append(values, value)
			}
		}
	case f.schema.Type == "integer":
		values = []any{int64(3), int64(4)}
	case f.schema.Type == "boolean":
		values = []any{true, false}
	case f.schema.Type == "string":
		values = []any{"scorecard"}
	case f.schema.Type == "object" && f.schema.AdditionalProperties != nil && f.schema.AdditionalProperties.Schema != nil && f.schema.AdditionalProperties.Schema.Type == "string":
		values = []any{map[string]any{"scorecard": "edited"}}
	}
	return values
}

// mistakes are values that a field must not have.
func (f field) mistakes() []any {
	var values []any
	s := f.schema
	if ptr.Deref(s.XPreserveUnknownFields, false) {
		return nil
	}
	switch s.Type {
	case "string":
		values = append(values, int64(1))
		if s.MaxLength != nil {
			values = append(values, strings.Repeat("a", int(*s.MaxLength)+1))
		}
		if pattern, err := regexp.Compile(s.Pattern); err == nil {
			for _, text := range []string{"two\nlines", "no quantity", "-", "Ä"} {
				if !pattern.MatchString(text) {
					values = append(values, text)
					break
				}
			}
		}
		if len(s.Enum) > 0 {
			values = append(values, "none of these")
		}
	case "integer", "number":
		values = append(values, "a text")
		if s.Minimum != nil {
			values = append(values, int64(*s.Minimum)-1)
		}
		if s.Maximum != nil {
			values = append(values, int64(*s.Maximum)+1)
		}
	case "boolean", "array", "object":
		values = append(values, "a text")
	}
	return values
}

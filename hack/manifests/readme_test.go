package main

import (
	"encoding/json"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestTableSaysEnumsAndBounds(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type": "boolean"}`:                                              "boolean",
		`{"type": "string", "enum": ["Always", "Never"]}`:                  "`Always`, `Never`",
		`{"type": "integer", "enum": [1, 2]}`:                              "`1`, `2`",
		`{"type": "integer", "minimum": 0, "maximum": 31536000}`:           "integer, 0 to 31536000",
		`{"type": "number", "minimum": 0.5}`:                               "number, at least 0.5",
		`{"type": "string", "minLength": 1}`:                               "string, at least 1 characters",
		`{"type": "string", "maxLength": 253}`:                             "string, at most 253 characters",
		`{"x-kubernetes-int-or-string": true, "maxLength": 4}`:             "integer or string, at most 4 characters",
		`{"type": "array", "maxItems": 3, "items": {"type": "integer"}}`:   "list, at most 3 entries of: integer",
		`{"type": "array", "items": {"type": "object", "properties": {}}}`: "list",
		`{"type": "object", "minProperties": 1, "maxProperties": 32, "additionalProperties": {"type": "string", "maxLength": 63}}`: "map, 1 to 32 entries of: string, at most 63 characters",
	} {
		var props apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal([]byte(schema), &props); err != nil {
			t.Fatal(err)
		}
		if got := mayBe(props); got != want {
			t.Errorf("%s may be %q, want %q", schema, got, want)
		}
	}
}

func TestTableHasTheFieldsOfListEntries(t *testing.T) {
	var schema apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(`{"properties": {"list": {"description": "All.", "type": "array", "items": {"type": "object", "properties": {
		"key": {"description": "One | other.", "type": "string", "enum": ["a", "b"]}}}}}}`), &schema); err != nil {
		t.Fatal(err)
	}
	want := []string{"| `list` |  | list | All. |", "| `list[].key` |  | `a`, `b` | One \\| other. |"}
	if got := (&API{}).valueRows(schema, ""); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

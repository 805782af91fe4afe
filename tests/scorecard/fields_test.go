package main

import (
	"fmt"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var greeting = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
	"name":  {Type: "string", MaxLength: new(int64(3)), Pattern: `^[a-z]*$`},
	"count": {Type: "integer", Minimum: new(0.0), Maximum: new(9.0)},
	"service": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"type": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"ClusterIP"`)}, {Raw: []byte(`"NodePort"`)}}},
		"on":   {Type: "boolean"},
	}},
	"labels":   {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
	"anything": {Type: "object", XPreserveUnknownFields: new(true)},
	"quantity": {XIntOrString: true},
}}

func TestEdits(t *testing.T) {
	spec := map[string]any{"name": "a", "count": int64(3), "service": map[string]any{"on": true}}
	others := []map[string]any{{"name": "b", "service": map[string]any{"on": true}}, {"count": int64(7)}}
	var got []string
	for _, edit := range edits(spec, others, fieldsOf(greeting, nil)) {
		got = append(got, fmt.Sprintf("%s=%v", edit.field, edit.value))
	}
	want := []string{
		"spec.count=7", "spec.name=b",
		"spec.count=4", "spec.name=scorecard", "spec.service.type=ClusterIP", "spec.service.type=NodePort", "spec.service.on=false", "spec.labels=map[scorecard:edited]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMistakes(t *testing.T) {
	var got []string
	for _, field := range fieldsOf(greeting, nil) {
		for _, mistake := range field.mistakes() {
			got = append(got, fmt.Sprintf("%s=%v", field, mistake))
		}
	}
	want := []string{
		"spec.count=a text", "spec.count=-1", "spec.count=10", "spec.labels=a text", "spec.name=1", "spec.name=aaaa", "spec.name=two\nlines",
		"spec.service.on=a text", "spec.service.type=1", "spec.service.type=none of these",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

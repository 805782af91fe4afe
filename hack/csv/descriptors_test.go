package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDescriptors(t *testing.T) {
	schema := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"replicas": {Type: "integer", Description: "How many pods."},
		"logLevel": {Type: "string", Description: "How much is logged.", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"info"`)}, {Raw: []byte(`"warn"`)}}},
		"ingress": {Type: "object", Description: "An Ingress.", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"enabled":         {Type: "boolean", Description: "Whether there is one."},
			"tlsCASecretName": {Type: "string", Description: "Its certificate."},
		}},
	}}
	want := `[
		{"path": "ingress", "displayName": "Ingress", "description": "An Ingress.",
		 "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:advanced"]},
		{"path": "ingress.enabled", "displayName": "Ingress enabled", "description": "Whether there is one.",
		 "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:booleanSwitch", "urn:alm:descriptor:com.tectonic.ui:fieldGroup:ingress"]},
		{"path": "ingress.tlsCASecretName", "displayName": "Ingress tls ca secret name", "description": "Its certificate.",
		 "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:text", "urn:alm:descriptor:com.tectonic.ui:fieldGroup:ingress",
		                   "urn:alm:descriptor:com.tectonic.ui:fieldDependency:ingress.enabled:true"]},
		{"path": "logLevel", "displayName": "Log level", "description": "How much is logged.",
		 "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:select:info", "urn:alm:descriptor:com.tectonic.ui:select:warn"]},
		{"path": "replicas", "displayName": "Replicas", "description": "How many pods.",
		 "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:podCount"]}
	]`
	var wanted []any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, descriptors(schema, nil, specHints)); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
}

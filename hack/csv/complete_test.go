package main

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCompleteRefusesAnUnknownCRD(t *testing.T) {
	csv := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "welcome-operator.v0.1.0"},
		"spec": map[string]any{"customresourcedefinitions": map[string]any{"owned": []any{
			map[string]any{"name": "welcomes.webapp.demo.welcome.domain", "version": "v2"},
		}}},
	}}
	crds := []apiextensionsv1.CustomResourceDefinition{{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}}},
	}}
	crds[0].Name = "welcomes.webapp.demo.welcome.domain"
	err := complete(csv, crds, []byte("<svg/>"))
	if err == nil || !strings.Contains(err.Error(), `no CRD "welcomes.webapp.demo.welcome.domain" has version "v2"`) {
		t.Errorf("error = %v, want one that names the CRD and the version", err)
	}
}

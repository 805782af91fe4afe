package main

import (
	"encoding/base64"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// complete sets the icon of csv, and the descriptors of each CRD that it owns. It fails where csv owns a CRD that is not
// among crds.
func complete(csv *unstructured.Unstructured, crds []apiextensionsv1.CustomResourceDefinition, icon []byte) error {
	err := unstructured.SetNestedSlice(csv.Object, []any{map[string]any{
		"base64data": base64.StdEncoding.EncodeToString(icon),
		"mediatype":  "image/svg+xml",
	}}, "spec", "icon")
	if err != nil {
		return fmt.Errorf("set the icon of %s: %w", csv.GetName(), err)
	}
	path := []string{"spec", "customresourcedefinitions", "owned"}
	owned, _, err := unstructured.NestedSlice(csv.Object, path...)
	if err != nil {
		return fmt.Errorf("read the owned CRDs of %s: %w", csv.GetName(), err)
	}
	for _, element := range owned {
		entry, ok := element.(map[string]any)
		if !ok {
			return fmt.Errorf("owned CRDs of %s: %v is no object", csv.GetName(), element)
		}
		schema, err := findSchema(crds, fmt.Sprint(entry["name"]), fmt.Sprint(entry["version"]))
		if err != nil {
			return fmt.Errorf("owned CRDs of %s: %w", csv.GetName(), err)
		}
		entry["specDescriptors"] = descriptors(schema.Properties["spec"], nil, specHints)
		entry["statusDescriptors"] = descriptors(schema.Properties["status"], nil, statusHints)
	}
	return unstructured.SetNestedSlice(csv.Object, owned, path...)
}

func findSchema(crds []apiextensionsv1.CustomResourceDefinition, name, version string) (*apiextensionsv1.JSONSchemaProps, error) {
	for _, crd := range crds {
		for _, candidate := range crd.Spec.Versions {
			if crd.Name == name && candidate.Name == version {
				return candidate.Schema.OpenAPIV3Schema, nil
			}
		}
	}
	return nil, fmt.Errorf("no CRD %q has version %q: correct the base in config/manifests", name, version)
}

// showStatus gives an example of a CRD's kind the status that catalogs show; a sample that people apply has
// none. The API server ignores the status of an object that is created.
func showStatus(example *unstructured.Unstructured, crds []apiextensionsv1.CustomResourceDefinition) {
	for _, crd := range crds {
		if kind := example.GroupVersionKind(); crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
			continue
		}
		status := map[string]any{
			"observedGeneration": int64(1),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "True", "reason": "Ready", "message": "All is as the spec says", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}
		if crd.Spec.Versions[0].Subresources.Scale != nil {
			status["replicas"], status["readyReplicas"] = int64(1), int64(1)
		}
		example.Object["status"] = status
	}
}

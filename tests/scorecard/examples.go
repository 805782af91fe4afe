package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// example is a custom resource that the bundle shows to users, without the status, and what the bundle says of its kind.
type example struct {
	*unstructured.Unstructured
	schema   apiextensionsv1.JSONSchemaProps // of the spec
	scalable bool                            // whether kubectl scale is to work
	others   []map[string]any                // other specs of the kind that are shown
}

// spec is what the example asks for.
func (e *example) spec() map[string]any {
	spec, _, _ := unstructured.NestedMap(e.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	return spec
}

// loadExamples returns what the bundle's ClusterServiceVersion shows, each with its kind.
func loadExamples(bundle string) ([]*example, error) {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.yaml"))
	if err != nil {
		return nil, err
	}
	crds := map[string]apiextensionsv1.CustomResourceDefinition{}
	var objects []map[string]any
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch object.GetKind() {
		case "CustomResourceDefinition":
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			crds[crd.Spec.Group+" "+crd.Spec.Names.Kind] = crd
		case "ClusterServiceVersion":
			if err := json.Unmarshal([]byte(object.GetAnnotations()["alm-examples"]), &objects); err != nil {
				return nil, fmt.Errorf("%s: alm-examples: %w", file, err)
			}
		}
	}
	var examples []*example
	for _, object := range objects {
		delete(object, "status")
		e := &example{Unstructured: &unstructured.Unstructured{Object: object}}
		kind := e.GroupVersionKind()
		for _, version := range crds[kind.Group+" "+kind.Kind].Spec.Versions {
			if version.Name == kind.Version {
				e.schema = version.Schema.OpenAPIV3Schema.Properties["spec"]
				e.scalable = version.Subresources != nil && version.Subresources.Scale != nil
			}
		}
		examples = append(examples, e)
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("the ClusterServiceVersion in %s shows no examples (alm-examples)", bundle)
	}
	for _, e := range examples {
		for _, other := range examples {
			if spec := other.spec(); other.GroupVersionKind() == e.GroupVersionKind() && !equality.Semantic.DeepEqual(spec, e.spec()) {
				e.others = append(e.others, spec)
			}
		}
	}
	return examples, nil
}

package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// CRDs are the CustomResourceDefinitions that a chart brings in crds/, with its subcharts that a custom resource has which says nothing. Helm makes them
// before it installs the first release, and never changes them: that takes rights that no operator of tenants' objects should have, so that here somebody
// else does, unless the platform says otherwise.
func CRDs(c *chart.Chart, overrides map[string]string) ([]*unstructured.Unstructured, error) {
	enabled, err := enabledBy(c, overrides)
	if err != nil {
		return nil, err
	}
	var crds []*unstructured.Unstructured
	for _, file := range enabled.CRDObjects() {
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file.File.Data), 4096)
		for {
			crd := &unstructured.Unstructured{}
			err := documents.Decode(&crd.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file.Filename, err)
			}
			if crd.GetKind() != "CustomResourceDefinition" {
				continue // an empty document, or what Helm would not make either
			}
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

// KindOf is the kind that a CustomResourceDefinition defines.
func KindOf(crd *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

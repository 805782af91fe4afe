package release

import (
	"bytes"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// CRDs are the CustomResourceDefinitions in crds/ of a chart and of the subcharts that are enabled with an
// empty spec. Helm creates them before the first release, and never changes them. That takes rights that no
// operator of tenants' objects should have, so that here somebody else does it, unless the platform says
// otherwise.
func CRDs(c *chart.Chart, overrides map[string]string) ([]*unstructured.Unstructured, error) {
	enabled, err := EnabledBy(c, overrides)
	if err != nil {
		return nil, err
	}
	var crds []*unstructured.Unstructured
	for _, file := range enabled.CRDObjects() {
		objects, err := object.Documents(bytes.NewReader(file.File.Data))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file.Filename, err)
		}
		for _, obj := range objects {
			if obj.GetKind() == "CustomResourceDefinition" { // Helm would make no other
				crds = append(crds, obj)
			}
		}
	}
	return crds, nil
}

// KindOf is the kind that a CustomResourceDefinition defines, and the versions that it serves.
func KindOf(crd *unstructured.Unstructured) (defined schema.GroupKind, served []string) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		if name, named := fields["name"].(string); named && fields["served"] == true {
			served = append(served, name)
		}
	}
	return schema.GroupKind{Group: group, Kind: kind}, served
}

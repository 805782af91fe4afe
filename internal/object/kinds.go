package object

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of what runs, and comes to an end.
var (
	Job = schema.GroupKind{Group: "batch", Kind: "Job"}
	Pod = schema.GroupKind{Kind: "Pod"}
)

// Kinds of what keeps data.
var (
	StatefulSet = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	Claim       = schema.GroupKind{Kind: "PersistentVolumeClaim"}
)

// Empty is an object of a kind with nothing in it: to be read into, or to stand for the kind.
func Empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(gvk)
	return empty
}

// Kinds names kinds of objects: Job for those of any group, Deployment.apps for that of one.
type Kinds []string

var kindsPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Validate fails for entries that make no sense.
func (k Kinds) Validate() error {
	for _, kind := range k {
		if !kindsPattern.MatchString(kind) {
			return fmt.Errorf("%q is no kind: write Job, or Deployment.apps with its group", kind)
		}
	}
	return nil
}

// Has is whether a kind is among them.
func (k Kinds) Has(kind schema.GroupKind) bool {
	return slices.Contains(k, kind.Kind) || slices.Contains(k, kind.String())
}

package guard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// inTheWay is the error for an existing object that is somebody else's.
func (g *Guard) inTheWay(info *resource.Info, live *unstructured.Unstructured) error {
	return object.InTheWay(info.Mapping.GroupVersionKind.Kind, live, g.owner)
}

// checkOwner fails if a live object is in the way: it is not the owner's and may not be taken over either. That
// may be an object given to the owner, and one that nobody owns and that is marked as of this release, if a
// release begins or the object is to be kept. Whoever could write these marks could do anything with the object
// anyway.
func (g *Guard) checkOwner(info *resource.Info, live *unstructured.Unstructured) error {
	if g.owns(live) {
		return nil
	}
	if g.isGiven(live) {
		return g.plan.MayInherit()
	}
	if !object.Inheritable(live, g.owner) {
		return g.notGiven(info, live)
	}
	desired := g.shape(info)
	var missing []string
	if !g.plan.Begins && !object.Kept(desired) && !object.Kept(live) {
		if object.InNoNamespace(live) || object.IsHook(live) { // a hook is never kept
			return g.notGiven(info, live)
		}
		desired.SetAnnotations(labels.Merge(desired.GetAnnotations(), labels.Set{object.Policy: object.Keep}))
		missing = []string{fmt.Sprintf("annotation %s=%s (afterwards, take that off again)", object.Policy, object.Keep)}
	}
	if missing = append(object.Unmarked(live, desired, g.owner), missing...); len(missing) > 0 {
		err := g.notGiven(info, live)
		if live.GetAnnotations()[object.AdoptFor] != "" {
			return err
		}
		return fmt.Errorf("%w. If it is from a backup of this custom resource, mark it, and it is taken over: %s", err, strings.Join(missing, ", "))
	}
	return g.plan.MayInherit()
}

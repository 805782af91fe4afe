package release

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// begins is whether nothing of the owner was deployed yet. Unowned objects with the marks of its release may
// then come from a backup, or from a namesake: after delete --cascade=orphan, people make the same custom
// resource again over its objects.
func (a *actionClient) begins() bool { return a.current == nil || a.appliedDigest() == "" }

// mayInherit fails if the owner is being deleted: it would take back what was just orphaned, and have it
// deleted. What is kept is for its successor.
func (a *actionClient) mayInherit() error {
	if a.owner.GetResourceVersion() == "" {
		return nil // it does not exist: a proposal, in a preview
	}
	live, err := a.live()
	if err == nil && live.GetDeletionTimestamp() != nil {
		err = errors.New("the custom resource is being deleted")
	}
	return err
}

// checkLost fails if the records are not lost, and only the cache does not show them; and if they are lost because the
// owner is deleted, which it does not show yet: the garbage collector would delete what is made anew, which would be made
// again, and so on.
func (a *actionClient) checkLost() error {
	if !a.lost() {
		return nil
	}
	if err := a.store.CheckGone(a.ctx, a.appliedRevision()); err != nil {
		return err
	}
	return a.mayInherit()
}

// live reads the owner from the API server, and fails if it is gone: the cache may be behind, and its name may
// be another one's by now.
func (a *actionClient) live() (*unstructured.Unstructured, error) {
	named, err := a.namesake(a.ctx, a.owner)
	if err == nil && (named == nil || named.GetUID() != a.owner.GetUID()) {
		err = errors.New("the custom resource was deleted")
	}
	return named, err
}

// namesake reads the custom resource with owner's name from the API server: owner itself, another one by now,
// or nil.
func (k *Kind) namesake(ctx context.Context, owner client.Object) (*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(owner.GetObjectKind().GroupVersionKind())
	// By a list, which the operator has a right to: it has none to get one.
	err := k.clients.live.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{"metadata.name": owner.GetName()})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // its kind is gone
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up the custom resource: %w", err)
	case len(list.Items) != 1:
		return nil, nil
	}
	return &list.Items[0], nil
}

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

// begins is whether nothing of the owner was deployed yet. Objects that nobody owns, and that are marked as of its release, may
// then be what a backup had, or what a namesake has left: who deletes with --cascade=orphan makes the same again over it.
func (a *actionClient) begins() bool { return a.current == nil || a.appliedDigest() == "" }

// mayInherit fails if the owner is being deleted: it would take back what it has just orphaned, and have that deleted; and what is kept is its successor's.
func (a *actionClient) mayInherit() error {
	if a.owner.GetResourceVersion() == "" {
		return nil // it is a proposal, in a preview
	}
	live, err := a.live()
	if err == nil && live.GetDeletionTimestamp() != nil {
		err = errors.New("the custom resource is being deleted")
	}
	return err
}

// checkLost fails if the records are lost because the owner is being deleted, or gone, of which the cache has not heard: the garbage collector would delete what is made anew, and so
// on without end.
func (a *actionClient) checkLost() error {
	if !a.lost() {
		return nil
	}
	return a.mayInherit()
}

// live asks the API server for the owner, and fails if that is gone: the cache may be behind, and another one have its name.
func (a *actionClient) live() (*unstructured.Unstructured, error) {
	named, err := a.namesake(a.ctx, a.owner)
	if err == nil && (named == nil || named.GetUID() != a.owner.GetUID()) {
		err = errors.New("the custom resource was deleted")
	}
	return named, err
}

// namesake asks the API server for the custom resource that has owner's name: owner, another one by now, or nil.
func (k *Kind) namesake(ctx context.Context, owner client.Object) (*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(owner.GetObjectKind().GroupVersionKind())
	// A list, for which the operator has a right; it needs none to get one.
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

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// begins is whether nothing of the owner was deployed yet. Objects that nobody owns, and that are marked as of its release, may
// then be what a backup had, or what a namesake has left: who deletes with --cascade=orphan makes the same again over it.
func (a *actionClient) begins() bool { return a.current == nil || a.appliedDigest() == "" }

// mayInherit fails if the owner goes: what it has just orphaned would be taken back, and go with it; what is kept is its successor's.
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

// orphans is whether who has deleted owner wants to keep its objects (kubectl delete --cascade=orphan).
func orphans(owner client.Object) bool {
	return owner.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(owner, metav1.FinalizerOrphanDependents)
}

// letGo ends a release and leaves its objects alone: the garbage collector takes the owner references from them. It may have done so,
// and from the records. Or it was faster than the operator, and has deleted those, as somebody else may: then it deletes what has an owner reference, and the rest
// is deleted here. op is the operation that runs, nil if none does.
func (a *actionClient) letGo(op *operation) error {
	err := a.store.RemoveOwned(a.ctx)
	orphaned := orphans(a.owner) || a.clients.ledger.isOrphaned(a.owner.GetUID())
	if err == nil {
		err = a.store.RemoveLeft(a.ctx, func() error {
			orphaned = true
			_, err := a.live()
			return err
		})
	}
	if err == nil && !orphaned {
		err = a.deleteUnowned(op)
	}
	if err != nil {
		a.failed(err)
		return err
	}
	a.Forget(a.owner)
	if orphaned {
		a.clients.ledger.setOrphaned(a.owner.GetUID()) // until it is gone
	}
	if a.current != nil && orphans(a.owner) {
		a.tell(Orphaned, "Kept: %s", object.List(a.current.Children))
	}
	return driver.ErrReleaseNotFound
}

// deleteUnowned deletes the objects in no namespace of a release that nothing tells of but the status and the objects, all but spared. What else carries no owner
// reference is kept.
func (a *actionClient) deleteUnowned(op *operation, spared ...object.Child) error {
	children, err := a.remaining()
	children = slices.DeleteFunc(children, func(child object.Child) bool { return slices.ContainsFunc(spared, child.SameInAnyVersion) })
	if err != nil || len(children) == 0 {
		return err
	}
	if op == nil {
		if op, err = a.begin(nil, false); err != nil {
			return err
		}
		defer op.end()
	}
	return op.guard.Remove(object.BareManifest(children))
}

// remaining are the objects of a release that nothing tells of but the status and the objects.
func (a *actionClient) remaining() ([]object.Child, error) {
	children := a.unownedChildren()
	if a.watches == nil {
		return children, nil
	}
	owned, err := a.watches.owned(a.ctx, a.owner, a.unowned())
	return append(children, slices.DeleteFunc(owned, record.Is)...), err
}

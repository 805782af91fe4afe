package release

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// begins is whether nothing of the owner was deployed yet. Objects that nobody owns, and that are marked as of its release, may
// then be what a backup had, or what a namesake has left: who deletes with --cascade=orphan makes the same again over it.
func (a *actionClient) begins() bool { return a.current == nil || a.appliedDigest() == "" }

// mayInherit fails if the owner goes: what it has just orphaned would be taken back, and go with it; what is kept is its successor's.
func (a *actionClient) mayInherit() error {
	live, err := a.live()
	if err == nil && live.GetDeletionTimestamp() != nil {
		err = errors.New("the custom resource is being deleted")
	}
	return err
}

// live asks the API server for the owner, and fails if that is gone: the cache may be behind, and another one have its name.
func (a *actionClient) live() (client.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(a.owner.GetObjectKind().GroupVersionKind())
	// A list, for which the operator has a right; it needs none to get one.
	err := a.clients.mgr.GetAPIReader().List(a.ctx, list, client.InNamespace(a.owner.GetNamespace()), client.MatchingFields{"metadata.name": a.owner.GetName()})
	if err != nil {
		return nil, fmt.Errorf("look up the custom resource: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].GetUID() != a.owner.GetUID() {
		return nil, errors.New("the custom resource was deleted")
	}
	return &list.Items[0], nil
}

// orphans is whether who has deleted owner wants to keep its objects (kubectl delete --cascade=orphan).
func orphans(owner client.Object) bool {
	return owner.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(owner, metav1.FinalizerOrphanDependents)
}

// letGo ends a release and leaves its objects alone: the garbage collector takes the owner references from them. It may have done so,
// and from the records.
func (a *actionClient) letGo() error {
	err := a.store.RemoveOwned(a.ctx)
	if err == nil {
		err = a.store.RemoveLeft(a.ctx, func() error { _, err := a.live(); return err })
	}
	if err != nil {
		a.failed(err)
		return err
	}
	a.Forget(a.owner)
	if a.current != nil && orphans(a.owner) {
		a.tell(Orphaned, "Kept: %s", object.List(a.current.Children))
	}
	return driver.ErrReleaseNotFound
}

package release

import (
	"context"
	"errors"
	"sync"

	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// vanished are custom resources that are gone, by name, until a reconcile has looked whether they have left anything: they may go although the operator has not let
// them. The API server looks for finalizers before it deletes, and one that comes in between is too late; the cache of a new leader may be behind, and have what its predecessor
// has uninstalled; or somebody takes the finalizer off. The garbage collector deletes what has an owner reference, and nothing else.
type vanished struct {
	mu   sync.Mutex
	gone map[client.ObjectKey][]*unstructured.Unstructured
}

func (v *vanished) add(owners ...*unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, owner := range owners {
		key := client.ObjectKeyFromObject(owner)
		v.gone[key] = append(v.gone[key], owner)
	}
}

func (v *vanished) take(key client.ObjectKey) []*unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	gone := v.gone[key]
	delete(v.gone, key)
	return gone
}

// Bury forgets the custom resources of a name that are gone, and deletes what they have left. It is called by each reconcile, and so after the one in which objects
// were made. What fails is tried again, unless somebody had deleted the custom resource: without its finalizer, that is not to be waited for.
func (k *Kind) Bury(ctx context.Context, key client.ObjectKey) (err error) {
	for _, owner := range k.vanished.take(key) {
		failed := k.bury(ctx, owner)
		if failed != nil && owner.GetDeletionTimestamp() == nil {
			k.vanished.add(owner)
		} else {
			k.Forget(owner)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (k *Kind) bury(ctx context.Context, owner *unstructured.Unstructured) error {
	if !k.clients.ledger.knows(owner.GetUID()) || orphans(owner) { // it was uninstalled, or is another operator's, or its objects are to be kept
		return nil
	}
	gone := owner.DeepCopy()
	if gone.GetDeletionTimestamp() == nil {
		now := metav1.Now()
		gone.SetDeletionTimestamp(&now)
	}
	gone.SetAnnotations(map[string]string{WithoutHooks: "true"}) // the garbage collector would delete what they make
	library, err := k.ActionClientFor(ctx, gone)
	if err != nil {
		return err
	}
	a := library.(*actionClient)
	if _, err := a.live(); !errors.Is(err, errGone) {
		return err
	}
	logf.FromContext(ctx).Info("The custom resource went before it was uninstalled: deleting what it has left")
	_, err = a.Get(gone.GetName())
	if errors.Is(err, driver.ErrReleaseNotFound) { // the garbage collector was faster
		return a.deleteUnowned(nil)
	}
	if err != nil {
		return err
	}
	if _, err = a.Uninstall(gone.GetName()); errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
}

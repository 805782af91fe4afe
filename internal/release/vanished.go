package release

import (
	"context"
	"errors"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// buryPeriod is the time between attempts to delete what a custom resource has left.
	buryPeriod = 10 * time.Second
	// buryPatience is how long that is tried.
	buryPatience = 10 * time.Minute
)

// vanished are custom resources that are gone, by name, until a reconcile has looked whether they have left
// anything. They may go without the operator's consent: the API server looks for finalizers before a deletion,
// and one added in between comes too late; the cache of a new leader may be behind, and show what its
// predecessor has uninstalled; or somebody removes the finalizer. The garbage collector deletes only what has
// an owner reference, and so nothing cluster-scoped.
type vanished struct {
	mu   sync.Mutex
	gone map[client.ObjectKey][]lost
}

// lost is a custom resource that is gone, as the cache had it last.
type lost struct {
	*unstructured.Unstructured
	since, next time.Time // next is when to try again
}

func newVanished() *vanished { return &vanished{gone: map[client.ObjectKey][]lost{}} }

func (v *vanished) add(owner lost) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := client.ObjectKeyFromObject(owner)
	v.gone[key] = append(v.gone[key], owner)
}

func (v *vanished) take(key client.ObjectKey) []lost {
	v.mu.Lock()
	defer v.mu.Unlock()
	gone := v.gone[key]
	delete(v.gone, key)
	return gone
}

// Bury forgets the vanished custom resources of a name, deletes what they have left, and returns those that it
// has forgotten. It is called at the beginning of a reconcile, and so after the one that has created objects. A
// custom resource of the same name does not wait for it.
func (k *Kind) Bury(ctx context.Context, key client.ObjectKey) (forgotten []types.UID) {
	for _, owner := range k.vanished.take(key) {
		if wait := time.Until(owner.next); wait > 0 {
			k.vanished.add(owner)
			k.schedule.after(owner, wait) // the queue keeps only the earliest time, which was this one
			continue
		}
		if err := k.bury(ctx, object.Unpack(owner.Unstructured)); err != nil {
			again := time.Since(owner.since) < buryPatience
			logf.FromContext(ctx).Error(err, "Could not delete what a custom resource has left that is gone", "trying again", again)
			if again {
				owner.next = time.Now().Add(buryPeriod)
				k.vanished.add(owner)
				k.schedule.after(owner, buryPeriod)
				continue
			}
		}
		k.Forget(owner)
		forgotten = append(forgotten, owner.GetUID())
	}
	return forgotten
}

func (k *Kind) bury(ctx context.Context, owner *unstructured.Unstructured) error {
	operator, uid := ClaimedBy(owner), owner.GetUID()
	known := k.clients.ledger.read(uid)
	switch {
	case len(k.Allow.Cluster) == 0: // without cluster-scoped objects, the garbage collector deletes everything
		return nil
	case operator != "" && operator != k.clients.operator || orphans(owner) || known.orphaned:
		return nil
	case !known.acted && (operator == "" || owner.GetDeletionTimestamp() != nil): // if it was not being deleted, nobody has uninstalled it
		return nil
	}
	named, err := k.namesake(ctx, owner)
	if err != nil || named != nil && named.GetUID() == uid {
		return err
	}
	gone := owner.DeepCopy()
	if gone.GetDeletionTimestamp() == nil {
		gone.SetDeletionTimestamp(new(metav1.Now()))
	}
	gone.SetAnnotations(map[string]string{WithoutHooks: "true"}) // the garbage collector would delete what hooks make
	a, err := k.client(ctx, gone)
	if err != nil {
		return err
	}
	logf.FromContext(ctx).Info("The custom resource went before it was uninstalled: deleting what it has left")
	if named != nil { // cluster-scoped objects are known by name, too: the namesake takes over those that it wants
		if next := k.State(named); next.Revision != 0 && next.Err == nil { // it has done so
			return a.deleteUnowned(nil, next.Children...)
		}
		children, err := a.remaining()
		if err == nil {
			k.Inherit(named, object.BareManifest(children))
		}
		return err
	}
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

package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// cacheLag bounds how long a write waits until the cache shows it. A watch delivers within
// milliseconds; one that does not within this time is broken, and the reconcile is retried.
const cacheLag = 10 * time.Second

// goneCheck is how often, meanwhile, the API server is asked whether the cache will ever show it: the wait
// occupies a worker.
const goneCheck = time.Second

// cached lists the metadata of the owner's newest records, newest first, and no more than the operator may have
// left there: somebody could have made thousands. It leaves out records of a deleted namesake, which the
// garbage collector has yet to remove, and those that are being deleted: somebody's finalizer may keep them for
// ever.
func (r *Store) cached(ctx context.Context, selector labels.Selector) ([]corev1.ConfigMap, error) {
	items, err := r.recordsOf(ctx, selector)
	owned := slices.DeleteFunc(items, func(record corev1.ConfigMap) bool { return record.DeletionTimestamp != nil || !r.isOwned(&record) })
	revisions := make(map[string]int, len(owned)) // read once: there may be thousands
	for i := range owned {
		revisions[owned[i].Name], _ = revisionOf(owned[i].Name, r.release)
	}
	slices.SortFunc(owned, func(a, b corev1.ConfigMap) int { return cmp.Compare(revisions[b.Name], revisions[a.Name]) })
	return owned[:min(len(owned), MaxHistory+1)], err
}

// recordsOf lists the metadata of the records of the release, whosever they are.
func (r *Store) recordsOf(ctx context.Context, selector labels.Selector) ([]corev1.ConfigMap, error) {
	of := []client.ListOption{client.InNamespace(r.owner.GetNamespace()), client.MatchingFields{releaseIndex: r.release},
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy}
	list, secrets := &corev1.ConfigMapList{}, &unstructured.UnstructuredList{}
	var err error
	if r.kind == object.Secret.Kind {
		secrets.SetGroupVersionKind(object.Secret.GroupVersion().WithKind("SecretList"))
		err = r.cache.List(ctx, secrets, of...)
	} else {
		err = r.cache.List(ctx, list, of...)
	}
	for i := range secrets.Items {
		record, asRecord := ofSecret(&secrets.Items[i])
		if err = errors.Join(err, asRecord); err == nil {
			list.Items = append(list.Items, *record)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list release records: %w", err)
	}
	return list.Items, nil
}

func (r *Store) cachedRecord(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	key := client.ObjectKey{Namespace: r.owner.GetNamespace(), Name: name}
	if r.kind == object.Secret.Kind {
		secret := object.Empty(object.Secret)
		if err := r.cache.Get(ctx, key, secret, client.UnsafeDisableDeepCopy); err != nil {
			return &corev1.ConfigMap{}, err
		}
		return ofSecret(secret)
	}
	record := &corev1.ConfigMap{}
	err := r.cache.Get(ctx, key, record)
	return record, err
}

// known is the record that the cache has under a name, empty if it has none. With its UID in a write, the API
// server refuses that for another record that has come in its place: a namesake of the deleted owner has
// records with the same names.
func (r *Store) known(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	cached, err := r.cachedRecord(ctx, name)
	if err != nil {
		return &corev1.ConfigMap{}, client.IgnoreNotFound(err)
	}
	if !r.isOwned(cached) {
		return nil, apierrors.NewConflict(r.resource(), name, errors.New("it is a record of another custom resource by now"))
	}
	return cached, nil
}

// awaitCached gives read-your-writes: the next reconcile reads from the cache what this one has written, and a
// stale answer would make it install twice.
func (r *Store) awaitCached(ctx context.Context, written *corev1.ConfigMap) error {
	asked := time.Now()
	return r.await(ctx, written.Name, func(cached *corev1.ConfigMap, err error) (bool, error) {
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		if err == nil {
			if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion); err != nil || order >= 0 {
				return true, err
			}
		}
		if time.Since(asked) < goneCheck {
			return false, nil
		}
		asked = time.Now()
		return false, r.checkStays(ctx, written)
	})
}

// checkStays fails if the cache will never show a record, since somebody has deleted it, or removed the label
// by which the cache selects.
func (r *Store) checkStays(ctx context.Context, written *corev1.ConfigMap) error {
	live, err := r.live(ctx, written.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != written.UID:
		return errors.New("somebody has deleted it")
	case err == nil && !object.ManagedBy().Matches(labels.Set(live.Labels)):
		return fmt.Errorf("it has lost its label %s. Let the webhook or policy that takes it off %ss leave it there", object.ManagedBy(), r.kind)
	}
	return nil // else it is asked again
}

func (r *Store) await(ctx context.Context, name string, seen func(*corev1.ConfigMap, error) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, cacheLag)
	defer cancel()
	err := object.AwaitCached(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-r.reconcile.Done():
			// The operator is stopping, and its caches have already stopped; there is no next reconcile.
			return true, nil
		default:
		}
		return seen(r.cachedRecord(ctx, name))
	})
	if err != nil {
		return fmt.Errorf("wait for the cache to show release record %s: %w", name, err)
	}
	return nil
}

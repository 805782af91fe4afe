package release

import (
	"context"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheLag bounds how long a write waits until the cache shows it. A watch delivers within
// milliseconds; one that does not within this time is broken, and the reconcile is retried.
const cacheLag = 10 * time.Second

// records stores the release records of one custom resource in ConfigMaps beside it: Helm's
// own ConfigMap driver reads the operator's cache through it and writes to the API server.
//
// ConfigMaps, not Secrets, so that the operator needs no right on any Secret. People look at
// them with HELM_DRIVER=configmap helm ls.
type records struct {
	corev1client.ConfigMapInterface // writes
	cache                           client.Reader
	owner                           client.Object
}

func newRecords(live corev1client.ConfigMapsGetter, cache client.Reader, owner client.Object) driver.Driver {
	return driver.NewConfigMaps(&records{
		ConfigMapInterface: live.ConfigMaps(owner.GetNamespace()),
		cache:              cache,
		owner:              owner,
	})
}

// Get reads a record from the cache.
func (r *records) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	record := &corev1.ConfigMap{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: r.owner.GetNamespace(), Name: name}, record)
	if err == nil && !metav1.IsControlledBy(record, r.owner) {
		err = apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return record, err
}

// List reads the records that belong to the owner from the cache. A record of a deleted
// namesake, which the garbage collector has yet to remove, is not among them.
func (r *records) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("parse the selector of release records: %w", err)
	}
	all := &corev1.ConfigMapList{}
	if err := r.cache.List(ctx, all, client.InNamespace(r.owner.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list release records: %w", err)
	}
	owned := &corev1.ConfigMapList{}
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], r.owner) {
			owned.Items = append(owned.Items, all.Items[i])
		}
	}
	return owned, nil
}

// Create writes a record and returns when the cache shows it.
func (r *records) Create(ctx context.Context, record *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	adopt(record, r.owner)
	written, err := r.ConfigMapInterface.Create(ctx, record, opts)
	if err != nil {
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

// Update writes a record and returns when the cache shows it.
func (r *records) Update(ctx context.Context, record *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	adopt(record, r.owner)
	written, err := r.ConfigMapInterface.Update(ctx, record, opts)
	if err != nil {
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

// Delete removes a record and returns when the cache shows that.
func (r *records) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := r.ConfigMapInterface.Delete(ctx, name, opts); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return r.await(ctx, name, func(_ *corev1.ConfigMap, err error) (bool, error) {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// awaitCached gives read-your-writes: Helm reads back what it has just written, and a stale
// answer would make it install twice or take a finished release for a pending one.
func (r *records) awaitCached(ctx context.Context, written *corev1.ConfigMap) error {
	return r.await(ctx, written.Name, func(cached *corev1.ConfigMap, err error) (bool, error) {
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion)
		return order >= 0, err
	})
}

func (r *records) await(ctx context.Context, name string, seen func(*corev1.ConfigMap, error) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, cacheLag, true, func(ctx context.Context) (bool, error) {
		return seen(r.Get(ctx, name, metav1.GetOptions{}))
	})
	if err != nil {
		return fmt.Errorf("wait for the cache to show release record %s: %w", name, err)
	}
	return nil
}

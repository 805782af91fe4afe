package release

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// inputsAnnotation of a release record is the digest of what the release was rendered from.
	inputsAnnotation = "webapp.demo.welcome.domain/inputs"
	// childrenAnnotation of a release record lists the objects of the release as they were
	// right after they were applied.
	childrenAnnotation = "webapp.demo.welcome.domain/children"

	// ownerIndex of the cache has the release records by the UID of the custom resource that controls them.
	ownerIndex = "owner"

	// cacheLag bounds how long a write waits until the cache shows it. A watch delivers within
	// milliseconds; one that does not within this time is broken, and the reconcile is retried.
	cacheLag = 10 * time.Second
)

// Child is an object of a release, in the namespace of its custom resource.
type Child struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	// ResourceVersion is the API server's answer to the apply.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ShownBy is whether object, read from a cache, already is as c was applied, or newer.
func (c Child) ShownBy(object client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), c.ResourceVersion)
	return err == nil && order >= 0
}

// sameContent is whether two children stand for the same content of the same object.
func sameContent(a, b Child) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
}

// records stores the release records of one custom resource in ConfigMaps beside it, for
// Helm's own ConfigMap driver. ConfigMaps, not Secrets, so that the operator needs no right
// on any Secret. People look at them with HELM_DRIVER=configmap helm ls.
//
// The cache holds only the records' metadata. That tells which revision is the newest, how it
// is, and what it was made from, and so is all that an idle reconcile needs. What is inside of
// a record is read from the API server when an action wants it.
type records struct {
	corev1client.ConfigMapInterface
	reconcile context.Context // Helm's driver passes on none
	cache     client.Reader
	owner     client.Object
	sanitizer *sanitizer
	// stamp annotates the revision that the current action creates.
	stamp func(status release.Status) (map[string]string, error)
	// created is the name of that revision's record, empty while there is none.
	created string
}

func newRecords(reconcile context.Context, live corev1client.ConfigMapsGetter, cache client.Reader, sanitizer *sanitizer) *records {
	owner := sanitizer.owner
	return &records{reconcile: reconcile, ConfigMapInterface: live.ConfigMaps(owner.GetNamespace()), cache: cache, owner: owner, sanitizer: sanitizer}
}

// record is the metadata of a release record.
type record struct {
	name     string
	revision int
	status   release.Status
	inputs   string
	created  time.Time
	children []Child
}

// newest reads the newest record from the cache: nil if there is none.
func (r *records) newest(ctx context.Context) (*record, error) {
	list, err := r.cached(ctx, labels.SelectorFromSet(labels.Set{"owner": "helm", "name": r.owner.GetName()}))
	if err != nil {
		return nil, err
	}
	var newest *record
	for i := range list {
		meta := &list[i]
		revision, _ := revisionOf(meta.Name, r.owner)
		if newest == nil || revision > newest.revision {
			newest = parseRecord(meta, revision)
		}
	}
	return newest, nil
}

func parseRecord(meta *corev1.ConfigMap, revision int) *record {
	r := &record{
		name:     meta.Name,
		revision: revision,
		status:   release.Status(meta.Labels["status"]),
		inputs:   meta.Annotations[inputsAnnotation],
		created:  meta.CreationTimestamp.Time,
	}
	// Unreadable children are no children: the drift check then renders the chart.
	_ = json.Unmarshal([]byte(meta.Annotations[childrenAnnotation]), &r.children)
	return r
}

// indexOwners lets the cache find records by their owner. Without it, every reconcile would go through the records of all.
func indexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.ConfigMap{}, ownerIndex, func(record client.Object) []string {
		if owner := metav1.GetControllerOf(record); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	})
}

// cached lists the metadata of the owner's records. A record of a deleted namesake, which the
// garbage collector has yet to remove, is not among them.
func (r *records) cached(ctx context.Context, selector labels.Selector) ([]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	err := r.cache.List(ctx, list, client.InNamespace(r.owner.GetNamespace()), client.MatchingFields{ownerIndex: string(r.owner.GetUID())},
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list release records: %w", err)
	}
	return r.owned(list.Items), nil
}

func (r *records) owned(items []corev1.ConfigMap) []corev1.ConfigMap {
	var owned []corev1.ConfigMap
	for i := range items {
		if _, named := revisionOf(items[i].Name, r.owner); named && metav1.IsControlledBy(&items[i], r.owner) {
			owned = append(owned, items[i])
		}
	}
	return owned
}

// Get reads a whole record from the API server.
func (r *records) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	record, err := r.ConfigMapInterface.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	if len(r.owned([]corev1.ConfigMap{*record})) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return record, r.sanitizer.sanitize(record)
}

// List reads whole records from the API server, and asks it only if the cache knows of any.
func (r *records) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("parse the selector of release records: %w", err)
	}
	known, err := r.cached(ctx, selector)
	if err != nil || len(known) == 0 {
		return &corev1.ConfigMapList{}, err
	}
	list, err := r.ConfigMapInterface.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	list.Items = r.owned(list.Items)
	for i := range list.Items {
		if err := r.sanitizer.sanitize(&list.Items[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Create writes the record of a new revision and returns when the cache shows it.
func (r *records) Create(ctx context.Context, record *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	adopt(record, r.owner)
	r.created = record.Name
	if err := r.annotate(ctx, record); err != nil {
		return nil, err
	}
	written, err := r.ConfigMapInterface.Create(ctx, record, opts)
	if apierrors.IsAlreadyExists(err) && r.has(ctx, record.Name) {
		// Helm creates only records that it does not find: somebody took the labels off
		// this one, and it would be in the way for ever.
		return r.Update(ctx, record, metav1.UpdateOptions{})
	}
	if err != nil {
		r.created = ""
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

func (r *records) has(ctx context.Context, name string) bool {
	_, err := r.Get(ctx, name, metav1.GetOptions{})
	return err == nil
}

// Update writes a record and returns when the cache shows it.
func (r *records) Update(ctx context.Context, record *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	adopt(record, r.owner)
	if err := r.annotate(ctx, record); err != nil {
		return nil, err
	}
	written, err := r.ConfigMapInterface.Update(ctx, record, opts)
	if err != nil {
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

// annotate stamps the revision of the current action. Helm writes records anew, so the
// annotations of older ones would be lost if they were not carried over.
func (r *records) annotate(ctx context.Context, record *corev1.ConfigMap) error {
	if record.Name == r.created && r.stamp != nil {
		annotations, err := r.stamp(release.Status(record.Labels["status"]))
		record.Annotations = annotations
		return err
	}
	cached, err := r.cachedRecord(ctx, record.Name)
	if err == nil {
		record.Annotations = cached.Annotations
	}
	return client.IgnoreNotFound(err)
}

// recordChildren replaces what a record says of the objects of its release.
func (r *records) recordChildren(ctx context.Context, name string, children []Child) error {
	text, err := json.Marshal(children)
	if err != nil {
		return fmt.Errorf("encode the children of release record %s: %w", name, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{childrenAnnotation: string(text)}}})
	if err != nil {
		return fmt.Errorf("encode the children of release record %s: %w", name, err)
	}
	written, err := r.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("record the children of release record %s: %w", name, err)
	}
	return r.awaitCached(ctx, written)
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

// awaitCached gives read-your-writes: the next reconcile reads from the cache what this one
// has written, and a stale answer would make it install twice.
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
		select {
		case <-r.reconcile.Done():
			return true, nil // the operator stops: its caches have already stopped, and there is no next reconcile
		default:
		}
		return seen(r.cachedRecord(ctx, name))
	})
	if err != nil {
		return fmt.Errorf("wait for the cache to show release record %s: %w", name, err)
	}
	return nil
}

func (r *records) cachedRecord(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	record := &corev1.ConfigMap{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: r.owner.GetNamespace(), Name: name}, record)
	return record, err
}

func (r *records) driver() driver.Driver { return slimDriver{driver.NewConfigMaps(r)} }

// slimDriver stores a release without the files of its chart. Nothing reads them back, they are
// most of a record, and to compress them takes a third of the time of an install.
type slimDriver struct{ driver.Driver }

// Create stores a new revision.
func (d slimDriver) Create(key string, rel *release.Release) error {
	return d.Driver.Create(key, withoutFiles(rel))
}

// Update stores what became of a revision.
func (d slimDriver) Update(key string, rel *release.Release) error {
	return d.Driver.Update(key, withoutFiles(rel))
}

func withoutFiles(rel *release.Release) *release.Release {
	slim := *rel
	if rel.Chart != nil {
		slim.Chart = &chart.Chart{Metadata: rel.Chart.Metadata, Values: rel.Chart.Values}
	}
	return &slim
}

// Package record keeps the release records of custom resources: in ConfigMaps beside them, or Secrets, for Helm's
// own driver, with a cache that knows their metadata, and without believing what is inside.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// reading bounds how many records all workers together read and unpack at a time: each may be as large as
// anybody could forge it.
var reading = make(chan struct{}, 2)

// Store stores the release records of one custom resource in ConfigMaps beside it, for Helm's own ConfigMap
// driver: in ConfigMaps, so that the operator needs no right on any Secret. HELM_DRIVER=configmap helm ls shows
// them. The records of a kind that may have Secrets are Secrets (HELM_DRIVER=secret), since they hold the
// values.
//
// The cache holds only the metadata of the records. That says which revision is the newest, its status, and
// what it was made from, which is all that an idle reconcile needs. The rest of a record is read from the API
// server when an action needs it.
type Store struct {
	corev1client.ConfigMapInterface
	reconcile context.Context // Helm's driver passes none on
	cache     client.Reader
	owner     client.Object
	names     Names
	kind      string // Secret or ConfigMap
	earlier   *Store // in ConfigMaps, where the records are Secrets
	release   string // the name of the release, as it is recorded
	sanitizer *sanitizer
	stamp     func() Record
	applied   func() int
	// read is the record that List has last read whole: Helm asks twice in an upgrade.
	read *corev1.ConfigMap
	// created is the name of the record that the action has created, empty while there is none.
	created string
	// over is whether created is an existing record, of the attempt before, that is still to be overwritten.
	over bool
	// notSuperseded is why the previous revision could not be marked as superseded, nil if it was or need not
	// be.
	notSuperseded error
}

// Options of a store.
type Options struct {
	// Names says how releases are named.
	Names Names
	// Secrets is whether the records are Secrets.
	Secrets bool
	// Allow is what the platform allows, here of cluster-scoped objects.
	Allow object.Allow
	// Applied is the revision of the release that was applied last, 0 if none is known.
	Applied func() int
	// Children are the objects of the release as far as they are known, for a record that can't be read.
	Children func() []object.Child
	// IsApplied is whether a manifest is known to be the one that was applied last.
	IsApplied func(manifest string) bool
	// Report is told what a record names although the owner has no right to it.
	Report func(message string)
}

// Live are ConfigMaps and Secrets as the API server has them.
type Live interface {
	corev1client.ConfigMapsGetter
	corev1client.SecretsGetter
}

// NewStore returns the store of owner's records, for one reconcile.
func NewStore(reconcile context.Context, live Live, cache client.Reader, mapper meta.RESTMapper, owner client.Object, o Options) *Store {
	release := o.Names.of(owner)
	store := &Store{
		reconcile:          reconcile,
		ConfigMapInterface: live.ConfigMaps(owner.GetNamespace()),
		cache:              cache,
		owner:              owner,
		names:              o.Names,
		kind:               "ConfigMap",
		release:            release,
		applied:            o.Applied,
		sanitizer: &sanitizer{
			mapper:    mapper,
			owner:     owner,
			release:   release,
			isApplied: o.IsApplied,
			known:     o.Children,
			report:    o.Report,
			applied:   o.Applied,
			allow:     o.Allow,
			discreet:  o.Secrets,
		},
	}
	if o.Secrets {
		earlier := *store
		store.kind, store.ConfigMapInterface, store.earlier = object.Secret.Kind, inSecrets{secrets: live.Secrets(owner.GetNamespace())}, &earlier
	}
	return store
}

func (r *Store) resource() schema.GroupResource {
	return corev1.Resource(strings.ToLower(r.kind) + "s")
}

// Stamping returns the store for an action that makes a revision. Its record is annotated with what stamp
// returns, which is called before objects are applied, and again afterwards.
func (r *Store) Stamping(stamp func() Record) *Store {
	store := *r
	store.stamp, store.created = stamp, ""
	return &store
}

// HasCreated is whether the action has created a record.
func (r *Store) HasCreated() bool { return r.created != "" }

// WriteOver makes the action overwrite the record with that name, which the attempt before has left, instead of
// creating one.
func (r *Store) WriteOver(name string) { r.created, r.over = name, true }

// Discard deletes the record that the action has created.
func (r *Store) Discard(ctx context.Context) error {
	created := r.created
	r.created = ""
	return r.Delete(ctx, created, metav1.DeleteOptions{})
}

// Created returns the record that the action has created, as the cache has it. If it was deleted meanwhile, as
// the garbage collector does once the owner is gone, only its name is set.
func (r *Store) Created(ctx context.Context) (*corev1.ConfigMap, error) {
	created, err := r.cachedRecord(ctx, r.created)
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.created}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the new release record %s: %w", r.created, err)
	}
	return created, r.checkFound(created) // Helm tells nobody that its last write has failed
}

// labelled selects the records of the release by Helm's labels.
func (r *Store) labelled() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"owner": "helm", "name": r.release})
}

func (r *Store) isOwned(record *corev1.ConfigMap) bool {
	_, named := revisionOf(record.Name, r.release)
	return named && metav1.IsControlledBy(record, r.owner)
}

// Get reads a whole record from the API server.
func (r *Store) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	reading <- struct{}{}
	defer func() { <-reading }()
	record, err := r.ConfigMapInterface.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	if !r.isOwned(record) {
		return nil, apierrors.NewNotFound(r.resource(), name)
	}
	return r.sanitizer.sanitize(record)
}

// List reads the newest record whole, from the API server. The others, which Helm only counts and deletes, are
// listed as in the cache: each could be a forged megabyte.
func (r *Store) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("parse the selector of release records: %w", err)
	}
	known, err := r.cached(ctx, selector)
	if err != nil {
		return nil, err
	}
	list := &corev1.ConfigMapList{}
	for i := range known {
		record := &known[i]
		if len(list.Items) == 0 {
			record, err = r.newest(ctx, record)
			if apierrors.IsNotFound(err) {
				continue // the cache is behind
			}
			// Superseded, perhaps, by one that the cache does not have yet.
			if err == nil && record.Labels["status"] != known[i].Labels["status"] {
				err = fmt.Errorf("the cache is behind: it has release record %s as %q, and that is %q", record.Name, known[i].Labels["status"], record.Labels["status"])
			}
		} else {
			record, err = r.sanitizer.bare(record)
		}
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *record)
	}
	return list, nil
}

// newest reads a record whole, unless that was done already and the cache has no later version of it.
func (r *Store) newest(ctx context.Context, known *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if r.read == nil || r.read.Name != known.Name || r.read.UID != known.UID || r.read.ResourceVersion != known.ResourceVersion {
		read, err := r.Get(ctx, known.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		r.read = read
	}
	return r.read.DeepCopy(), nil
}

// Create writes the record of a new revision and returns when the cache shows it.
func (r *Store) Create(ctx context.Context, record *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	r.adopt(record)
	r.created = record.Name // the one that annotate stamps
	if err := r.annotate(ctx, record); err != nil {
		r.created = ""
		return nil, err
	}
	written, err := r.ConfigMapInterface.Create(ctx, record, opts)
	if apierrors.IsAlreadyExists(err) && r.applied() > 0 {
		if err := r.removeHelms(ctx, record.Name); err != nil {
			r.created = ""
			return nil, err
		}
		written, err = r.ConfigMapInterface.Create(ctx, record, opts)
	}
	if apierrors.IsAlreadyExists(err) && r.hasUnlabelled(ctx, record.Name) {
		// Helm creates only records that it does not find: somebody took the labels off this one, or a stock
		// Helm operator made it, and it would be in the way for ever. With its labels, it is of another
		// operator or leader, who was faster, or of an attempt before, and only the cache does not show it:
		// nothing was changed yet, and nothing will be. A policy that has taken them off may do so again: then it
		// would be written over for nothing.
		trial, err := r.ConfigMapInterface.Update(ctx, record.DeepCopy(), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			err = r.checkFound(trial)
		}
		if err != nil {
			r.created = ""
			return nil, err
		}
		return r.Update(ctx, record, metav1.UpdateOptions{})
	}
	if err != nil {
		r.created = ""
		if apierrors.IsAlreadyExists(err) {
			return nil, r.inTheWay(ctx, record.Name)
		}
		return nil, fmt.Errorf("create release record %s: %w", record.Name, err)
	}
	if err := r.removeUnless(ctx, r.checkFound, written); err != nil {
		r.created = ""
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

// removeUnless deletes a new record that is not good as it was written, and fails: it would be in the way of the next
// attempt.
func (r *Store) removeUnless(ctx context.Context, good func(*corev1.ConfigMap) error, written *corev1.ConfigMap) error {
	if err := good(written); err != nil {
		return errors.Join(err, r.remove(ctx, []corev1.ConfigMap{*written}))
	}
	return nil
}

// checkFound fails if a record, as it was written, is none that the next reconcile finds. Companies have policies that
// put a label "owner" on everything.
func (r *Store) checkFound(written *corev1.ConfigMap) error {
	is := release.Status(written.Labels["status"])
	switch err := r.checkOwned(written); {
	case err != nil:
		return err
	case !r.labelled().Matches(labels.Set(written.Labels)):
		return fmt.Errorf("release record %s has lost the labels %s, by which Helm finds it, as it was written. Let the webhook or policy that changes them on the %ss with the label %s leave them there",
			written.Name, r.labelled(), r.kind, object.ManagedBy())
	case !is.IsPending() && !slices.Contains([]release.Status{release.StatusDeployed, release.StatusSuperseded, release.StatusFailed, release.StatusUninstalling}, is):
		return fmt.Errorf("release record %s has the label status=%s, which Helm does not know, as it was written. Let the webhook or policy that changes it on the %ss with the label %s leave it there",
			written.Name, is, r.kind, object.ManagedBy())
	}
	return nil
}

// checkOwned fails if a record is not the owner's as it was written: it would not count at the next reconcile, which
// would install again, and so would each one after it.
func (r *Store) checkOwned(written *corev1.ConfigMap) error {
	if r.isOwned(written) {
		return nil
	}
	return fmt.Errorf("release record %s has lost its owner reference as it was written. Let the webhook or policy that removes it from the %ss with the label %s keep it", written.Name, r.kind, object.ManagedBy())
}

// removeHelms deletes a record of the release that nobody owns and that has Helm's labels: somebody has used
// helm rollback or uninstall, which drop the operator's marks from the records that they write. Before anything
// was applied, it is somebody else's.
func (r *Store) removeHelms(ctx context.Context, name string) error {
	live, err := r.live(ctx, name)
	if err != nil || len(live.OwnerReferences) > 0 || live.DeletionTimestamp != nil || !r.labelled().Matches(labels.Set(live.Labels)) {
		return client.IgnoreNotFound(err)
	}
	err = r.remove(ctx, []corev1.ConfigMap{*live})
	if apierrors.IsInvalid(err) { // to the policy of config/policy, where the operator's label is lost, too, as by older versions of Helm
		return r.inTheWay(ctx, name)
	}
	return err
}

// inTheWay is why there can be no record of this name.
func (r *Store) inTheWay(ctx context.Context, name string) error {
	live, err := r.live(ctx, name)
	if err != nil {
		return fmt.Errorf("look up what is in the way of a release record: %w", err)
	}
	if r.isOwned(live) && live.DeletionTimestamp == nil {
		return fmt.Errorf("the cache is behind: it does not have release record %s yet", name)
	}
	return object.InTheWay(r.kind, live, r.owner)
}

// adopt makes a record the owner's, and sets its namespace, which Helm does not.
func (r *Store) adopt(record *corev1.ConfigMap) {
	record.Namespace = r.owner.GetNamespace()
	object.Adopt(record, r.owner)
}

// hasUnlabelled is whether a record of the owner lacks labels by which Helm and the operator find it. Get
// cannot tell, since it drops the operator's.
func (r *Store) hasUnlabelled(ctx context.Context, name string) bool {
	record, err := r.live(ctx, name)
	if err != nil || !r.isOwned(record) {
		return false
	}
	return !r.labelled().Matches(labels.Set(record.Labels)) || !object.ManagedBy().Matches(labels.Set(record.Labels))
}

// live reads a record as it is in the cluster.
func (r *Store) live(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	reading <- struct{}{}
	defer func() { <-reading }()
	return r.ConfigMapInterface.Get(ctx, name, metav1.GetOptions{})
}

// Update writes a record and returns when the cache shows it. It fails if another operator has written the
// record since it was known: a process that stood still in the middle of a request sends the rest when it goes
// on.
func (r *Store) Update(ctx context.Context, record *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	if r.notSuperseded != nil && record.Name == r.created && record.Labels["status"] == string(release.StatusDeployed) {
		// Helm ignores that error, and two revisions would be deployed.
		return nil, fmt.Errorf("the revision before is not superseded: %w", r.notSuperseded)
	}
	r.adopt(record)
	if err := r.annotate(ctx, record); err != nil {
		return nil, err
	}
	known, err := r.known(ctx, record.Name)
	if err != nil {
		return nil, err
	}
	record.UID, record.ResourceVersion = known.UID, known.ResourceVersion
	var written *corev1.ConfigMap
	err = retry.OnError(afterAnOutage, func(err error) bool { return isOutage(err) || apierrors.IsConflict(err) }, func() (err error) {
		if written, err = r.ConfigMapInterface.Update(ctx, record, opts); !apierrors.IsConflict(err) {
			return err
		}
		live, liveErr := r.live(ctx, record.Name)
		if liveErr != nil {
			return liveErr
		}
		if status := live.Labels["status"]; live.UID == record.UID && (status == known.Labels["status"] || status == record.Labels["status"]) {
			// somebody has annotated it, or an earlier try has been written.
			record.ResourceVersion = live.ResourceVersion
		}
		return err
	})
	over := r.over
	r.over = false
	switch {
	case apierrors.IsInvalid(err) && over: // it is of another attempt, and somebody has made it immutable
		if err = r.Delete(ctx, record.Name, metav1.DeleteOptions{}); err == nil {
			record.UID, record.ResourceVersion = "", ""
			written, err = r.ConfigMapInterface.Create(ctx, record, metav1.CreateOptions{})
		}
	case apierrors.IsInvalid(err):
		written, err = r.relabel(ctx, record, err)
	}
	if err != nil {
		if r.created != "" && record.Name != r.created {
			r.notSuperseded = err
		}
		return nil, err
	}
	return written, r.awaitCached(ctx, written)
}

// relabel handles a record that somebody has made immutable: only its labels can still say what became of its
// revision, and those count. For another record, it returns refused.
func (r *Store) relabel(ctx context.Context, record *corev1.ConfigMap, refused error) (*corev1.ConfigMap, error) {
	live, err := r.live(ctx, record.Name)
	if err != nil || live.Immutable == nil || !*live.Immutable {
		return nil, refused
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": record.UID, "resourceVersion": record.ResourceVersion, "labels": record.Labels, "annotations": record.Annotations, "ownerReferences": record.OwnerReferences,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the labels of release record %s: %w", record.Name, err)
	}
	return r.Patch(ctx, record.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// afterAnOutage paces the retries of an update, for two thirds of a second.
var afterAnOutage = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 3, Steps: 4}

// isOutage is whether a request has failed because the API server was not up to it, and not because of what it
// asks.
func isOutage(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
}

// annotate stamps the record of the action's revision. The records of other revisions keep their annotations,
// which would be lost otherwise: Helm writes records anew.
func (r *Store) annotate(ctx context.Context, record *corev1.ConfigMap) error {
	if record.Name == r.created && r.stamp != nil {
		stamp := r.stamp()
		record.Annotations = stamp.annotations()
		keep(record, stamp.Key)
		return nil
	}
	cached, err := r.cachedRecord(ctx, record.Name)
	if err == nil {
		record.Annotations = cached.Annotations
		keep(record, object.Key(cached.Data[keyOfDigests]))
	}
	return client.IgnoreNotFound(err)
}

// keep stores the key of its digests in a record.
func keep(record *corev1.ConfigMap, key object.Key) {
	if key != "" {
		record.Data[keyOfDigests] = string(key)
	}
}

// Restamp replaces the operator's annotations of a record.
func (r *Store) Restamp(ctx context.Context, record *Record) error {
	known, err := r.known(ctx, record.Name)
	if err != nil {
		return err
	}
	annotations := map[string]any{madeFromAnnotation: nil, capabilitiesAnnotation: nil, lookupsAnnotation: nil, unmadeAnnotation: nil} // what is not said any more goes
	for key, value := range record.annotations() {
		annotations[key] = value
	}
	// Without the label, the cache would never show it.
	content := map[string]any{"metadata": map[string]any{"uid": known.UID, "annotations": annotations, "labels": object.ManagedByLabels()}}
	if record.Key != "" {
		content["stringData"] = map[string]any{keyOfDigests: record.Key}
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode the annotations of release record %s: %w", record.Name, err)
	}
	written, err := r.Patch(ctx, record.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotate release record %s: %w", record.Name, err)
	}
	return r.awaitCached(ctx, written)
}

// Delete deletes a record and returns when the cache shows that, or that only a finalizer keeps it, which may
// take its time.
func (r *Store) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if opts.Preconditions == nil { // Helm gives none
		known, err := r.known(ctx, name)
		// somebody has removed its label, or deleted it, and another object may have its name.
		if err == nil && known.UID == "" {
			known, err = r.live(ctx, name)
		}
		if apierrors.IsNotFound(err) || err == nil && !r.isOwned(known) {
			return nil
		}
		if err != nil {
			return err
		}
		opts.Preconditions = &metav1.Preconditions{UID: &known.UID}
	}
	if err := r.ConfigMapInterface.Delete(ctx, name, opts); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete release record %s: %w", name, err)
	}
	return r.await(ctx, name, func(cached *corev1.ConfigMap, err error) (bool, error) {
		return apierrors.IsNotFound(err) || err == nil && cached.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
}

package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// Finalizer is the library's: uninstallFinalizer in pkg/reconciler/reconciler.go.
	Finalizer = "uninstall-helm-release"
	// cacheLag is how long to wait until the cache shows an object as it was just applied.
	// Within milliseconds it does; a release whose object it does not show is not ready.
	cacheLag = 2 * time.Second
)

// Reporter is the client that the library's reconciler of one kind is given. It turns the conditions that the
// library writes into a true status, and writes only what has changed of that.
type Reporter struct {
	client.Client // from the cache, to the API server
	live          client.Reader
	releases      releases
	events        record.EventRecorder
	claims        *claims
	stocks        *stocks
	refused       refusals

	mu      sync.Mutex
	outages map[types.UID]outage
}

// releases is a *release.Kind, except in tests.
type releases interface {
	State(owner client.Object) release.State
	Requeue(owner client.Object, delay time.Duration)
	Recorder(ctx context.Context, owner client.Object) (string, error)
	Forget(owner client.Object)
	Bury(ctx context.Context, key client.ObjectKey) (forgotten []types.UID)
	Inherit(owner client.Object, manifest string)
}

// NewReporter returns a Reporter that learns from kind what was applied, and claims its custom resources for
// operator.
func NewReporter(mgr manager.Manager, kind *release.Kind, operator string) (*Reporter, error) {
	events := release.NewEvents(mgr)
	claims := &claims{
		Client:    mgr.GetClient(),
		cache:     mgr.GetCache(),
		kind:      kind.GroupVersionKind,
		self:      operator,
		serves:    kind.Selector,
		releases:  kind,
		events:    events,
		log:       logf.Log.WithName("claims").WithName(kind.GroupVersionKind.Kind),
		others:    map[place]*other{},
		free:      map[types.UID]time.Time{},
		questions: map[client.ObjectKey]bool{},
		told:      map[string]time.Time{},
		asked:     make(chan struct{}, 1),
	}
	return &Reporter{
		Client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		releases: kind,
		events:   events,
		claims:   claims,
		stocks:   newStocks(mgr.GetClient(), kind, events),
		refused:  refusals{of: map[part]refusal{}},
		outages:  map[types.UID]outage{},
	}, mgr.Add(claims)
}

// Get hides the stored conditions from the library. That writes a status only if its conditions differ from
// those that it has read, and so does at every reconcile.
//
// A custom resource that another operator has claimed, or that the selector does not match, is not found, so
// that nothing is done to it, whatever has caused the reconcile.
//
// Nor is a custom resource found whose deletion is done here. The library waits in a worker, up to 30 seconds,
// for it to disappear, and it may not: somebody else's finalizer keeps it, or another one has its name by now.
func (r *Reporter) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	for _, uid := range r.releases.Bury(ctx, key) {
		r.forget(uid)
	}
	known := obj.GetUID() // set only in that wait
	if err := r.Client.Get(ctx, key, obj, opts...); err != nil {
		if apierrors.IsNotFound(err) {
			r.stocks.gone(key)
			r.refused.gone(key)
		}
		return err
	}
	done := obj.GetDeletionTimestamp() != nil && !hasFinalizer(obj) || known != "" && obj.GetUID() != known
	owner, ok := obj.(*unstructured.Unstructured)
	if ok && !done {
		served, err := r.claims.admit(ctx, owner)
		if served && err == nil {
			served, err = r.stocks.admit(ctx, owner)
		}
		if err != nil {
			if write, is := errors.AsType[unwritten](err); is {
				r.wrote(owner, write.what, err)
			}
			r.releases.Requeue(owner, lastLook)
			return err
		}
		if done = !served; done {
			r.forget(owner.GetUID())
		}
	}
	if done {
		return apierrors.NewNotFound(schema.GroupResource{Group: obj.GetObjectKind().GroupVersionKind().Group, Resource: obj.GetObjectKind().GroupVersionKind().Kind}, key.Name)
	}
	if obj.GetDeletionTimestamp() != nil {
		controllerutil.AddFinalizer(obj, Finalizer) // the finalizer of a stock operator asks for the same
	}
	wasPaused := ok && !release.IsPaused(owner) && owner.GetDeletionTimestamp() == nil && ConditionOf(owner, Ready)["reason"] == ReasonPaused
	hideConditions(obj)
	if wasPaused {
		if err := r.resumed(ctx, owner); err != nil {
			r.releases.Requeue(owner, lastLook)
			return err
		}
	}
	return nil
}

// Update writes the finalizers, which are all that the library changes, and hides the conditions, as Get does.
// To update the whole object would lose the annotations that the cache does not keep.
func (r *Reporter) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	if err := r.rests(obj, itsFinalizers); err != nil {
		return err
	}
	err := writeFinalizers(ctx, r.Client, obj, slices.DeleteFunc(obj.GetFinalizers(), replaced))
	r.wrote(obj, itsFinalizers, err)
	if err != nil {
		return err
	}
	hideConditions(obj)
	return nil
}

// Waits writes the status before a reconcile has ended, with what its action waits for. If that fails, it is logged,
// and the reconcile goes on.
func (r *Reporter) Waits(ctx context.Context, owner *unstructured.Unstructured) {
	if err := r.Status().Update(ctx, owner); err != nil {
		logf.FromContext(ctx).Error(err, "The status does not say what the action waits for")
	}
}

// resumed writes into the status that a custom resource is no longer paused. The reconcile that follows may
// take minutes, and somebody who pauses it meanwhile must not mistake the old condition for an answer.
func (r *Reporter) resumed(ctx context.Context, owner *unstructured.Unstructured) error {
	ended := []any{map[string]any{"type": pausedType, "status": string(metav1.ConditionFalse)}}
	if err := unstructured.SetNestedSlice(owner.Object, ended, "status", "conditions"); err != nil {
		return err
	}
	return r.Status().Update(ctx, owner)
}

func hideConditions(obj client.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "status", "conditions")
		unstructured.RemoveNestedField(u.Object, "status", "deployedRelease")
	}
}

// Status returns the writer of the true status.
func (r *Reporter) Status() client.SubResourceWriter {
	return statusWriter{SubResourceWriter: r.Client.Status(), reporter: r}
}

type statusWriter struct {
	client.SubResourceWriter
	reporter *Reporter
}

// Update writes the status that follows from the conditions in obj and from the cluster, unless that is stored
// already. It gives way to other writers: the status was computed from what is outdated then, and their change
// causes the next reconcile.
func (w statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) (err error) {
	owner, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("update the status of a %T: only unstructured objects are supported", obj)
	}
	reported := Of(owner).Conditions
	defer func() {
		if err != nil { // the library retries with the same object, and needs the conditions that it has reported
			w.reporter.releases.Requeue(owner, lastLook)
			return
		}
		hideConditions(owner) // after a failed uninstall it updates twice, and the second update would undo the first
	}()
	if err := w.reporter.rests(owner, itsStatus); err != nil {
		if owner.GetDeletionTimestamp() != nil {
			return nil // the library takes the finalizer off only after this
		}
		return err
	}
	stored, order, err := w.reporter.shown(ctx, owner)
	if err != nil {
		return err
	}
	stored = object.Unpack(stored) // not a copy: mostly there is nothing to write
	holder, err := w.reporter.claims.holder(ctx, stored)
	if err != nil || order > 0 && !w.reporter.claims.letsGoNext(holder, stored) || holder != "" && holder != w.reporter.claims.self {
		return err // somebody has changed it, or another operator was faster
	}
	previous := Of(stored)
	status, changed := w.reporter.status(ctx, owner, previous, reported)
	if !changed {
		w.reporter.stocks.written(stored)
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	stored = stored.DeepCopy()
	stored.Object["status"] = content
	err = w.SubResourceWriter.Update(ctx, stored, opts...)
	refused := err
	if err == nil {
		refused = alteration(previous, status, Of(stored)) // which is the API server's answer
	}
	w.reporter.wrote(owner, itsStatus, refused)
	if err != nil {
		w.reporter.lookAgain(owner.GetUID())
	}
	if apierrors.IsConflict(err) {
		logf.FromContext(ctx).V(1).Info("Left the status to the next reconcile: the object has changed meanwhile")
		return nil
	}
	if apierrors.IsNotFound(err) && owner.GetDeletionTimestamp() != nil {
		return nil // the custom resource is gone, or its CRD has no status any more
	}
	if err != nil {
		return err
	}
	// A deletion goes on without a status, and need not wait for a better CRD.
	if len(Of(stored).Conditions) == 0 && owner.GetDeletionTimestamp() == nil {
		return errors.New("the CRD drops the status: write status: {type: object, x-kubernetes-preserve-unknown-fields: true} in its schema")
	}
	w.reporter.stocks.learn(stored)
	w.reporter.stocks.written(stored)
	for _, e := range announce(previous, status, owner.GetDeletionTimestamp() != nil) {
		w.reporter.events.Event(owner, e.eventType, e.reason, e.message)
	}
	owner.SetResourceVersion(stored.GetResourceVersion())
	owner.Object["status"] = stored.Object["status"]
	// Wait for the cache: what the next reconcile computes from an older object would be refused. Nothing is
	// left to wait for if it was deleted.
	_, _, _ = w.reporter.shown(ctx, stored)
	return nil
}

// shown waits until the cache has a custom resource in this version or a later one, and returns that, not to be
// changed, and how the two compare.
func (r *Reporter) shown(ctx context.Context, version *unstructured.Unstructured) (shown *unstructured.Unstructured, order int, err error) {
	shown = object.Empty(version.GroupVersionKind())
	ctx, cancel := context.WithTimeout(ctx, cacheLag)
	defer cancel()
	err = object.AwaitCached(ctx, func(ctx context.Context) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(version), shown, client.UnsafeDisableDeepCopy)
		if err == nil {
			order, err = resourceversion.CompareResourceVersion(shown.GetResourceVersion(), version.GetResourceVersion())
		}
		return order >= 0, err
	})
	return shown, order, err
}

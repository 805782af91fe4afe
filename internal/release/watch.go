package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// watches are those on the kinds of children of one kind of custom resources. The library has its own, but
// these read the manifest of the release at every reconcile, and skip the events that tell of a child's health.
type watches struct {
	kind      *Kind
	tried     atomic.Bool        // whether all objects were read, as far as that was possible in time
	beginning singleflight.Group // of the watch of a kind: only those that need the kind wait for it

	mu         sync.Mutex // not held while anything is asked
	controller reconciler.ControllerSetup
	watched    map[schema.GroupVersionKind]bool
	refused    map[schema.GroupVersionKind]time.Time // when it was last tried to watch a kind, in vain
}

// NeedLeaderElection has a standby read the objects, too.
func (w *watches) NeedLeaderElection() bool { return false }

// Start fills the cache with all objects of the custom resources before this process leads, and looks for new
// kinds until then. To list thousands only after the election would take seconds, in which nothing that is
// asked for is done.
func (w *watches) Start(ctx context.Context) error {
	read := map[schema.GroupVersionKind]bool{}
	for {
		if err := w.warm(ctx, read); err != nil && ctx.Err() == nil {
			w.kind.clients.mgr.GetLogger().Error(err, "Not all objects of custom resources are read before this process leads", "kind", w.kind.GroupVersionKind.Kind)
		}
		w.tried.Store(true)
		select {
		case <-ctx.Done():
			return nil
		case <-w.kind.clients.mgr.Elected(): // from now on, reconciles do that
			return nil
		case <-time.After(warmPeriod):
		}
	}
}

const (
	// warmPeriod is how often a standby looks for new kinds. For that it goes through all custom resources:
	// some two seconds of CPU with 100,000.
	warmPeriod = 5 * time.Minute
	// warmPatience is how long the readiness of the process waits for the objects of a kind.
	warmPatience = time.Minute
	// AskPatience is how long the API server may take to answer whether it serves a kind. With an aggregated
	// API that hangs, or a broken conversion webhook, it takes minutes, for which workers wait.
	AskPatience = 10 * time.Second
	// readPatience is how long the objects of a kind may take to be read. 100,000 take more than a minute.
	readPatience = 5 * time.Minute
)

// warm reads the objects of all kinds that were not read yet, until this process leads.
func (w *watches) warm(ctx context.Context, read map[schema.GroupVersionKind]bool) error {
	owners := &unstructured.UnstructuredList{}
	owners.SetGroupVersionKind(w.kind.GroupVersionKind)
	if err := w.kind.clients.mgr.GetCache().List(ctx, owners, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var all error
	for _, gvk := range kindsOf(owners.Items) {
		// Secrets are read only if the kind may have some, even if the operator has the right.
		if read[gvk] || gvk == object.Secret && !w.kind.Secrets {
			continue
		}
		select {
		case <-w.kind.clients.mgr.Elected():
			return all
		default:
		}
		late := time.AfterFunc(warmPatience, func() { w.tried.Store(true) })
		err := w.read(ctx, gvk)
		late.Stop()
		read[gvk] = err == nil
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) { // a reconcile tells of these
			all = errors.Join(all, fmt.Errorf("read the objects of kind %s: %w", gvk.Kind, err))
		}
	}
	return all
}

// read fills the cache with the objects of a kind. Only one goroutine does so at a time: one that gives up
// removes the informer.
func (w *watches) read(ctx context.Context, gvk schema.GroupVersionKind) error {
	_, err, _ := w.kind.clients.reading.Do(gvk.String(), func() (any, error) {
		if err := TryList(ctx, w.kind.clients.live, gvk, w.kind.Namespaces, object.ManagedBy()); err != nil {
			return nil, err
		}
		patient, cancel := context.WithTimeout(ctx, readPatience)
		defer cancel()
		_, err := w.kind.clients.mgr.GetCache().GetInformer(patient, object.Empty(gvk))
		if err != nil && ctx.Err() == nil {
			err = errors.Join(err, w.kind.clients.mgr.GetCache().RemoveInformer(ctx, object.Empty(gvk)))
		}
		return nil, err
	})
	return err
}

// readiness is an error until the objects that existed before this process started were read, as far as that
// was possible in time.
func (w *watches) readiness(*http.Request) error {
	if !w.tried.Load() {
		return errors.New("the objects of custom resources are not read yet")
	}
	return nil
}

// kindsOf are the kinds of the children that the status of the custom resources lists.
func kindsOf(owners []unstructured.Unstructured) []schema.GroupVersionKind {
	kinds := map[schema.GroupVersionKind]bool{}
	for i := range owners {
		for _, child := range object.Children(textInStatus(object.Unpack(&owners[i]), "release", "children")) {
			kinds[schema.FromAPIVersionAndKind(child.APIVersion, child.Kind)] = true
		}
	}
	return slices.Collect(maps.Keys(kinds))
}

// TryList fails if the operator may not list the objects of a kind that selector selects in one of the
// namespaces (none for all), or cannot for longer than AskPatience.
func TryList(ctx context.Context, from client.Reader, gvk schema.GroupVersionKind, namespaces []string, selector labels.Selector) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		var last error
		err := wait.PollUntilContextTimeout(ctx, time.Second, AskPatience, true, func(ctx context.Context) (bool, error) { // the API server may be away for a moment
			err := from.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(1))
			if err == nil || last == nil || ctx.Err() == nil { // else it has said more before
				last = err
			}
			return err == nil || meta.IsNoMatchError(err) || apierrors.IsForbidden(err), nil
		})
		if err = cmp.Or(last, err); err != nil {
			return err
		}
	}
	return nil
}

// refusedPeriod is how long a kind that cannot be watched is left alone, before that is tried again.
const refusedPeriod = time.Minute

// ensure watches the kind of a child, and returns once the cache has its objects. A kind on which the operator
// has no right, or that the API server does not serve properly, is refused for now: its informer would wait for
// ever, and with it all custom resources of this kind. A right in the namespace of the child alone is not
// enough if the cache watches others, too: the admin of a namespace could give that.
func (w *watches) ensure(ctx context.Context, child object.Child) (refused bool, err error) {
	gvk := schema.FromAPIVersionAndKind(child.APIVersion, child.Kind)
	watched, last := w.known(gvk)
	if watched || time.Since(last) < refusedPeriod {
		return !watched, nil
	}
	begun := w.beginning.DoChan(gvk.String(), func() (any, error) { return nil, w.begin(ctx, gvk) })
	if !last.IsZero() {
		return true, nil // nobody waits for it again
	}
	err = (<-begun).Err
	if err == nil || meta.IsNoMatchError(err) { // the record is wrong, which the drift check corrects
		return false, nil
	}
	return true, ctx.Err()
}

// known is whether a kind is watched, and when that was last tried in vain.
func (w *watches) known(gvk schema.GroupVersionKind) (watched bool, refused time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[gvk] || w.controller == nil, w.refused[gvk]
}

// begin watches a kind, and notes whether that succeeded.
func (w *watches) begin(ctx context.Context, gvk schema.GroupVersionKind) error {
	if watched, _ := w.known(gvk); watched { // meanwhile
		return nil
	}
	err := w.read(ctx, gvk)
	if err == nil {
		err = w.controller.Watch(source.Kind(w.kind.clients.mgr.GetCache(), object.Empty(gvk),
			handler.TypedFuncs[*unstructured.Unstructured, reconcile.Request]{
				UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*unstructured.Unstructured], q queue) {
					w.enqueue(q, e.ObjectOld, e.ObjectNew)
				},
				DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*unstructured.Unstructured], q queue) {
					w.enqueue(q, e.Object)
				},
			},
			childChanged(),
		))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	log, told := w.kind.clients.mgr.GetLogger().WithValues("kind", gvk.Kind, "of", w.kind.GroupVersionKind.Kind), !w.refused[gvk].IsZero()
	switch {
	case err == nil:
		if told {
			log.Info("Watching a kind of objects again")
		}
		w.watched[gvk] = true
		delete(w.refused, gvk)
	case meta.IsNoMatchError(err):
		delete(w.refused, gvk)
	case ctx.Err() == nil:
		if !told {
			log.Error(err, "Not watching a kind of objects: what happens to them is seen once a minute")
		}
		w.refused[gvk] = time.Now()
	}
	return err
}

// enqueue reconciles the custom resources for which children say to be made. What is in no namespace is watched
// whosever it is: custom resources in namespaces of other operators cannot be read here.
func (w *watches) enqueue(q queue, children ...*unstructured.Unstructured) {
	var last client.ObjectKey
	for _, child := range children {
		kind, of := object.MadeFor(child)
		isRead := len(w.kind.Namespaces) == 0 || slices.Contains(w.kind.Namespaces, of.Namespace)
		if kind == w.kind.GroupVersionKind.GroupKind() && of.Name != "" && of != last && isRead {
			last = of
			w.kind.turns.add(q, reconcile.Request{NamespacedName: of})
		}
	}
}

// owned lists the objects of owner, of all kinds that are watched. It goes through the whole namespace, or all
// cluster-scoped objects: an index would take more memory than most objects in the cache.
func (w *watches) owned(ctx context.Context, owner client.Object, unowned []types.UID) ([]object.Child, error) {
	w.mu.Lock()
	kinds := slices.Collect(maps.Keys(w.watched))
	w.mu.Unlock()
	var owned []object.Child
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		namespace := owner.GetNamespace()
		if inNoNamespace(gvk, w.kind.clients.mapper) {
			namespace = "" // or the cache finds none
		}
		err := w.kind.clients.mgr.GetCache().List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list what the custom resource owns: %w", err)
		}
		for _, item := range list.Items {
			if object.Owned(&item, owner, unowned) {
				owned = append(owned, object.Named(&item))
			}
		}
	}
	return owned, nil
}

// childChanged passes events that may be a drift or a change of health. Creations are our own.
func childChanged() predicate.TypedPredicate[*unstructured.Unstructured] {
	return predicate.TypedFuncs[*unstructured.Unstructured]{
		CreateFunc:  func(event.TypedCreateEvent[*unstructured.Unstructured]) bool { return false },
		DeleteFunc:  func(event.TypedDeleteEvent[*unstructured.Unstructured]) bool { return true },
		GenericFunc: func(event.TypedGenericEvent[*unstructured.Unstructured]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
			goes := e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil // and a finalizer keeps it
			return goes || object.CachedFingerprint(e.ObjectOld) != object.CachedFingerprint(e.ObjectNew) ||
				!reflect.DeepEqual(metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)) ||
				!object.SameStatus(e.ObjectOld, e.ObjectNew)
		},
	}
}

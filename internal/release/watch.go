package release

import (
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// watches of the kinds of children of one kind of custom resources. The library has its own,
// but reads the manifest of the release for it at every reconcile, and skips the events that
// tell of a child's health.
type watches struct {
	mgr        manager.Manager
	owner      schema.GroupVersionKind
	namespaces []string    // that the cache watches; one that is empty stands for all
	secrets    bool        // whether releases may have Secrets
	tried      atomic.Bool // whether what there is was read, as far as that was possible

	mu         sync.Mutex
	controller reconciler.ControllerSetup
	watched    map[schema.GroupVersionKind]bool
	refused    map[schema.GroupVersionKind]time.Time // when the operator was last told that it has no right
}

// NeedLeaderElection has a standby read the objects, too.
func (w *watches) NeedLeaderElection() bool { return false }

// Start has the cache know all objects that there are before this process leads, and those of kinds that are new until then. Whoever has to list them first does
// nothing of what is asked for meanwhile: seconds, with thousands.
func (w *watches) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.mgr.Elected(): // from now on, reconciles do
			cancel()
		case <-ctx.Done():
		}
	}()
	read := map[schema.GroupVersionKind]bool{}
	for ctx.Err() == nil {
		if err := w.warm(ctx, read); err != nil && ctx.Err() == nil {
			w.mgr.GetLogger().Error(err, "Not all objects of custom resources are read before this process leads", "kind", w.owner.Kind)
		}
		w.tried.Store(true)
		select {
		case <-ctx.Done():
		case <-time.After(warmPeriod):
		}
	}
	return nil
}

const (
	// warmPeriod is after how long a standby looks for kinds that are new. It goes through all custom resources for that: half a second of CPU with 100,000.
	warmPeriod = 5 * time.Minute
	// warmPatience is how long the objects of a kind may take to be read. The readiness of the process waits for them.
	warmPatience = time.Minute
)

// warm reads the objects of all kinds but those that were read.
func (w *watches) warm(ctx context.Context, read map[schema.GroupVersionKind]bool) error {
	owners := &unstructured.UnstructuredList{}
	owners.SetGroupVersionKind(w.owner)
	if err := w.mgr.GetCache().List(ctx, owners, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var all error
	for _, kind := range kindsOf(owners.Items) {
		if read[kind.GroupVersionKind()] || object.IsSecret(kind) && !w.secrets { // nobody asks for a Secret, even if the operator may
			continue
		}
		patient, cancel := context.WithTimeout(ctx, warmPatience)
		err := w.tryList(patient, kind.GroupVersionKind())
		if err == nil {
			if _, err = w.mgr.GetCache().GetInformer(patient, kind); err != nil && ctx.Err() == nil {
				// Whatever begins to watch anything waits for all informers, for ever.
				err = errors.Join(err, w.mgr.GetCache().RemoveInformer(ctx, kind))
			}
		}
		cancel()
		read[kind.GroupVersionKind()] = err == nil
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) { // a reconcile tells of these
			all = errors.Join(all, fmt.Errorf("read the objects of kind %s: %w", kind.GetKind(), err))
		}
	}
	return all
}

// readiness is an error as long as this process would have to read first what others have made.
func (w *watches) readiness(*http.Request) error {
	if !w.tried.Load() {
		return errors.New("the objects of custom resources are not read yet")
	}
	return nil
}

// kindsOf is one empty object of each kind of which the custom resources say to have some.
func kindsOf(owners []unstructured.Unstructured) []*unstructured.Unstructured {
	kinds := map[schema.GroupVersionKind]*unstructured.Unstructured{}
	for i := range owners {
		for _, child := range object.Children(textInStatus(&owners[i], "release", "children")) {
			gvk := schema.FromAPIVersionAndKind(child.APIVersion, child.Kind)
			if kinds[gvk] == nil {
				kinds[gvk] = &unstructured.Unstructured{}
				kinds[gvk].SetGroupVersionKind(gvk)
			}
		}
	}
	return slices.Collect(maps.Values(kinds))
}

// tryList is an error where the operator may not list a kind in a namespace that the cache watches.
func (w *watches) tryList(ctx context.Context, gvk schema.GroupVersionKind) error {
	for _, namespace := range w.namespaces {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := w.mgr.GetAPIReader().List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: object.ManagedBy()}, client.Limit(1)); err != nil {
			return err
		}
	}
	return nil
}

// refusedPeriod is how long a kind on which the operator has no right is left alone, before it asks again.
const refusedPeriod = time.Minute

// ensure watches the kind of a child, and returns when the cache knows it. A kind on which
// the operator has no right is refused for now: its informer would wait for ever. A right in the namespace
// of the child is not enough where the cache watches others, too: its admin could give that.
func (w *watches) ensure(ctx context.Context, child object.Child) (refused bool, err error) {
	gvk := schema.FromAPIVersionAndKind(child.APIVersion, child.Kind)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[gvk] || w.controller == nil {
		return false, nil
	}
	if time.Since(w.refused[gvk]) < refusedPeriod {
		return true, nil
	}
	switch err := w.tryList(ctx, gvk); {
	case meta.IsNoMatchError(err):
		return false, nil // the record is wrong, and the drift check will correct it
	case apierrors.IsForbidden(err):
		w.refused[gvk] = time.Now()
		return true, nil
	case err != nil:
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(gvk)
	if err := w.controller.Watch(source.Kind(w.mgr.GetCache(), kind,
		handler.TypedEnqueueRequestsFromMapFunc(w.madeFor),
		childChanged(),
	)); err != nil {
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if _, err := w.mgr.GetCache().GetInformer(ctx, kind); err != nil {
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	w.watched[gvk] = true
	return false, nil
}

// madeFor is the custom resource that a child says to be made for.
func (w *watches) madeFor(_ context.Context, child *unstructured.Unstructured) []reconcile.Request {
	kind, of := object.MadeFor(child)
	if kind != w.owner.GroupKind() || of.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: of}}
}

// owned lists the objects that are owner's, of all kinds that are watched. It goes through all of the namespace: an index
// would cost more memory than what is kept of most objects.
func (w *watches) owned(ctx context.Context, owner client.Object, unowned []types.UID) ([]object.Child, error) {
	w.mu.Lock()
	kinds := slices.Collect(maps.Keys(w.watched))
	w.mu.Unlock()
	var owned []object.Child
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		err := w.mgr.GetCache().List(ctx, list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list what the custom resource owns: %w", err)
		}
		for _, item := range list.Items {
			if object.Owned(&item, owner, unowned) {
				owned = append(owned, object.Child{APIVersion: item.GetAPIVersion(), Kind: item.GetKind(), Name: item.GetName()})
			}
		}
	}
	return owned, nil
}

// childChanged lets pass what may be a drift or a change of health. A creation is our own.
func childChanged() predicate.TypedPredicate[*unstructured.Unstructured] {
	return predicate.TypedFuncs[*unstructured.Unstructured]{
		CreateFunc:  func(event.TypedCreateEvent[*unstructured.Unstructured]) bool { return false },
		DeleteFunc:  func(event.TypedDeleteEvent[*unstructured.Unstructured]) bool { return true },
		GenericFunc: func(event.TypedGenericEvent[*unstructured.Unstructured]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
			return object.CachedFingerprint(e.ObjectOld) != object.CachedFingerprint(e.ObjectNew) ||
				!reflect.DeepEqual(e.ObjectOld.Object["status"], e.ObjectNew.Object["status"])
		},
	}
}

package release

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// watches of the kinds of children of one kind of custom resources. The library has its own,
// but reads the manifest of the release for it at every reconcile, and skips the events that
// tell of a child's health.
type watches struct {
	mgr   manager.Manager
	owner schema.GroupVersionKind

	mu         sync.Mutex
	controller reconciler.ControllerSetup
	watched    map[schema.GroupVersionKind]bool
	refused    map[schema.GroupVersionKind]time.Time // when the operator was last told that it has no right
}

// refusedPeriod is how long a kind on which the operator has no right is left alone, before it asks again.
const refusedPeriod = time.Minute

// ensure watches the kind of a child, and returns when the cache knows it. A kind on which
// the operator has no right is refused for now: its informer would wait for ever.
func (w *watches) ensure(ctx context.Context, namespace string, child Child) (refused bool, err error) {
	gvk := schema.FromAPIVersionAndKind(child.APIVersion, child.Kind)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[gvk] || w.controller == nil {
		return false, nil
	}
	if time.Since(w.refused[gvk]) < refusedPeriod {
		return true, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = w.mgr.GetAPIReader().List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	if meta.IsNoMatchError(err) {
		return false, nil // the record is wrong, and the drift check will correct it
	}
	if apierrors.IsForbidden(err) {
		w.refused[gvk] = time.Now()
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	object, owner := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	owner.SetGroupVersionKind(w.owner)
	if err := w.controller.Watch(source.Kind(w.mgr.GetCache(), object,
		handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](w.mgr.GetScheme(), w.mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner()),
		childChanged(),
	)); err != nil {
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if _, err := w.mgr.GetCache().GetInformer(ctx, object); err != nil {
		return false, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	w.watched[gvk] = true
	return false, nil
}

// childChanged lets pass what may be a drift or a change of health. A creation is our own.
func childChanged() predicate.TypedPredicate[*unstructured.Unstructured] {
	return predicate.TypedFuncs[*unstructured.Unstructured]{
		CreateFunc:  func(event.TypedCreateEvent[*unstructured.Unstructured]) bool { return false },
		DeleteFunc:  func(event.TypedDeleteEvent[*unstructured.Unstructured]) bool { return true },
		GenericFunc: func(event.TypedGenericEvent[*unstructured.Unstructured]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
			return e.ObjectOld.GetAnnotations()[fingerprintAnnotation] != e.ObjectNew.GetAnnotations()[fingerprintAnnotation] ||
				!reflect.DeepEqual(e.ObjectOld.Object["status"], e.ObjectNew.Object["status"])
		},
	}
}

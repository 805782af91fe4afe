package release

import (
	"context"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// watchOwners watches the custom resources for what the library's own watch does not do. A deleted one is
// buried: nobody else would forget it. One that the selector no longer matches is reconciled once more, to be
// let go, if it may be this operator's. One with an unseen edit from before this process led goes before all
// those that only have to be looked at: with thousands, that takes longer than to replace a leader.
func (k *Kind) watchOwners(c reconciler.ControllerSetup) error {
	selects := func(obj *unstructured.Unstructured) bool { return k.Selector.Matches(labels.Set(obj.GetLabels())) }
	request := func(obj *unstructured.Unstructured) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
	}
	mine := func(obj *unstructured.Unstructured) bool {
		operator, told, _ := unstructured.NestedString(object.Unpack(obj).Object, "status", "operator")
		return !told || operator == k.clients.operator
	}
	// With before, since another operator may just have taken it over.
	leave := func(before, obj *unstructured.Unstructured, q queue) {
		if !selects(obj) && (mine(obj) || mine(before)) {
			q.Add(request(obj))
		}
	}
	turn := func(obj *unstructured.Unstructured, q queue) { // the library adds it, too
		if selects(obj) && waits(obj) {
			k.turns.add(q, request(obj))
		}
	}
	orphan := func(obj *unstructured.Unstructured) {
		if orphans(obj) { // the garbage collector may have finished before a reconcile sees that
			k.clients.ledger.write(obj.GetUID(), func(n *note) { n.orphaned = true })
		}
	}
	bury := func(obj *unstructured.Unstructured, q queue) {
		k.vanished.add(lost{Unstructured: obj, since: time.Now()})
		q.Add(request(obj))
	}
	return c.Watch(source.Kind(k.clients.mgr.GetCache(), object.Empty(k.GroupVersionKind), handler.TypedFuncs[*unstructured.Unstructured, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*unstructured.Unstructured], q queue) {
			orphan(e.Object)
			if !e.IsInInitialList {
				turn(e.Object, q)
				return
			}
			leave(e.Object, e.Object, q)
			if prior, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok && selects(e.Object) && waits(e.Object) {
				prior.AddWithOpts(priorityqueue.AddOpts{Priority: new(0)}, request(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*unstructured.Unstructured], q queue) {
			another := e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
			if another {
				bury(e.ObjectOld, q)
			}
			orphan(e.ObjectNew)
			if another || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() { // else it may be our own finalizer
				turn(e.ObjectNew, q)
			}
			leave(e.ObjectOld, e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*unstructured.Unstructured], q queue) {
			bury(e.Object, q)
		},
	}))
}

// waits is whether a custom resource has an edit or a deletion that no operator has seen yet.
func waits(obj *unstructured.Unstructured) bool {
	if obj.GetDeletionTimestamp() != nil {
		return true
	}
	observed, _, _ := unstructured.NestedInt64(object.Unpack(obj).Object, "status", "observedGeneration")
	return observed != obj.GetGeneration()
}

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// TakenOver is the reason of the event about a custom resource that a stock Helm operator has served so far.
	TakenOver = "TakenOver"

	// stockFinalizer is the finalizer of operator-sdk's helm-operator. That of helm-operator-plugins is the
	// library's, and so ours, too.
	stockFinalizer = "helm.sdk.operatorframework.io/uninstall-release"
	// asking is a finalizer that takes the place of a stock operator's while that is asked whether it lives.
	asking = "webapp.demo.welcome.domain/taking-over"
	// stockPatience is how long a stock operator has to put its finalizer back: it reconciles at every change,
	// and does that first.
	stockPatience = 10 * time.Second
	// stockPeriod is the time between two such questions to one that lives.
	stockPeriod = 10 * time.Second
	// stockUninstall is how long a stock operator that has answered has to uninstall what is deleted: after
	// that, it counts as stopped.
	stockUninstall = time.Minute
)

// stocks takes over custom resources of one kind from stock Helm operators. These know no claims, and write a
// status as if nobody else did. But before anything else, they put their finalizer back. So it is removed, with
// another one in its place, lest the custom resource goes unnoticed meanwhile, and nothing else is done unless
// it stays away. If somebody has forgotten to stop a stock operator, the custom resource is left to it, and
// nobody fights.
type stocks struct {
	client.Client
	releases releases
	events   record.EventRecorder

	mu    sync.Mutex
	moves map[client.ObjectKey]*move // of the custom resources that are there
	// The stock operators that live, by namespace: whoever may write a custom resource there can pose as one, but hold
	// up nobody else.
	live  map[string]stock
	drops *bool // whether the CRD drops the fields that tell our status from theirs; nil if that is not known
}

// move is the state of a custom resource that is taken over from a stock operator.
type move struct {
	uid     types.UID
	asked   time.Time // when its finalizer was taken away
	deleted time.Time // when it was first seen to be deleted
	taken   bool      // it is taken over, even if it does not show that yet
	version string    // the resource version of its first status since, empty until that is written
}

// stock is a stock operator that answers.
type stock struct {
	last time.Time // when it did
	next time.Time // when to ask again
}

func newStocks(c client.Client, releases releases, events record.EventRecorder) *stocks {
	return &stocks{Client: c, releases: releases, events: events, moves: map[client.ObjectKey]*move{}, live: map[string]stock{}}
}

// hasFinalizer is whether something has still to be done before a custom resource goes.
func hasFinalizer(obj client.Object) bool {
	return slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool { return f == Finalizer || replaced(f) })
}

// replaced is whether the library's finalizer replaces another one.
func replaced(f string) bool { return f == stockFinalizer || f == asking }

// isStock is whether a stock operator has written a custom resource last, or may have: it has a finalizer that
// only those have, or a status that says neither which generation was observed nor by whom.
func isStock(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(obj.GetFinalizers(), replaced) || hasStockStatus(obj)
}

func hasStockStatus(obj *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	_, observed, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return len(conditions) > 0 && !observed && release.ClaimedBy(obj) == ""
}

// admit is whether a custom resource may be served as far as stock operators are concerned.
func (s *stocks) admit(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if !isStock(obj) || s.isTaken(obj) || !slices.ContainsFunc(obj.GetFinalizers(), replaced) && s.isDropped(ctx, obj) {
		s.inherit(obj)
		return true, nil
	}
	now := time.Now()
	if obj.GetDeletionTimestamp() != nil {
		wait := s.uninstalls(obj, now)
		if wait > 0 {
			s.releases.Requeue(obj, min(wait, stockPeriod))
		}
		return wait <= 0, nil
	}
	asked := slices.Contains(obj.GetFinalizers(), asking)
	answered := slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool { return f == stockFinalizer || f == Finalizer })
	var finalizers []string
	switch {
	case hasStockStatus(obj) && s.releases.State(obj).Revision > 0: // it has overwritten the status of this operator: somebody has started it
		s.leave(obj, now)
		s.releases.Requeue(obj, stockPeriod)
		return false, nil
	case asked && answered:
		s.leave(obj, now)
		finalizers = slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == asking })
	case asked:
		wait := s.waits(obj, now)
		if wait <= 0 {
			s.takeOver(obj)
			return true, nil
		}
		s.releases.Requeue(obj, wait)
		return false, nil
	default:
		if wait := s.turn(obj, now); wait > 0 {
			s.releases.Requeue(obj, wait)
			return false, nil
		}
		finalizers = append(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == Finalizer || replaced(f) }), asking)
	}
	err := writeFinalizers(ctx, s.Client, obj, finalizers)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil // the change brings the next reconcile
	}
	if err != nil {
		return false, unwritten{fmt.Errorf("ask whether a stock Helm operator serves the custom resource: %w", err), itsFinalizers}
	}
	return false, nil // nor does this one come without one
}

// isDropped is whether the CRD drops the fields that tell our status from theirs, so that every status looks
// like theirs.
func (s *stocks) isDropped(ctx context.Context, obj *unstructured.Unstructured) bool {
	s.mu.Lock()
	known := s.drops
	s.mu.Unlock()
	if known != nil {
		return *known
	}
	asked := obj.DeepCopy()
	if unstructured.SetNestedField(asked.Object, "anybody", "status", "operator") != nil || s.Status().Update(ctx, asked, client.DryRunAll) != nil {
		return false // the next reconcile asks again
	}
	s.learn(asked)
	return hasStockStatus(asked)
}

// learn finds that out from the API server's answer to a write of the status.
func (s *stocks) learn(answer *unstructured.Unstructured) {
	dropped := hasStockStatus(answer)
	s.mu.Lock()
	defer s.mu.Unlock()
	if dropped && (s.drops == nil || !*s.drops) {
		logf.Log.WithName("claims").Info("The CRD drops status.operator and status.observedGeneration: that a stock Helm operator is started again goes unnoticed. Write status: {type: object, x-kubernetes-preserve-unknown-fields: true} in its schema",
			"kind", answer.GetKind())
	}
	s.drops = &dropped
}

// move returns the move of a custom resource. The lock is held.
func (s *stocks) move(obj client.Object) *move {
	key := client.ObjectKeyFromObject(obj)
	if s.moves[key] == nil || s.moves[key].uid != obj.GetUID() {
		s.moves[key] = &move{uid: obj.GetUID()}
	}
	return s.moves[key]
}

// gone is told that a custom resource is gone.
func (s *stocks) gone(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.moves, key)
}

// uninstalls is for how long a deletion is left to the stock operator whose finalizer is there. It can no
// longer be asked: no finalizer can be added to an object that is being deleted.
func (s *stocks) uninstalls(obj *unstructured.Unstructured, now time.Time) time.Duration {
	its := slices.Contains(obj.GetFinalizers(), stockFinalizer) || slices.Contains(obj.GetFinalizers(), Finalizer) && hasStockStatus(obj)
	if !its {
		return 0 // it does nothing without
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.move(obj)
	if m.deleted.IsZero() {
		m.deleted = now
	}
	there, lives := s.live[obj.GetNamespace()]
	if !lives {
		return stockPatience - now.Sub(m.deleted)
	}
	return stockUninstall - min(now.Sub(m.deleted), now.Sub(there.last))
}

// isTaken is whether a custom resource was taken over, and only does not show that yet.
func (s *stocks) isTaken(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moves[client.ObjectKeyFromObject(obj)]
	if m == nil || !m.taken || m.uid != obj.GetUID() {
		return false
	}
	if m.version == "" || newer(m.version, obj.GetResourceVersion()) {
		return true
	}
	delete(s.moves, client.ObjectKeyFromObject(obj))
	return false
}

// leave leaves a custom resource to the stock operator that has put its finalizer back.
func (s *stocks) leave(obj *unstructured.Unstructured, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.live[obj.GetNamespace()]; !known {
		logf.Log.WithName("claims").Info("Standing back: a stock Helm operator is still at work. Stop it, and its custom resources are taken over", "first", client.ObjectKeyFromObject(obj))
	}
	s.live[obj.GetNamespace()] = stock{last: now, next: now.Add(stockPeriod)}
	delete(s.moves, client.ObjectKeyFromObject(obj))
	if release.ClaimedBy(obj) == "" { // else only the finalizer is theirs, which anybody can write
		s.releases.Forget(obj)
	}
	s.events.Event(obj, corev1.EventTypeWarning, StandsBack, "Left to a stock Helm operator, which is still at work: it puts back what is its own. Stop it, and this operator takes over within a minute. "+
		"If none runs, something else puts its finalizer back, a manifest in Git say: take it out there")
}

// waits is for how long an answer is still awaited. An operator that answers for others may only be slow.
func (s *stocks) waits(obj *unstructured.Unstructured, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.move(obj)
	if m.asked.IsZero() {
		m.asked = now
	}
	since := m.asked
	if last := s.live[obj.GetNamespace()].last; last.After(since) {
		since = last
	}
	return stockPatience - now.Sub(since)
}

// turn is for how long no further question is asked. All are asked at once, unless a stock operator lives: then
// one at a time.
func (s *stocks) turn(obj *unstructured.Unstructured, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	there, lives := s.live[obj.GetNamespace()]
	if wait := there.next.Sub(now); lives && wait > 0 {
		return wait
	}
	if lives {
		there.next = now.Add(stockPeriod)
		s.live[obj.GetNamespace()] = there
	}
	return 0
}

// takeOver begins to serve a custom resource for which no stock operator answers.
func (s *stocks) takeOver(obj *unstructured.Unstructured) {
	s.mu.Lock()
	delete(s.live, obj.GetNamespace())
	*s.move(obj) = move{uid: obj.GetUID(), taken: true}
	s.mu.Unlock()
	if release.ClaimedBy(obj) != "" {
		return // it was this operator's, but for a finalizer
	}
	s.inherit(obj)
	s.events.Event(obj, corev1.EventTypeNormal, TakenOver, "From a stock Helm operator: its objects go on as they are. Revisions begin with 1, for those so far are in Secrets, which go with the custom resource")
}

// inherit has what the stock operator has applied last deleted where the chart no longer makes it. At each
// reconcile until the status no longer has that: this process may not be the one that the first revision
// succeeds in.
func (s *stocks) inherit(obj *unstructured.Unstructured) {
	if manifest, _, _ := unstructured.NestedString(obj.Object, "status", "deployedRelease", "manifest"); manifest != "" {
		s.releases.Inherit(obj, manifest)
	}
}

// written notes that the status of a custom resource is now this operator's.
func (s *stocks) written(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.moves[client.ObjectKeyFromObject(obj)]; m != nil && m.uid == obj.GetUID() && m.taken && m.version == "" {
		m.version = obj.GetResourceVersion()
	}
}

// writeFinalizers writes the finalizers of a custom resource, unless somebody has written it since it was read,
// and reads the answer into obj.
func writeFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": obj.GetResourceVersion()}})
	if err != nil {
		return fmt.Errorf("encode the finalizers: %w", err)
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
}

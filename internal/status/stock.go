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
)

const (
	// TakenOver is the reason of the event about a custom resource that a stock Helm operator has served so far.
	TakenOver = "TakenOver"

	// stockFinalizer is that of operator-sdk's helm-operator. The one of helm-operator-plugins is the library's, and so ours.
	stockFinalizer = "helm.sdk.operatorframework.io/uninstall-release"
	// asking is a finalizer that stands for those of the stock operators while they are asked whether they live.
	asking = "webapp.demo.welcome.domain/taking-over"
	// stockPatience is how long a stock operator has to put its finalizer back: it reconciles at every change, and does that first.
	stockPatience = 10 * time.Second
	// stockPeriod is after how long one that lives is asked again.
	stockPeriod = 10 * time.Second
)

// stocks takes custom resources of one kind over from stock Helm operators. These know no claims, and write a status as if nobody else did. But they put
// their finalizer back before they do anything else. So that is taken away, with another one in its place, lest the custom resource goes unnoticed
// meanwhile; and nothing else is done before it stays away. One that somebody has forgotten to stop is left alone so, and nobody fights.
type stocks struct {
	client.Client
	releases releases
	events   record.EventRecorder

	mu    sync.Mutex
	asked map[types.UID]time.Time
	taken map[types.UID]string // what was taken over: the resource version of its first status, empty until that is written
	live  map[string]stock     // by namespace: who may write a custom resource there can play one, and hold up nobody else
}

// stock is a stock operator that answers.
type stock struct {
	last time.Time // when it did
	next time.Time // when to ask again
}

func newStocks(c client.Client, releases releases, events record.EventRecorder) *stocks {
	return &stocks{Client: c, releases: releases, events: events, asked: map[types.UID]time.Time{}, taken: map[types.UID]string{}, live: map[string]stock{}}
}

// hasFinalizer is whether something has still to be done before a custom resource goes.
func hasFinalizer(obj client.Object) bool {
	return slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool { return f == Finalizer || replaced(f) })
}

// replaced is whether a finalizer goes when the library's comes.
func replaced(f string) bool { return f == stockFinalizer || f == asking }

// isStock is whether a stock operator has written a custom resource last, or may have: by a finalizer that only it has, or by a status that says neither
// which generation was observed nor by whom.
func isStock(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(obj.GetFinalizers(), replaced) || hasStockStatus(obj)
}

func hasStockStatus(obj *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	_, observed, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return len(conditions) > 0 && !observed && Operator(obj) == ""
}

// admit says whether a custom resource may be served as far as stock operators are concerned.
func (s *stocks) admit(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if !isStock(obj) || obj.GetDeletionTimestamp() != nil || s.isTaken(obj) {
		return true, nil
	}
	now := time.Now()
	asked := slices.Contains(obj.GetFinalizers(), asking)
	answered := slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool { return f == stockFinalizer || f == Finalizer })
	var finalizers []string
	switch {
	case hasStockStatus(obj) && s.releases.State(obj).Revision > 0: // it has written over that of this operator: somebody has started it
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
		return false, fmt.Errorf("ask whether a stock Helm operator serves the custom resource: %w", err)
	}
	return false, nil // nor does this one come without one
}

// isTaken is whether a custom resource was taken over, and only does not show that yet.
func (s *stocks) isTaken(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, taken := s.taken[obj.GetUID()]
	if taken && (version == "" || newer(version, obj.GetResourceVersion())) {
		return true
	}
	delete(s.taken, obj.GetUID())
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
	delete(s.asked, obj.GetUID())
	s.releases.Forget(obj)
	s.events.Event(obj, corev1.EventTypeWarning, StandsBack, "Left to a stock Helm operator, which is still at work: it puts back what is its own. Stop it, and this operator takes over within a minute")
}

// waits is for how long an answer is still waited for. One that answers for others may only be slow.
func (s *stocks) waits(obj *unstructured.Unstructured, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.asked[obj.GetUID()]
	if !known {
		since = now
		s.asked[obj.GetUID()] = since
	}
	if last := s.live[obj.GetNamespace()].last; last.After(since) {
		since = last
	}
	return stockPatience - now.Sub(since)
}

// turn is for how long no further question is asked: all at once, unless a stock operator lives, then one at a time.
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

// takeOver begins to serve what no stock operator answers for.
func (s *stocks) takeOver(obj *unstructured.Unstructured) {
	s.mu.Lock()
	delete(s.asked, obj.GetUID())
	delete(s.live, obj.GetNamespace())
	s.taken[obj.GetUID()] = ""
	s.mu.Unlock()
	manifest, _, _ := unstructured.NestedString(obj.Object, "status", "deployedRelease", "manifest")
	s.releases.Inherit(obj, manifest)
	s.events.Event(obj, corev1.EventTypeNormal, TakenOver, "From a stock Helm operator: its objects go on as they are. Revisions begin with 1, for those so far are in Secrets, which go with the custom resource")
}

// written is told that this operator has written the status of a custom resource.
func (s *stocks) written(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version, taken := s.taken[obj.GetUID()]; taken && version == "" {
		s.taken[obj.GetUID()] = obj.GetResourceVersion()
	}
}

// writeFinalizers writes the finalizers of a custom resource if nobody has written since it was read. Its answer is in obj.
func writeFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": obj.GetResourceVersion()}})
	if err != nil {
		return fmt.Errorf("encode the finalizers: %w", err)
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
}

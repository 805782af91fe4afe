package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// askPeriod is how often another operator is asked whether it lives, while it answers.
	askPeriod = 10 * time.Second
	// suspicion is how long without an answer until it is asked in all other namespaces, too.
	suspicion = 5 * time.Second
	// patience is how long without an answer until it counts as gone. It is longer than a standby waits for the
	// lease of a leader that died and, with the two above, so short that somebody else is at work within a
	// minute.
	patience = 25 * time.Second
	// lookPeriod is between two looks whether somebody has to be asked, or has not answered.
	lookPeriod = 2 * time.Second
)

// challenger is the operator that asks, by the status of a custom resource, whether the one that has claimed it lives;
// empty if none does.
func challenger(obj *unstructured.Unstructured) string {
	challenger, _, _ := unstructured.NestedString(obj.Object, "status", "challenger")
	return challenger
}

// Start asks and answers until ctx ends.
func (c *claims) Start(ctx context.Context) error {
	informer, err := c.cache.GetInformer(ctx, object.Empty(c.kind))
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	// Not by a reconcile, which may be waiting for a hook.
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.notice,
		UpdateFunc: func(_, obj any) { c.notice(obj) },
	})
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { // answers do not wait until this operator has asked others, which may take seconds for each
		for c.again(ctx, c.asked) {
			c.answer(ctx)
		}
	})
	for c.again(ctx, nil) {
		c.ask(ctx, time.Now())
	}
	return nil
}

// again waits for the next look, or for told. It is false once ctx ends.
func (c *claims) again(ctx context.Context, told <-chan struct{}) bool {
	select {
	case <-ctx.Done():
	case <-told:
	case <-time.After(lookPeriod):
	}
	return ctx.Err() == nil
}

// notice notes a question that has to be answered.
func (c *claims) notice(obj any) {
	asked, ok := obj.(*unstructured.Unstructured)
	if !ok || !object.MayHave(asked, "challenger") || challenger(object.Unpack(asked)) == "" {
		return
	}
	c.mu.Lock()
	c.questions[client.ObjectKeyFromObject(asked)] = true
	c.mu.Unlock()
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// answer removes the questions to this operator. A custom resource that it no longer selects is let go by a
// reconcile, once that is done with it.
func (c *claims) answer(ctx context.Context) {
	c.mu.Lock()
	questions := c.questions
	c.questions = map[client.ObjectKey]bool{}
	c.mu.Unlock()
	for key := range questions {
		obj := c.cached(ctx, key)
		if obj == nil {
			continue
		}
		if obj = object.Unpack(obj); challenger(obj) == "" || !c.isHeldBy(ctx, c.self, obj) {
			continue
		}
		if !c.serves.Matches(labels.Set(obj.GetLabels())) {
			c.releases.Requeue(obj, 0)
		}
		_, err := c.write(ctx, obj, c.self, "")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // the change brings the question back, if there still is one
		}
		if err != nil {
			c.log.Error(err, "Could not answer that this operator lives; trying again", "challenger", challenger(obj), "custom resource", key)
			c.mu.Lock()
			c.questions[key] = true
			c.mu.Unlock()
		}
	}
}

// cached is a custom resource as the cache has it, nil if it is not there.
func (c *claims) cached(ctx context.Context, key client.ObjectKey) *unstructured.Unstructured {
	obj := object.Empty(c.kind)
	if err := c.Get(ctx, key, obj, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return obj
}

// isHeldBy is whether operator has claimed a custom resource.
func (c *claims) isHeldBy(ctx context.Context, operator string, obj *unstructured.Unstructured) bool {
	holder, err := c.holder(ctx, obj)
	return err == nil && holder == operator
}

// ask asks other operators whether they live, and takes over from those that have not answered.
func (c *claims) ask(ctx context.Context, now time.Time) {
	ask, gone := c.look(ctx, now)
	began := time.Now()
	for at, obj := range gone {
		// Only if nobody has written it since the question: it could be this operator that gets no updates.
		_, err := c.write(ctx, obj, c.self, "")
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // the next look sees what has changed
		}
		if err != nil {
			c.concerning(at, func(there *other) { there.question = "" }) // the next one may be in another custom resource, which is not refused
			c.fails(at, obj, err, "Could not take over from an operator that does not answer; trying again")
			continue
		}
		c.concerning(at, func(there *other) { there.gone, there.asked = true, now })
		c.log.Info("Taking over from an operator that does not answer", "other", at.operator, "this", c.self, "namespace", at.namespace)
	}
	for at, obj := range ask {
		asked, err := obj, error(nil)
		if challenger(obj) == "" {
			asked, err = c.write(ctx, obj, release.ClaimedBy(obj), c.self)
		}
		// With many places that may be long after now, and the last ones get as long to answer as the first.
		written := now.Add(time.Since(began).Truncate(lookPeriod))
		if err == nil {
			c.concerning(at, func(there *other) {
				there.question, there.version, there.asked = asked.GetName(), asked.GetResourceVersion(), written
				if now.Sub(c.told[at.operator]) >= TellPeriod {
					c.tell(at.operator, asked)
				}
			})
		} else if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.concerning(at, func(there *other) { there.asked = written })
			c.fails(at, obj, err, "Could not ask another operator whether it lives; trying again")
		}
	}
}

// fails logs why a question, or a claim after one, is not written, and has the custom resource say so if that is
// refused: nothing that is asked of it is done meanwhile.
func (c *claims) fails(at place, obj *unstructured.Unstructured, err error, what string) {
	c.log.Error(err, what, "other", at.operator, "custom resource", client.ObjectKeyFromObject(obj))
	if isRefusal(err) {
		c.events.Event(obj, corev1.EventTypeWarning, WriteRefused, refusedBecause(itsStatus, err))
	}
}

func (c *claims) concerning(at place, change func(*other)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := c.others[at]; there != nil {
		change(there)
	}
}

// look checks who has answered since the last look. It returns the places in which to ask now, and those that
// got no answer for too long, each with a custom resource. While an operator answers, it is asked in one place
// only; once it is suspected to be gone, in all.
func (c *claims) look(ctx context.Context, now time.Time) (ask, gone map[place]*unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.free, func(_ types.UID, since time.Time) bool { return now.Sub(since) > time.Minute }) // deleted meanwhile, or another operator's
	ask, gone = map[place]*unstructured.Unstructured{}, map[place]*unstructured.Unstructured{}
	waiting, suspect, last := map[string]bool{}, map[string]bool{}, map[string]time.Time{}
	for at, there := range c.others {
		if there.gone {
			c.wake(ctx, at, there)
		}
		obj := c.hear(ctx, at, there)
		silent := now.Sub(there.asked)
		if obj != nil && silent >= patience {
			gone[at] = obj
		}
		waiting[at.operator] = waiting[at.operator] || obj != nil
		suspect[at.operator] = suspect[at.operator] || there.gone || obj != nil && silent >= suspicion
		if there.asked.After(last[at.operator]) {
			last[at.operator] = there.asked
		}
	}
	due := now.Add(-askPeriod)
	for _, at := range slices.SortedFunc(maps.Keys(c.others), func(a, b place) int { return c.others[a].asked.Compare(c.others[b].asked) }) {
		there := c.others[at]
		if there.gone || there.question != "" || there.asked.After(due) || !suspect[at.operator] && (waiting[at.operator] || last[at.operator].After(due)) {
			continue
		}
		for name := range there.left {
			if obj := c.leftTo(ctx, at, there, name); obj != nil {
				ask[at], waiting[at.operator] = object.Unpack(obj), true
				break
			}
		}
	}
	return ask, gone
}

// hear returns the custom resource with a question that is not answered yet, nil if there is none.
func (c *claims) hear(ctx context.Context, at place, there *other) *unstructured.Unstructured {
	if there.question == "" {
		return nil
	}
	obj := c.leftTo(ctx, at, there, there.question)
	if obj == nil { // it is gone, or has another holder: that is no answer
		there.question, there.asked = "", time.Time{}
		return nil
	}
	if obj = object.Unpack(obj); challenger(obj) == "" && newer(obj.GetResourceVersion(), there.version) {
		there.question = ""
		return nil
	}
	return obj
}

func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// wake reconciles what an operator that is gone still has.
func (c *claims) wake(ctx context.Context, at place, there *other) {
	for name := range there.left {
		if obj := c.leftTo(ctx, at, there, name); obj != nil {
			c.releases.Requeue(obj, 0)
		}
	}
}

// leftTo returns a custom resource that is left to an operator, as the cache has it. One that is no longer left
// to it is forgotten, and the operator with its last one.
func (c *claims) leftTo(ctx context.Context, at place, there *other, name string) *unstructured.Unstructured {
	obj := c.cached(ctx, client.ObjectKey{Namespace: at.namespace, Name: name})
	if obj != nil && c.serves.Matches(labels.Set(obj.GetLabels())) {
		known := there.left[name]
		if known.version == obj.GetResourceVersion() {
			return obj
		}
		if c.isHeldBy(ctx, at.operator, object.Unpack(obj)) {
			there.left[name] = left{uid: known.uid, version: obj.GetResourceVersion()}
			return obj
		}
	}
	delete(there.left, name)
	if len(there.left) == 0 {
		delete(c.others, at)
	}
	return nil
}

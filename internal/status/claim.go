package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// StandsBack is the reason of the event about a custom resource that is left to another operator.
	StandsBack = "StandsBack"
	// LeftTo begins the message of that event, before the quoted name of the other operator.
	LeftTo = "Left to operator "

	// TellPeriod is how often that event is repeated, for one of the custom resources, while both operators
	// run: somebody who looks later sees it, too, and somebody who has ended one of them no longer does.
	TellPeriod = 5 * time.Minute

	// askPeriod is how often another operator is asked whether it lives, while it answers.
	askPeriod = 10 * time.Second
	// suspicion is how long without an answer until it is asked in all other namespaces, too.
	suspicion = 5 * time.Second
	// patience is how long without an answer until it counts as gone. It is longer than a standby waits for the
	// lease of a leader that died and, with the two above, so short that somebody else is at work within a
	// minute.
	patience = 25 * time.Second
	// headStart is for how long a new custom resource is left to another operator that could claim it.
	headStart = 3 * time.Second
	// lookPeriod is between two looks whether somebody has to be asked, or has not answered.
	lookPeriod = 2 * time.Second
	// askTimeout bounds a single request.
	askTimeout = 5 * time.Second
)

func challenger(obj *unstructured.Unstructured) string {
	challenger, _, _ := unstructured.NestedString(obj.Object, "status", "challenger")
	return challenger
}

// claims decide which operator serves a custom resource of one kind, where several operators would. The status
// of each names the operator that wrote it, and no other touches it. Those that stand back ask now and then, in
// the status of a single custom resource, whether that operator lives. It answers by removing the question,
// whatever else it is doing. If it does not answer, what it had is taken over.
type claims struct {
	client.Client
	cache    cache.Cache
	kind     schema.GroupVersionKind
	self     string          // this operator
	serves   labels.Selector // what this operator reconciles
	releases releases
	events   record.EventRecorder
	log      logr.Logger

	mu     sync.Mutex
	others map[place]*other
	// Custom resources left for a while to another operator: unclaimed ones, since when, or ones that it may
	// let go, since they were seen.
	free      map[types.UID]time.Time
	questions map[client.ObjectKey]bool // to this operator
	told      map[string]time.Time      // when an event was last written, by the operator that something is left to
	asked     chan struct{}             // holds one element while there are questions that nobody has looked at
}

// place is a namespace in which another operator is at work. An answer in one namespace does not prove that it
// still watches another one.
type place struct{ operator, namespace string }

// other is another operator in one place.
type other struct {
	left map[string]left // the custom resources that are left to it, by name
	// The name of the custom resource in which it was asked and has not answered, empty if there is none.
	question string
	version  string    // the resource version of that custom resource with the question
	asked    time.Time // when
	gone     bool      // it has not answered: the rest of what it had is taken over
}

// left is a custom resource that is left to another operator.
type left struct {
	uid types.UID
	// The resource version in which it was the other one's: it is not read again, for there may be thousands.
	version string
}

// admit is whether this operator serves a custom resource. One that another operator has claimed is left to it,
// and taken over if that is gone. One that this operator no longer selects is let go.
func (c *claims) admit(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	holder, err := c.holder(ctx, obj)
	switch {
	case err != nil:
		return false, err
	case !c.serves.Matches(labels.Set(obj.GetLabels())):
		return false, c.letGo(ctx, holder, obj)
	case holder == "" && wasLetGo(obj):
		c.releases.Forget(obj) // what this operator remembers of it is from before another one had it
		return c.takeOver(ctx, "", obj)
	case holder == "":
		return !c.yield(obj), nil
	case holder == c.self:
		return true, nil
	case c.leave(holder, obj):
		c.releases.Forget(obj)
		return false, nil
	}
	return c.takeOver(ctx, holder, obj)
}

// holder is the operator that has claimed a custom resource, empty if none has. During its first installation,
// only the release record says so, not the status yet. To forge a record only leaves one's own custom resource
// alone until the named operator fails to answer.
func (c *claims) holder(ctx context.Context, obj *unstructured.Unstructured) (string, error) {
	if holder := release.ClaimedBy(obj); holder != "" || wasLetGo(obj) {
		return holder, nil
	}
	return c.releases.Recorder(ctx, obj)
}

// wasLetGo is whether the operator that had claimed a custom resource has let it go. The record may still name
// that operator.
func wasLetGo(obj *unstructured.Unstructured) bool {
	operator, found, _ := unstructured.NestedString(obj.Object, "status", "operator")
	return found && operator == ""
}

// letGo removes this operator's claim from a custom resource that it no longer selects. It is called by a
// reconcile, and so after the one that has acted on it: the next operator finds no action under way.
func (c *claims) letGo(ctx context.Context, holder string, obj *unstructured.Unstructured) error {
	if holder != c.self { // another operator may have taken it over
		c.releases.Forget(obj)
		return nil
	}
	free := obj.DeepCopy()
	unstructured.RemoveNestedField(free.Object, "status", "challenger")
	if err := unstructured.SetNestedField(free.Object, "", "status", "operator"); err != nil {
		return err
	}
	err := c.update(ctx, free)
	// Else the change causes the next reconcile.
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return unwritten{fmt.Errorf("let go of what is no longer selected: %w", err), itsStatus}
	}
	c.releases.Forget(obj)
	return nil
}

// letsGoNext is whether this operator, if it is the holder, will let a custom resource go in the next
// reconcile, since its label was changed during an action. The status of that action is still written: without
// it, nothing would be proven for the next operator, which would make another password, or run hooks once more.
func (c *claims) letsGoNext(holder string, obj *unstructured.Unstructured) bool {
	return holder == c.self && !c.serves.Matches(labels.Set(obj.GetLabels()))
}

// yield gives another operator that lives in the namespace a head start with an unclaimed custom resource, so
// that the two need not compete for each new one.
func (c *claims) yield(obj *unstructured.Unstructured) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, known := c.free[obj.GetUID()]
	delete(c.free, obj.GetUID())
	if known && time.Since(since) >= headStart {
		return false
	}
	for at, there := range c.others {
		if at.namespace == obj.GetNamespace() && !there.gone {
			if !known {
				since = time.Now()
			}
			c.free[obj.GetUID()] = since
			c.releases.Requeue(obj, headStart)
			return true
		}
	}
	return false
}

// leave leaves a custom resource to holder, unless that operator is gone.
func (c *claims) leave(holder string, obj *unstructured.Unstructured) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := place{holder, obj.GetNamespace()}
	there := c.others[at]
	if there == nil || !there.gone && there.left[obj.GetName()].uid != obj.GetUID() {
		if !c.serves.Empty() && c.mayBeLetGo(obj) {
			return true
		}
	}
	if there == nil {
		there = &other{left: map[string]left{}}
		c.others[at] = there
	}
	if there.left[obj.GetName()].uid != obj.GetUID() {
		delete(c.free, obj.GetUID())
		c.tell(holder, obj)
		there.left[obj.GetName()] = left{uid: obj.GetUID()}
	}
	return !there.gone
}

// mayBeLetGo is whether a custom resource that another operator has claimed may still be let go by it: its
// label may have changed a moment ago, so that it is too early to say that both select it. The lock is held.
func (c *claims) mayBeLetGo(obj *unstructured.Unstructured) bool {
	since, known := c.free[obj.GetUID()]
	if !known {
		since = time.Now()
		c.free[obj.GetUID()] = since
	}
	rest := headStart - time.Since(since)
	if rest > 0 { // each time, since an event in between takes the place of the reconcile that was scheduled
		c.releases.Requeue(obj, rest)
	}
	return rest > 0
}

// tell reports by an event to whom a custom resource is left, and in the log once about each operator. The lock
// is held.
func (c *claims) tell(holder string, obj *unstructured.Unstructured) {
	now := time.Now()
	// These no longer count, and some are of operators that are gone.
	maps.DeleteFunc(c.told, func(_ string, at time.Time) bool { return now.Sub(at) >= TellPeriod })
	c.told[holder] = now
	c.events.Event(obj, corev1.EventTypeWarning, StandsBack, fmt.Sprintf(LeftTo+"%q, which has claimed it in status.operator. "+
		"This operator is %q, and has it once that one has ended or, after its label was moved, lets it go. Where both are to stay, have them watch different namespaces or labels", holder, c.self))
	for at, there := range c.others {
		if at.operator == holder && len(there.left) > 0 {
			return
		}
	}
	c.log.Info("Standing back: another operator serves custom resources that this one watches, too", "other", holder, "this", c.self, "first", client.ObjectKeyFromObject(obj))
}

// takeOver claims a custom resource of another operator, unless somebody has written it since it was read.
func (c *claims) takeOver(ctx context.Context, holder string, obj *unstructured.Unstructured) (bool, error) {
	claimed, err := c.write(ctx, obj, c.self, "")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil // the change brings the next reconcile
	}
	if err != nil {
		return false, unwritten{fmt.Errorf("take over from operator %q: %w", holder, err), itsStatus}
	}
	c.mu.Lock()
	delete(c.free, obj.GetUID())
	c.mu.Unlock()
	c.log.Info("Taken over", "from", holder, "this", c.self, "custom resource", client.ObjectKeyFromObject(obj))
	obj.SetResourceVersion(claimed.GetResourceVersion())
	obj.Object["status"] = claimed.Object["status"]
	return true, nil
}

// write writes the claim and the challenger of a custom resource, unless somebody has written it since it was
// read.
func (c *claims) write(ctx context.Context, obj *unstructured.Unstructured, operator, challenger string) (*unstructured.Unstructured, error) {
	written := obj.DeepCopy()
	for field, value := range map[string]string{"operator": operator, "challenger": challenger} {
		if value == "" {
			unstructured.RemoveNestedField(written.Object, "status", field)
		} else if err := unstructured.SetNestedField(written.Object, value, "status", field); err != nil {
			return nil, err
		}
	}
	return written, c.update(ctx, written)
}

func (c *claims) update(ctx context.Context, obj *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.Status().Update(ctx, obj)
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

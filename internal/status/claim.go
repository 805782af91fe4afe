package status

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

	// headStart is for how long a new custom resource is left to another operator that could claim it.
	headStart = 3 * time.Second
	// askTimeout bounds a single request.
	askTimeout = 5 * time.Second
)

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
	// Custom resources that are left to another operator for headStart, and since when: unclaimed ones, and those that
	// it may be about to let go.
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

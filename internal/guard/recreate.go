package guard

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// goneTimeout bounds how long finalizers may keep a deleted object before the action fails and is tried
	// again.
	goneTimeout = 30 * time.Second
	// soonGone is for how long the wait needs no place for waiting: most objects go at once.
	soonGone = time.Second
	gonePoll = 100 * time.Millisecond
	// shortNames is how long a name may be of any kind in a namespace: CronJobs have the shortest ones.
	shortNames = 52
	// toldCauses bounds how many causes of a refusal are shown.
	toldCauses = 5
)

// Unchangeable is the error for objects that cannot be changed to what the chart wants, and that people have to
// delete.
type Unchangeable struct {
	Err     error
	Objects []object.Child
}

func (u *Unchangeable) Error() string { return u.Err.Error() }

// Blocking are the objects because of which an action has failed, since they cannot be changed to what the chart
// wants.
func Blocking(failed error) (objects []object.Child) {
	object.Each(failed, func(one error) bool {
		if of, is := errors.AsType[*Unchangeable](one); is {
			objects = append(objects, of.Objects...)
		}
		return true
	})
	return objects
}

// errHeadless is why a Service cannot be changed, where the API server would not say so.
var errHeadless = errors.New("spec.clusterIP: None stays as long as the Service is there")

// recreate deletes an object that the API server does not let become what the chart wants, and creates it anew,
// if the kind allows that. refused is the API server's answer. A dry run first asks whether a new object would
// be accepted: for what never is, the existing object must not be deleted.
func (g *Guard) recreate(t *target, refused error, dryRun bool) (*unstructured.Unstructured, error) {
	made, err := g.rehearseAnew(t)
	if err != nil && causes(err) == causes(refused) {
		return nil, refused
	}
	why, kind := causes(refused), t.info.Mapping.GroupVersionKind.GroupKind()
	refusal := fmt.Sprintf("%s cannot be changed to what the chart wants (%s)", describe(t.info), why)
	keeps := g.keeps(t.info, t.live) || object.Kept(t.desired)
	unchangeable := func(format string, args ...any) error {
		err := fmt.Errorf(format, args...)
		if g.rollsBack { // then this is not why the upgrade has failed
			return err
		}
		named := object.Named(t.live)
		g.Unchangeable = append(g.Unchangeable, named)
		return &Unchangeable{err, []object.Child{named}}
	}
	switch {
	case err != nil && (keeps || kind == object.Claim || takesClaims(t.live)):
		return nil, fmt.Errorf("%w. Nor is it made anew, for the API server would not take another one: %w", refused, err)
	case err != nil: // for a full quota, or a node port that it has itself: once deleted, it might not come back
		return nil, unchangeable("%w. Nor is it made anew, for the API server would not take another one: %w. If it is itself what leaves no room for that, delete it by hand", refused, err)
	case g.isGiven(t.live), object.JustAdopted(t.live, g.owner, g.plan.Revision):
		return nil, unchangeable("%s, and what is taken over is not made anew: have the spec say the same, or delete it by hand", refusal)
	case keeps:
		return nil, unchangeable("%s, and the chart asks to keep it: %s, or delete it by hand", refusal, leaveThem)
	case takesClaims(t.live):
		return nil, unchangeable("%s, and what its pods have stored would go with it (persistentVolumeClaimRetentionPolicy.whenDeleted: Delete): have it say Retain first, which can be changed, or %s", refusal, leaveThem)
	case !g.plan.Recreate.Has(kind):
		return nil, unchangeable("%s: %s", refusal, remedy(t, kind))
	case kind == object.StatefulSet && isUnobserved(t.live):
		return nil, fmt.Errorf("%s is to be made anew (%s), and what its pods have stored may go with it until its controller has seen what it says by now: this is awaited", describe(t.info), why)
	case dryRun:
		return made, nil
	}
	if err := g.takeOut(t); err != nil {
		return nil, err
	}
	created, err := createIn(t.info.Namespace, resource.NewHelper(t.info.Client, t.info.Mapping), object.Anew(t.previous, t.live, t.desired, t.left))
	if err != nil {
		return nil, fmt.Errorf("make %s anew: %w", describe(t.info), said(t.info, err))
	}
	g.plan.Recreated(fmt.Sprintf("%s was deleted and made anew: %s", describe(t.info), why))
	return content(created), nil
}

// rehearseAnew is what the API server would make of a new object in place of the live one, or why it would take
// none.
func (g *Guard) rehearseAnew(t *target) (*unstructured.Unstructured, error) {
	probe := object.Anew(t.previous, t.live, t.desired, t.left)
	probe.SetName(probeName(t.info, g.owner.GetName(), t.live.GetUID())) // its own name is taken
	answer, err := resource.NewHelper(t.info.Client, t.info.Mapping).DryRun(true).Create(t.info.Namespace, false, probe)
	if err != nil {
		return nil, said(t.info, err)
	}
	made := content(answer)
	made.SetName(t.info.Name)
	return made, nil
}

// probeName is a name for another one of an object. It begins and ends like that of the object, if there is room, with
// something more behind the owner's name: policies rule names, ours those of what is in no namespace.
func probeName(info *resource.Info, owner string, uid types.UID) string {
	end := len(info.Name)
	if found := regexp.MustCompile(`(^|[-.])` + regexp.QuoteMeta(owner) + `($|[-.])`).FindStringSubmatchIndex(info.Name); found != nil {
		end = found[4]
	}
	name := info.Name[:end] + "-" + object.Cut(string(uid), 8) + info.Name[end:]
	if info.Namespace != "" && len(name) > shortNames {
		return "dry-run-" + string(uid)
	}
	return name
}

// leaveThem is the advice about immutable fields for all kinds.
const leaveThem = "leave these fields to others (driftDetection.ignore in watches.yaml)"

// remedy is the advice about an object that cannot be changed and whose kind is not made anew.
func remedy(t *target, kind schema.GroupKind) string {
	if kind == object.Claim {
		return "have the spec ask for what it has, or " + leaveThem + ". What is stored in it is lost with it"
	}
	anew := fmt.Sprintf("have the operator delete it and make it anew (recreate: [%s] in watches.yaml), or delete it by hand", kind)
	// Pods of the new template would not be of the selector that was left to others, nor those of the old one of
	// a workload that is made anew without them.
	if kind.Group == appsv1.GroupName && object.SelectsOthers(t.live, t.desired) {
		return anew + ". Either way, its pods start anew"
	}
	text := leaveThem + ", " + anew
	if kind == object.StatefulSet {
		text += " (kubectl delete --cascade=orphan keeps its pods running)"
	}
	return text
}

// takesClaims is whether the claims of a StatefulSet are deleted with it: then it owns them.
func takesClaims(live *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	return policy == string(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
}

// isUnobserved is whether an object's controller has not yet seen its present spec. The controller of a StatefulSet
// takes its owner references off the claims only once it has.
func isUnobserved(live *unstructured.Unstructured) bool {
	observed, isKnown, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return isKnown && observed < live.GetGeneration()
}

// takeOut deletes an object that is to be made anew, and waits until it is gone.
func (g *Guard) takeOut(t *target) error {
	if err := g.remove(t.info, false, none); err != nil {
		return err
	}
	last := t.live
	gone := func(timeout time.Duration) error {
		return wait.PollUntilContextTimeout(g.ctx, gonePoll, timeout, true, func(context.Context) (bool, error) {
			live, err := g.live(t.info)
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			if err == nil {
				last = live
			}
			return err == nil && live.GetUID() != t.live.GetUID(), err
		})
	}
	what := func() Awaited { return Awaited{What: describe(t.info) + " to be gone"} }
	return g.await(what, func() bool { return false }, func() error {
		err := gone(soonGone)
		if wait.Interrupted(err) && g.ctx.Err() == nil { // else the action has ended by now
			if noPlace := g.plan.Wait(); noPlace == nil {
				err = gone(goneTimeout)
			}
		}
		if wait.Interrupted(err) {
			return fmt.Errorf("%s is to be made anew: %s", describe(t.info), object.Going(last))
		}
		return err
	})
}

// causes are the fields that the API server refuses, and why.
func causes(refused error) string {
	named := object.Causes(refused)
	if object.IsDiscreet(refused) || len(named) == 0 {
		return refused.Error()
	}
	var words []string
	for _, cause := range named {
		if text := cause.Field + ": " + object.Why(cause); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	return strings.Join(object.Few(words, toldCauses), "; ")
}

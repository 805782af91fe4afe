package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// attempts bounds how often bringing one object starts again because somebody else has changed it meanwhile.
const attempts = 6

// insists is how many of these attempts, where they write lists, fail if the object has changed since it was seen. After
// that, the status of a busy object must not hold them up.
const insists = 3

// approach brings one object to what the chart wants, attempt by attempt. The first keeps what others have set in
// it. Where the API server refuses a patch, refuse climbs a ladder, from what takes least from others:
//
//  1. the same again, the first time that a webhook or policy denies it: webhooks fail now and then
//  2. leaving alone what would come out the same in a new object, if admission has seen to that
//  3. without what others have set, which may conflict with what the chart wants
//  4. a new object in its place, see recreate, unless what came before was denied: a policy may well mean that
//     the object stays as it is
type approach struct {
	g      *Guard
	t      *target
	helper *resource.Helper
	dryRun bool
	// denied is whether rung 1 was tried.
	denied bool
	// anew is what the API server would make of a new object, set from rung 2 on if it would take one.
	anew *unstructured.Unstructured
	// refused is why the attempts are on rung 3, nil before.
	refused error
	// sent is the last patch that the API server took.
	sent map[string]any
	// conflicts is how often the object had changed since the look.
	conflicts int
}

// bring creates or patches one object until that changes nothing any more: otherwise, what somebody has changed
// between the look and the patch would count as what the chart wants. It returns nil for an object that was
// deleted to make room, see Unchangeable.
func (g *Guard) bring(t *target, dryRun bool) (*unstructured.Unstructured, error) {
	a := &approach{g: g, t: t, helper: resource.NewHelper(t.info.Client, t.info.Mapping).DryRun(dryRun), dryRun: dryRun}
	if t.desired == nil {
		t.desired = g.shape(t.info)
	}
	t.seen, t.wanted = nil, nil
	for range attempts {
		t.left = g.leftIn(t.previous, t.live, t.desired)
		step := a.change
		if t.live == nil {
			step = a.create
		}
		if applied, done, err := step(); done || err != nil {
			return applied, err
		}
	}
	return nil, fmt.Errorf("%s is changed again by somebody else each time that it is put right: end that (kubectl get -o yaml --show-managed-fields says who it is), or leave the fields to them (driftDetection.ignore in watches.yaml)", describe(t.info))
}

// create creates an object that does not exist. If somebody else has created one since the look, that is looked
// at.
func (a *approach) create() (applied *unstructured.Unstructured, done bool, err error) {
	g, t := a.g, a.t
	t.seen = nil
	if slices.ContainsFunc(g.Unchangeable, object.Named(t.desired).SameInAnyVersion) {
		return nil, true, nil
	}
	g.adopt(content(t.info.Object))
	answer, err := createIn(t.info.Namespace, a.helper, t.info.Object)
	switch {
	case apierrors.IsAlreadyExists(err) && !t.unseen:
		return nil, false, g.lookAt(t)
	case err != nil:
		return nil, false, fmt.Errorf("create %s: %w", describe(t.info), said(t.info, err))
	case a.dryRun:
		content(answer).SetUID("") // no object has it
	}
	t.made = content(answer)
	return t.made, true, nil
}

// createIn creates an object, and tries that again where it conflicts: with others that count in the same quota at
// the same time, for the object itself is new.
func createIn(namespace string, helper *resource.Helper, o runtime.Object) (answer runtime.Object, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		answer, err = helper.Create(namespace, false, o)
		return err
	})
	return answer, err
}

// change patches an existing object. It is done when that changes nothing any more, or was only rehearsed.
func (a *approach) change() (applied *unstructured.Unstructured, done bool, err error) {
	g, t := a.g, a.t
	if object.StaysHeadless(t.previous, t.live, t.desired, t.left) {
		applied, err = g.recreate(t, errHeadless, a.dryRun)
		return applied, true, err
	}
	given := !g.owns(t.live) && g.isGiven(t.live)
	wanted, err := a.want(given)
	if err != nil {
		return nil, false, err
	}
	patch, err := object.Patch(t.live, wanted)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", describe(t.info), err)
	}
	if object.Repeats(patch, a.sent) {
		return t.live, true, nil
	}
	if t.seen == nil {
		t.seen, t.wanted = t.live, wanted
	}
	answer, err := g.patch(a.helper, t.info, t.live, patch, a.conflicts < insists && object.WritesLists(patch))
	switch {
	case err != nil:
		return a.refuse(wanted, err)
	case !reflect.DeepEqual(metav1.GetControllerOf(answer), metav1.GetControllerOf(wanted)):
		return nil, false, g.inTheWay(t.info, answer) // it was orphaned meanwhile, or is somebody else's
	case a.dryRun:
		return answer, true, nil // nothing is stored that could be looked at again
	}
	if given {
		g.Adopted = append(g.Adopted, object.Named(answer))
	}
	t.live, a.sent = answer, patch
	return nil, false, nil
}

// want is what the live object is to become. It fails if the object may not become the owner's.
func (a *approach) want(given bool) (*unstructured.Unstructured, error) {
	g, t := a.g, a.t
	restore := object.Restore
	if a.refused != nil {
		restore = object.Reset
	}
	wanted := restore(t.previous, t.live, t.desired, t.left)
	if a.anew != nil {
		wanted = restore(t.previous, t.live, t.desired, slices.Concat(t.left, object.LeftToAdmission(t.live, wanted, a.anew)))
	}
	object.ForgetHook(wanted, t.desired)
	object.Inherit(wanted, g.owner)
	object.ForgetAdopted(wanted, g.owner, g.plan.Revision)
	if given && object.SelectsOthers(t.live, wanted) {
		return nil, fmt.Errorf("%w. It cannot be taken over: its selector is not that of the chart", g.inTheWay(t.info, t.live))
	}
	if !g.plan.Begins && !g.owns(t.live) && !object.Kept(wanted) && !given {
		// Nothing but its marks, which anybody can write, says that it is the owner's, and it would be deleted
		// with the owner.
		return nil, g.inTheWay(t.info, t.live)
	}
	if isAbout(a.refused, "metadata.annotations") { // their total size is limited
		wanted.SetAnnotations(t.desired.GetAnnotations())
	}
	if given && t.previous == nil { // else it replaces an object of the release
		object.MarkAdopted(wanted, g.owner, g.plan.Revision)
	}
	return wanted, nil
}

// refuse decides what follows from a patch that was refused: another attempt, a new object in place of this
// one, or an error.
func (a *approach) refuse(wanted *unstructured.Unstructured, err error) (applied *unstructured.Unstructured, done bool, _ error) {
	g, t := a.g, a.t
	denies := isDenied(err)
	switch {
	case apierrors.IsNotFound(err), isAbout(err, "metadata.uid"), apierrors.IsConflict(err):
		// It was deleted, made anew or changed since the look.
		a.sent, t.seen = nil, nil
		a.conflicts++
		return nil, false, g.lookAt(t)
	case isAbout(err, "patch"), !apierrors.IsInvalid(err) && !denies:
		return nil, false, err // no other patch would change that a value is of the wrong type, or a fault
	case denies && !a.denied: // rung 1
		a.denied = true
	case a.refused == nil:
		a.sent, t.seen = nil, nil
		if !a.yields(wanted) { // else it is rung 2
			a.refused = err // rung 3
		}
	case isDenied(a.refused): // no rung 4
		return nil, false, a.refused
	case denies: // nor here
		return nil, false, err
	default: // rung 4
		applied, err = g.recreate(t, a.refused, a.dryRun)
		return applied, true, err
	}
	return nil, false, nil
}

// yields is whether a new object would come out as the live one in something that wanted changes, which the next
// attempts leave alone. Once it was asked, the answer is no.
func (a *approach) yields(wanted *unstructured.Unstructured) bool {
	if a.anew != nil {
		return false
	}
	a.anew, _ = a.g.rehearseAnew(a.t)
	return a.anew != nil && len(object.LeftToAdmission(a.t.live, wanted, a.anew)) > 0
}

// patch sends a merge patch: an update would fail whenever the object's controller has written its status
// meanwhile, as this does with asSeen. With the UID in it, the API server refuses it for another object of the same name.
func (g *Guard) patch(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured, patch map[string]any, asSeen bool) (*unstructured.Unstructured, error) {
	patch, metadata := maps.Clone(patch), map[string]any{"uid": string(live.GetUID())}
	changed, _ := patch["metadata"].(map[string]any)
	maps.Copy(metadata, changed)
	patch["metadata"] = metadata
	_, finalizers := metadata["finalizers"]
	_, owners := metadata["ownerReferences"]
	// These lists are written whole, and somebody may have changed them since the look. So may the owner of an
	// object that is not ours yet.
	if asSeen || finalizers || owners || !metav1.IsControlledBy(live, g.owner) {
		metadata["resourceVersion"] = live.GetResourceVersion()
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", describe(info), err)
	}
	answer, err := helper.Patch(info.Namespace, info.Name, types.MergePatchType, text, nil)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", describe(info), said(info, err))
	}
	return content(answer), nil
}

// isAbout is whether the API server has refused a patch because of one field. If that is metadata.uid, the
// object is another one by now.
func isAbout(err error, field string) bool {
	return apierrors.IsInvalid(err) && slices.ContainsFunc(object.Causes(err), func(c metav1.StatusCause) bool { return c.Field == field })
}

// denied finds a webhook or policy that has denied a request in the message: the code and reason are theirs to
// choose.
var denied = regexp.MustCompile(object.Denial)

// isDenied is whether a policy has denied a request, or a webhook without calling it invalid, as webhooks of
// controllers do for immutable fields.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	by := denied.FindString(status.Status().Message)
	return by != "" && (!strings.HasPrefix(by, "admission webhook") || !apierrors.IsInvalid(err))
}

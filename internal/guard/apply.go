package guard

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Change is what was done to one object.
type Change struct {
	// Object is the object in words.
	Object string
	// Created is whether the object was not there.
	Created bool
	// Fields are the paths of the fields that have changed in an object that was there.
	Fields []string
	// Writer is the field manager who had written one of them last, empty if that is not known.
	Writer string
	// Took is how long it took.
	Took time.Duration
}

// target is an object on its way to what the chart wants.
type target struct {
	info     *resource.Info
	previous *unstructured.Unstructured // as it was applied before; nil if nothing proves that
	desired  *unstructured.Unstructured
	live     *unstructured.Unstructured // nil if it is not there
	left     object.Left                // the fields left to others
	// seen is the live object before a patch, and wanted what that was to make of it; nil where it was created.
	seen, wanted *unstructured.Unstructured
	// unseen is whether it is created without a look first, and made what was created then, nil if nothing was.
	unseen bool
	made   *unstructured.Unstructured
	// unchanged is set where the object is known to be as it should, so that nothing has to be looked at.
	unchanged *object.Child
}

// apply is the only way in which objects of a release come to what the chart wants. It looks at them, creates
// or patches each to match desired, and deletes those of before that desired lacks. previous is what was
// applied before, as far as that is proven; before may be forged.
//
// An upgrade is all or nothing: it is refused before the first change if an object is somebody else's or,
// rehearsed, the API server would refuse one, and it ends with the first failure, to be rolled back. A repair
// or rollback does what it can.
func (g *Guard) apply(previous, before, desired kube.ResourceList, upgrade bool) ([]Change, error) {
	targets, err := g.look(previous, before, desired)
	if err != nil && upgrade {
		return nil, err
	}
	gone := distinct(before.Difference(desired))
	if upgrade {
		if err := g.lookAtGone(gone); err != nil {
			return nil, err
		}
	}
	if upgrade && g.plan.Rehearse {
		if _, err := g.bringAll(targets, upgrade, true); err != nil {
			return nil, err
		}
		if err := g.removeAll(gone, true, object.IsHook); err != nil {
			return nil, err
		}
		g.Rehearsed()
	}
	changes, bringErr := g.bringAll(targets, upgrade, false)
	if err := errors.Join(err, bringErr); err != nil {
		return changes, err
	}
	return changes, g.removeAll(gone, false, object.IsHook) // hooks are spared: they come and go
}

// distinct has each object once.
func distinct(resources kube.ResourceList) (each kube.ResourceList) {
	for _, info := range resources {
		if each.Get(info) == nil {
			each.Append(info)
		}
	}
	return each
}

// absent are targets of objects that do not exist, as far as is known.
func absent(resources kube.ResourceList) []*target {
	targets := make([]*target, len(resources))
	for i, info := range resources {
		targets[i] = &target{info: info}
	}
	return targets
}

// look reads the live objects, except those known to be as they should. It returns the targets that may be
// brought to what the chart wants, and why the others may not. previous and before are as in apply.
func (g *Guard) look(previous, before, desired kube.ResourceList) ([]*target, error) {
	var targets []*target
	var errs []error
	for _, t := range absent(desired) {
		if err := g.CheckPlace(t.info); err != nil {
			errs = append(errs, err)
			continue
		}
		t.desired = g.shape(t.info)
		if applied := previous.Get(t.info); applied != nil {
			t.previous = g.shape(applied)
		}
		if t.unchanged = g.intact(t); t.unchanged == nil {
			if err := g.lookAt(t); err != nil {
				errs = append(errs, err)
				continue
			}
			if err := g.rehearseAdoption(*t); err != nil {
				errs = append(errs, err)
				continue
			}
			if t.previous == nil {
				t.previous = g.begun(t, before)
			}
		}
		targets = append(targets, t)
	}
	return targets, errors.Join(errs...)
}

// lookAtGone fails if the operator has lost the right on an object of the owner's that the chart no longer
// makes: make manifests drops the right together with the template. It could not be deleted once all else is
// done.
func (g *Guard) lookAtGone(gone kube.ResourceList) error {
	for _, info := range gone {
		if !g.isToGo(info) {
			continue
		}
		if _, err := g.live(info); apierrors.IsForbidden(err) {
			return fmt.Errorf("the chart no longer makes %s, which is to be deleted: %w", describe(info), err)
		}
	}
	return nil
}

// begun is what installations that did not complete have made of an object: nothing proves their manifests, but the
// API server knows what the operator has written. Without it, what an edit drops would stay in the object.
func (g *Guard) begun(t *target, before kube.ResourceList) *unstructured.Unstructured {
	if !g.plan.Begins || t.live == nil || !g.owns(t.live) || object.JustAdopted(t.live, g.owner, g.plan.Revision) {
		return nil
	}
	var made []*unstructured.Unstructured
	named := object.Named(t.desired)
	for _, info := range slices.Backward(before) { // the newest comes first
		if listed := content(info.Object); info.Name == t.info.Name && named.Same(object.Named(listed)) && object.Check(listed) == nil {
			made = append(made, g.shape(info))
		}
	}
	return object.Written(t.live, made)
}

// intact is the object if it is still as it was applied, and the chart wants the same as then; else nil.
func (g *Guard) intact(t *target) *object.Child {
	if t.previous == nil || !reflect.DeepEqual(t.previous.Object, t.desired.Object) {
		return nil
	}
	if i := slices.IndexFunc(g.plan.Intact, object.Named(t.desired).Same); i >= 0 {
		return &g.plan.Intact[i]
	}
	return nil
}

// lookAt reads the live object, and fails if that is neither the owner's nor may become so.
func (g *Guard) lookAt(t *target) error {
	live, err := g.live(t.info)
	if apierrors.IsNotFound(err) {
		t.live = nil
		return nil
	}
	if err != nil {
		return err
	}
	if err := g.checkOwner(t.info, live); err != nil {
		return err
	}
	t.live = live
	return nil
}

// shape is an object as the owner's release has it: in canonical form, with the marks of Helm and the operator.
func (g *Guard) shape(info *resource.Info) *unstructured.Unstructured {
	shaped := object.Canonical(content(info.Object))
	shaped.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	shaped.SetNamespace(info.Namespace)
	g.adopt(shaped)
	return shaped
}

// bringAll brings each object to what it should be. An upgrade ends at the first failure, but a rehearsal finds
// all objects that people have to delete.
func (g *Guard) bringAll(targets []*target, upgrade, dryRun bool) ([]Change, error) {
	g.Changed = g.Changed || !dryRun
	g.applied = nil
	var changes []Change
	var errs []error
	for _, t := range targets {
		if t.unchanged != nil {
			g.applied = append(g.applied, *t.unchanged)
			continue
		}
		start := time.Now()
		applied, err := g.bring(t, dryRun)
		if err != nil {
			errs = append(errs, err)
			if upgrade && (!dryRun || len(Blocking(err)) == 0) {
				break
			}
			continue
		}
		if applied == nil {
			continue
		}
		child := object.ChildOf(applied, t.desired, t.left, g.plan.Ignored, g.plan.Key)
		g.applied = append(g.applied, child)
		if child.UID != "" {
			g.unowned = append(g.unowned, child.UID)
		}
		if t.live != nil && t.seen == nil {
			continue
		}
		change := Change{Object: describe(t.info), Created: t.seen == nil, Took: time.Since(start)}
		if t.seen != nil {
			put := object.Effect(t.seen, t.wanted, applied)
			if change.Fields = object.Changes(t.seen.Object, put.Object); len(change.Fields) == 0 {
				continue
			}
			change.Writer = object.Writer(t.seen, put)
		}
		changes = append(changes, change)
	}
	return changes, errors.Join(errs...)
}

// none spares no object.
func none(*unstructured.Unstructured) bool { return false }

func (g *Guard) removeAll(resources kube.ResourceList, dryRun bool, spare func(*unstructured.Unstructured) bool) error {
	var errs []error
	for _, info := range resources {
		errs = append(errs, g.remove(info, dryRun, spare))
	}
	return errors.Join(errs...)
}

// remove deletes an object of the owner's, unless it is to be spared or kept. An object of somebody else is
// reported.
func (g *Guard) remove(info *resource.Info, dryRun bool, spare func(*unstructured.Unstructured) bool) error {
	if err := g.CheckPlace(info); err != nil {
		g.plan.Report(err.Error())
		return nil
	}
	var err error
	for range attempts {
		var live *unstructured.Unstructured
		info, live, err = g.inAnyVersion(info)
		helper := resource.NewHelper(info.Client, info.Mapping).DryRun(dryRun)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err) && !g.isToGo(info): // a forged record could name what the operator may not read
			g.plan.Report(err.Error())
			return nil
		case err != nil:
			return err // to go on could leave an object of the owner's behind
		}
		keep := g.keeps(info, live)
		switch {
		case keep && g.isMarked(live), g.isGiven(live) && !g.owns(live): // one that is given was given back already
			g.noteKept(live)
			return nil
		case !spare(live) && g.isLeftHook(info, live): // nothing is deleted that is not the owner's
			err = g.rewrite(helper, info, live, func(taken *unstructured.Unstructured) { object.Inherit(taken, g.owner) })
			if err == nil {
				continue
			}
		case !g.owns(live):
			g.plan.Report(g.inTheWay(info, live).Error())
			return nil
		case keep:
			if err = g.disown(helper, info, live); err == nil {
				g.noteKept(live)
				return nil
			}
		case spare(live):
			return nil
		case object.JustAdopted(live, g.owner, g.plan.Revision):
			if err = g.giveBack(helper, info, live); err == nil {
				g.noteKept(live)
				return nil
			}
		case live.GetDeletionTimestamp() != nil: // where it goes in the foreground, the API server answers with a conflict until it is gone
			return nil
		default:
			err = deleteIf(helper, info, metav1.Preconditions{UID: new(live.GetUID()), ResourceVersion: new(live.GetResourceVersion())})
			if err == nil && !dryRun && !object.IsHook(live) {
				g.Deleted = append(g.Deleted, object.Named(live))
			}
		}
		if !apierrors.IsConflict(err) && !isAbout(err, "metadata.uid") {
			break
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", describe(info), said(info, err))
	}
	return nil
}

// deleteIf deletes an object in the background if the preconditions hold.
func deleteIf(helper *resource.Helper, info *resource.Info, is metav1.Preconditions) error {
	_, err := helper.DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &is})
	return err
}

// inAnyVersion reads a live object. If the cluster no longer serves the API version in which it was made, it
// tries the others.
func (g *Guard) inAnyVersion(info *resource.Info) (*resource.Info, *unstructured.Unstructured, error) {
	live, err := g.live(info)
	if !isUnserved(err) {
		return info, live, err
	}
	named, kind := object.Named(content(info.Object)), info.Mapping.GroupVersionKind
	versions, unread := g.plan.Versions(kind.Group)
	if unread != nil {
		return info, nil, unread
	}
	for _, version := range versions {
		if version == kind.Version {
			continue
		}
		named.APIVersion = schema.GroupVersion{Group: kind.Group, Version: version}.String()
		found, unbuilt := g.build(object.BareManifest([]object.Child{named}))
		switch {
		case IsUnknown(unbuilt):
			continue
		case unbuilt != nil:
			return info, nil, unbuilt
		case g.CheckPlace(found[0]) != nil: // the kind was made anew, as a cluster-scoped one
			continue
		}
		if other, err := g.live(found[0]); !isUnserved(err) {
			return found[0], other, err
		}
	}
	return info, nil, err
}

// isUnserved is whether the API server does not serve the path of an object, rather than has no such object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isToGo is whether an object that the operator may not read has to be deleted all the same: it is known to be
// the owner's, is not to be kept, and will not go by itself, now or with the owner.
func (g *Guard) isToGo(info *resource.Info) bool {
	applied := g.proven.Get(info)
	if applied == nil || object.Kept(content(applied.Object)) || g.CheckPlace(info) != nil {
		return false
	}
	named := object.Named(content(applied.Object))
	expired := slices.ContainsFunc(g.plan.Intact, func(child object.Child) bool { return child.Expired && child.Same(named) })
	return !expired && (!info.Namespaced() || g.owner.GetDeletionTimestamp() == nil)
}

// keeps is whether an object is to outlive the owner: by its own annotation, because it was created without an
// owner reference for that, or by the manifest that was applied last. Another manifest may be forged, and is
// not believed: it could leave anything behind.
func (g *Guard) keeps(info *resource.Info, live *unstructured.Unstructured) bool {
	applied := g.proven.Get(info)
	return object.Kept(live) || !object.InNoNamespace(live) && slices.Contains(g.unowned, live.GetUID()) || applied != nil && object.Kept(content(applied.Object))
}

// isMarked is whether an object without a controller is the owner's, or says so. No more is known of it if the
// operator was killed right after it had created it.
func (g *Guard) isMarked(live *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(live) == nil && (object.SaysMadeFor(live, g.owner) || g.owns(live))
}

func (g *Guard) noteKept(live *unstructured.Unstructured) {
	child := object.Named(live)
	if !slices.ContainsFunc(g.Kept, child.Same) {
		g.Kept = append(g.Kept, child)
	}
}

// disown removes the owner reference of an object. Its marks stay, by which a successor of the owner knows it.
func (g *Guard) disown(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured) error {
	return g.rewrite(helper, info, live, func(kept *unstructured.Unstructured) {
		kept.SetAnnotations(labels.Merge(kept.GetAnnotations(), labels.Set{object.Policy: object.Keep}))
		g.adopt(kept)
	})
}

// rewrite patches a live object to what change makes of a copy.
func (g *Guard) rewrite(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	changed := live.DeepCopy()
	change(changed)
	patch, err := object.Patch(live, changed)
	if err == nil {
		_, err = g.patch(helper, info, live, patch, false)
	}
	return err
}

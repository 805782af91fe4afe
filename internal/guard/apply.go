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
	previous *unstructured.Unstructured // what was applied before; nil if nothing proves that
	desired  *unstructured.Unstructured
	live     *unstructured.Unstructured // nil if it is not there
	left     object.Left                // what of it is left to others
	// seen is what it was before a patch, and wanted what that was to make of it; nil where it was created.
	seen, wanted *unstructured.Unstructured
	// unseen is whether nobody has looked for it, and made what was made of it then, nil if nothing was.
	unseen bool
	made   *unstructured.Unstructured
	// unchanged is the object where it is as it should be, and nothing has to be looked at.
	unchanged *object.Child
}

// apply is the one way in which objects of a release come to what the chart wants. It looks at them, brings each to what
// desired says, and deletes what before names and desired does not. previous is what was applied before, as far as that is
// proven; before is not believed.
//
// An upgrade is all or nothing: it is refused before the first change if an object is not the owner's or, rehearsed, not to the
// liking of the API server, and ends with the first failure, to be rolled back. A repair or rollback does what it can.
func (g *Guard) apply(previous, before, desired kube.ResourceList, upgrade bool) ([]Change, error) {
	targets, err := g.look(previous, desired)
	if err != nil && upgrade {
		return nil, err
	}
	gone := before.Difference(desired)
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
	return changes, g.removeAll(gone, false, object.IsHook) // hooks come and go
}

// absent are objects that are not there, as far as is known.
func absent(resources kube.ResourceList) []*target {
	targets := make([]*target, len(resources))
	for i, info := range resources {
		targets[i] = &target{info: info}
	}
	return targets
}

// look reads the live objects, but for those that are known to be as they should, and returns those that may be brought to
// what the chart wants, and why others may not.
func (g *Guard) look(previous, desired kube.ResourceList) ([]*target, error) {
	var targets []*target
	var errs []error
	for _, t := range absent(desired) {
		if err := g.CheckPlace(t.info); err != nil {
			errs = append(errs, err)
			continue
		}
		t.desired = g.shape(t.info)
		if before := previous.Get(t.info); before != nil {
			t.previous = g.shape(before)
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
		}
		targets = append(targets, t)
	}
	return targets, errors.Join(errs...)
}

// lookAtGone fails if the operator may no longer look at an object that the chart has no longer, and that is the owner's: make manifests takes the right together with
// the template, and it could not be deleted once all else is done.
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

// intact is the object if it is as it was applied, and the chart still wants the same.
func (g *Guard) intact(t *target) *object.Child {
	if t.previous == nil || !reflect.DeepEqual(t.previous.Object, t.desired.Object) {
		return nil
	}
	if i := slices.IndexFunc(g.plan.Intact, object.Named(t.desired).Same); i >= 0 {
		return &g.plan.Intact[i]
	}
	return nil
}

// lookAt reads the live object, and fails if it is neither the owner's nor to become so.
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

// shape is an object as the owner's release has it: with what Helm and the operator add, in the API server's words.
func (g *Guard) shape(info *resource.Info) *unstructured.Unstructured {
	shaped := object.Canonical(content(info.Object))
	shaped.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	shaped.SetNamespace(info.Namespace)
	g.adopt(shaped)
	return shaped
}

// bringAll brings each object to what it should be, up to the first failure in an upgrade.
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
			if upgrade {
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

// none of the objects is meant.
func none(*unstructured.Unstructured) bool { return false }

func (g *Guard) removeAll(resources kube.ResourceList, dryRun bool, spare func(*unstructured.Unstructured) bool) error {
	var errs []error
	for _, info := range resources {
		errs = append(errs, g.remove(info, dryRun, spare))
	}
	return errors.Join(errs...)
}

// remove deletes an object if it is the owner's, unless it is to be spared or kept, and reports it if it is not the owner's.
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
		case apierrors.IsForbidden(err) && !g.isToGo(info): // a record could name what nobody may look at
			g.plan.Report(err.Error())
			return nil
		case err != nil:
			return err // to go on would orphan an object of the owner
		}
		keep := g.keeps(info, live)
		switch {
		case keep && g.isMarked(live), g.isGiven(live) && !g.owns(live): // or given back already
			g.noteKept(live)
			return nil
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
		default:
			err = deleteIf(helper, info, metav1.Preconditions{UID: new(live.GetUID()), ResourceVersion: new(live.GetResourceVersion())})
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

// deleteIf deletes an object that is as it has to be, and in the background what belongs to it.
func deleteIf(helper *resource.Helper, info *resource.Info, is metav1.Preconditions) error {
	_, err := helper.DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &is})
	return err
}

// inAnyVersion is an object as it is in the cluster, in another version of its API where the cluster no longer serves the one in which it was made.
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
		case g.CheckPlace(found[0]) != nil: // made anew, in no namespace
			continue
		}
		if other, err := g.live(found[0]); !isUnserved(err) {
			return found[0], other, err
		}
	}
	return info, nil, err
}

// isUnserved is whether the API server has nothing where an object would be, rather than no such object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isToGo is whether an object that nobody may look at has to be deleted all the same: it is known to be the owner's, and neither kept nor gone by itself, now or with the owner.
func (g *Guard) isToGo(info *resource.Info) bool {
	applied := g.proven.Get(info)
	if applied == nil || object.Kept(content(applied.Object)) || g.CheckPlace(info) != nil {
		return false
	}
	named := object.Named(content(applied.Object))
	expired := slices.ContainsFunc(g.plan.Intact, func(child object.Child) bool { return child.Expired && child.Same(named) })
	return !expired && (!info.Namespaced() || g.owner.GetDeletionTimestamp() == nil)
}

// keeps is whether an object is to outlive the owner: by its own annotation, because it was made so, or by the manifest that was applied last.
// Another manifest is not believed: who forges one would leave behind whatever they like.
func (g *Guard) keeps(info *resource.Info, live *unstructured.Unstructured) bool {
	applied := g.proven.Get(info)
	return object.Kept(live) || !object.InNoNamespace(live) && slices.Contains(g.unowned, live.GetUID()) || applied != nil && object.Kept(content(applied.Object))
}

// isMarked is whether an object without owner reference is the owner's, or says so: that is all that is known of it if the operator was killed
// when it had just made it.
func (g *Guard) isMarked(live *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(live) == nil && (object.SaysMadeFor(live, g.owner) || g.owns(live))
}

func (g *Guard) noteKept(live *unstructured.Unstructured) {
	child := object.Named(live)
	if !slices.ContainsFunc(g.Kept, child.Same) {
		g.Kept = append(g.Kept, child)
	}
}

// disown takes the owner reference off an object. Its marks stay, by which the owner's successor knows it.
func (g *Guard) disown(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured) error {
	return g.rewrite(helper, info, live, func(kept *unstructured.Unstructured) {
		kept.SetAnnotations(labels.Merge(kept.GetAnnotations(), labels.Set{object.Policy: object.Keep}))
		g.adopt(kept)
	})
}

// rewrite brings a live object to what change makes of a copy.
func (g *Guard) rewrite(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	changed := live.DeepCopy()
	change(changed)
	patch, err := object.Patch(live, changed)
	if err == nil {
		_, err = g.patch(helper, info, live, patch)
	}
	return err
}

// Package guard is Helm's client to the cluster, limited to what one custom resource owns.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Guard is Helm's client for one action on the release of one custom resource.
//
// Helm trusts the manifest in a release record: it deletes and overwrites what stands there.
// Records lie within reach of whoever may edit ConfigMaps in that namespace, so without the
// guard they would borrow the operator's rights everywhere.
type Guard struct {
	*kube.Client
	// Rehearsed is told when a rehearsal has succeeded, before the first change.
	Rehearsed func()
	// Unasked is whether Helm is told of no object that is there when it asks, before it hands them over: the guard finds out by itself.
	Unasked bool

	// RehearsesFirst is whether Judge has the API server say whether it would take every object.
	RehearsesFirst bool

	// Changed is whether the action has come so far as to change an object of the release.
	Changed bool
	// Abandoned is whether the action waits no longer, for the owner was deleted meanwhile.
	Abandoned bool
	// Adopted is what was given to the owner, and taken over.
	Adopted []object.Child
	// Kept is what was not deleted because it is to be kept.
	Kept []object.Child
	// Undeleted is why objects could not be deleted, which Helm does not pass on.
	Undeleted error
	// Unchangeable is the object for which an upgrade has failed, as it cannot become what the chart wants while it is there, nil if there is none. Who deletes it
	// makes way for that: a repair or rollback does not bring back what was there.
	Unchangeable *object.Child
	// TookBack is whether an object was in the way of an installation, of which nothing is left.
	TookBack bool

	ctx   context.Context // of the reconcile: Helm's interface has none
	owner client.Object
	slots *Slots // one of them is held
	plan  Plan

	peeked   kube.ResourceList // what Peek has parsed
	peekedAt string            // from that manifest

	proven  kube.ResourceList // the objects of the manifest that Plan.Applied knows
	unowned []types.UID       // of the owner's objects that carry no owner reference
	applied []object.Child
	// rollsBack is whether what a failed upgrade has applied counts as what others have: a claim that it made grow stays so.
	rollsBack bool
}

// Plan is what an action knows beforehand.
type Plan struct {
	// Applied is whether a manifest is known to be the one that was applied last, and forged by nobody. What that
	// has and a new one no longer has is taken out of objects.
	Applied func(manifest string) bool
	// Key of the fingerprints of Secrets, empty if the release can have none.
	Key object.Key
	// Intact are the objects that are as this process has left them when it applied that manifest. They are
	// not looked at where the new manifest wants the same.
	Intact []object.Child
	// Left are manifests of what may be there besides what the last revision names. It is deleted, if it is the
	// owner's and the new manifest does not have it.
	Left []string
	// Rehearse has the API server say first whether it would take every object.
	Rehearse bool
	// Unowned are the owner's objects that carry no owner reference.
	Unowned []types.UID
	// Allow is what the platform allows: objects in no namespace, and that what is given is taken over.
	Allow object.Allow
	// Begins is whether nothing of the owner was deployed yet. What nobody owns, and is marked as of its release, may then be taken over. What
	// is kept may be at any time.
	Begins bool
	// MayInherit fails if the owner may not have what a custom resource of its name has left: it is asked before an object is taken over.
	MayInherit func() error
	// Revision is the one that was applied last, 0 if none is known.
	Revision int
	// Ignored is what is left to others, whatever the manifest says.
	Ignored object.Ignored
	// Scaled are the objects whose replicas were left to whoever scales them.
	Scaled []object.Child
	// Scalable is whether the custom resource leaves the replicas of a workload to whoever scales that.
	Scalable func(desired *unstructured.Unstructured) bool
	// Recreate are the kinds whose objects may be deleted and made anew where a field cannot be changed.
	Recreate object.Kinds
	// Recreated is told of each object that was.
	Recreated func(message string)
	// Wait takes a place for who waits for long, and fails if there is none: a namespace must not take all workers.
	Wait func() error
	// IsDeleted is whether somebody has deleted the owner since the action began.
	IsDeleted func() bool
	// Abandon is told that a hook is no longer waited for, which ends when ended says so.
	Abandon func(ended <-chan error)
	// Waiting is told what an action waits for, once that takes long, and nothing when it has come.
	Waiting func(what string)
	// Report is told what was left alone, and why.
	Report func(message string)
	// Versions are those in which the cluster serves a group of kinds by now.
	Versions func(group string) ([]string, error)
}

// New guards helm for an action on the release of owner, which holds one of slots.
func New(ctx context.Context, helm *kube.Client, owner client.Object, slots *Slots, plan Plan) *Guard {
	return &Guard{Client: helm, ctx: ctx, owner: owner, slots: slots, plan: plan, unowned: plan.Unowned}
}

// Children lists the objects of the release as they were applied, in a fixed order.
func (g *Guard) Children() []object.Child {
	children := append([]object.Child{}, g.applied...)
	slices.SortFunc(children, object.Child.Compare)
	return children
}

// IsReachable answers at once: an API server that is away fails the next request just as well.
func (g *Guard) IsReachable() error { return nil }

// Build parses a manifest for Helm. Validation against OpenAPI is left to the API server.
func (g *Guard) Build(reader io.Reader, _ bool) (resources kube.ResourceList, err error) {
	defer g.caught(&err)
	manifest, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	resources, err = g.build(string(manifest))
	if IsUnknown(err) && g.plan.Applied(string(manifest)) {
		err = nil
	}
	if err == nil && g.Unasked {
		leaveUnasked(resources)
	}
	return resources, err
}

// unknown is why not all is there of a manifest: the cluster does not know a kind of it. If it was applied, the others are repaired, upgraded and rolled back.
type unknown struct{ error }

func (u unknown) Unwrap() error { return u.error }

// IsUnknown is whether that is why.
func IsUnknown(err error) bool { return errors.As(err, &unknown{}) }

func unlessUnknown(err error) error {
	if IsUnknown(err) {
		return nil
	}
	return err
}

// build parses a manifest. With an error that is unknown, it returns the objects whose kinds are known.
func (g *Guard) build(manifest string) (resources kube.ResourceList, err error) {
	var missing error
	if g.peeked != nil && manifest == g.peekedAt {
		resources, g.peeked = g.peeked, nil // and no second time: Helm, or an apply, changes them
	} else if resources, err = g.Client.Build(strings.NewReader(manifest), false); err != nil && utilerrors.FilterOut(err, meta.IsNoMatchError) == nil {
		missing = unknown{err}
	} else if err != nil {
		if g.plan.Key != object.Plain {
			err = object.DiscreetRendering(err)
		}
		return nil, err
	}
	sayOfItems(manifest, resources)
	for _, info := range resources {
		if !info.Namespaced() {
			info.Namespace = "" // a chart may name one all the same
		}
		content(info.Object).SetNamespace(info.Namespace)
		object.DropServers(content(info.Object))
	}
	if g.plan.Applied(manifest) {
		g.proven = resources
	}
	return resources, missing
}

// Peek is Build for who only looks: the next one to build the same, as Helm does after a rendering, is spared to parse it, which takes as
// long as all else of an installation.
func (g *Guard) Peek(manifest string) (kube.ResourceList, error) {
	resources, err := g.build(manifest)
	if err == nil {
		g.peeked, g.peekedAt = resources, manifest
	}
	return resources, err
}

// Create makes hooks, or the objects of an installation.
func (g *Guard) Create(resources kube.ResourceList) (result *kube.Result, err error) {
	defer g.caught(&err)
	ask(resources)
	// Hooks come alone, and a List of them may be empty: with nothing to be made, an installation would take all that is left for superfluous.
	hooks := !slices.ContainsFunc(resources, func(info *resource.Info) bool { return !object.IsHook(content(info.Object)) })
	for _, info := range resources {
		if err := g.CheckPlace(info); err != nil {
			return nil, err
		}
		g.adopt(content(info.Object))
	}
	if hooks {
		return g.createHooks(resources)
	}
	if len(g.plan.Left) > 0 {
		return g.Update(nil, resources, false)
	}
	return &kube.Result{Created: resources}, g.makeAll(resources)
}

// caught makes an error of a panic. Helm calls the guard in goroutines of its own, where one would end the operator for everybody.
func (g *Guard) caught(err *error) {
	if defect := recover(); defect != nil {
		*err = fmt.Errorf("a defect of the operator, for which its log has the place: %v", defect)
		logf.FromContext(g.ctx).Error(*err, "Panic", "stack", string(debug.Stack()))
	}
}

// try does something, of which a panic is an error.
func (g *Guard) try(do func() error) (err error) {
	defer g.caught(&err)
	return do()
}

// Update brings the objects of target to what they say, and deletes those of original that
// target no longer has. It fails before the first change where target names an object that
// exists and is not the owner's.
func (g *Guard) Update(original, target kube.ResourceList, _ bool) (result *kube.Result, err error) {
	result = &kube.Result{} // which Helm looks into with an error, too
	defer g.caught(&err)
	ask(original)
	ask(target)
	left, err := g.left()
	if err != nil {
		return result, err
	}
	_, err = g.apply(g.proven, append(original, left...), target, true)
	return result, err
}

// UpdateThreeWayMerge is Update: what is in the way of an installation is for the guard to judge.
func (g *Guard) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return g.Update(original, target, force)
}

// Apply brings the objects from what previous says to what desired says, or whole: none if one is in the way. It returns what it changed, also with an error.
func (g *Guard) Apply(previous, desired string, whole bool) ([]Change, error) {
	changes, missing, err := g.applyKnown(previous, desired, whole)
	return changes, errors.Join(missing, err)
}

// applyKnown is Apply with, by itself, why it has not applied all of desired.
func (g *Guard) applyKnown(previous, desired string, whole bool) (changes []Change, missing, err error) {
	before, err := g.build(previous)
	if unlessUnknown(err) != nil {
		return nil, nil, fmt.Errorf("parse the manifest before: %w", err)
	}
	target, missing := g.build(desired)
	if unlessUnknown(missing) != nil {
		return nil, nil, fmt.Errorf("parse the manifest: %w", missing)
	}
	changes, err = g.apply(before, before, target, whole)
	return changes, missing, err
}

// RollBack brings the objects from what the manifest of a failed upgrade says back to what the one before says.
func (g *Guard) RollBack(failed, previous string) error {
	g.rollsBack = true
	_, _, err := g.applyKnown(failed, previous, false) // for what is missing it has not failed
	return err
}

// Compare returns what Apply would change, and changes nothing. Children are then as Apply would leave them.
func (g *Guard) Compare(manifest string) ([]Change, error) {
	target, missing := g.build(manifest)
	if unlessUnknown(missing) != nil {
		return nil, fmt.Errorf("parse the manifest: %w", missing)
	}
	targets, err := g.look(target, target)
	changes, bringErr := g.bringAll(targets, false, true)
	return changes, errors.Join(missing, err, bringErr)
}

// Judge fails if an object of a manifest may not be brought to what it says, because it is somebody else's or, where that is rehearsed, the API server would not take it.
func (g *Guard) Judge(manifest string) error {
	resources, err := g.Peek(manifest)
	if err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	targets, err := g.look(nil, resources)
	if err == nil && g.RehearsesFirst {
		_, err = g.bringAll(targets, true, true)
	}
	return err
}

// Present are those objects of a manifest that are there and the owner's.
func (g *Guard) Present(manifest string) ([]object.Child, error) {
	resources, err := g.build(manifest)
	if err != nil {
		return nil, fmt.Errorf("parse the manifest: %w", err)
	}
	present := []object.Child{}
	for _, info := range resources {
		live, err := g.live(info)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if g.owns(live) {
			desired := g.shape(info)
			present = append(present, object.ChildOf(live, desired, g.leftIn(nil, live, desired), g.plan.Ignored, g.plan.Key))
		}
	}
	return present, nil
}

// leftIn is what is left to others in a live object.
func (g *Guard) leftIn(previous, live, desired *unstructured.Unstructured) object.Left {
	wasScaled := slices.ContainsFunc(g.plan.Scaled, object.Named(desired).Same)
	return object.LeftTo(previous, live, desired, g.plan.Ignored, wasScaled, g.plan.Scalable)
}

// Delete removes those of resources that the owner owns, and reports the others. Helm asks for hooks, and for what the manifest of the record does not keep.
func (g *Guard) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	g.Undeleted = g.try(func() error { return g.removeAll(resources, false, none) })
	if g.Undeleted != nil {
		return &kube.Result{}, []error{g.Undeleted}
	}
	return &kube.Result{Deleted: resources}, nil
}

// DeleteWithPropagationPolicy is Delete: by default, which is all that is asked for, Helm deletes in the background, too.
func (g *Guard) DeleteWithPropagationPolicy(resources kube.ResourceList, _ metav1.DeletionPropagation) (*kube.Result, []error) {
	return g.Delete(resources)
}

// Keep takes the owner references off those objects of a manifest that are to be kept, before an uninstallation: what an older version of the
// operator has made, or the chart keeps since a short while ago, would go with the owner.
func (g *Guard) Keep(manifest string) error {
	resources, err := g.build(manifest)
	if err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	kept := resources.Filter(func(info *resource.Info) bool { return object.Kept(content(info.Object)) })
	return g.removeAll(kept, false, func(*unstructured.Unstructured) bool { return true })
}

// DeleteLeft deletes the objects of Plan.Left before an uninstallation, which deletes those of the newest revision.
func (g *Guard) DeleteLeft() error {
	left, err := g.left()
	if err != nil {
		return err
	}
	_, err = g.apply(nil, left, nil, false)
	return err
}

// Remove deletes those objects of a manifest that are the owner's and not kept.
func (g *Guard) Remove(manifest string) error {
	resources, err := g.build(manifest)
	if err != nil {
		return fmt.Errorf("parse a list of objects: %w", err)
	}
	return g.removeAll(resources, false, object.IsHook)
}

// left are the objects of Plan.Left.
func (g *Guard) left() (kube.ResourceList, error) {
	var left kube.ResourceList
	for _, manifest := range g.plan.Left {
		resources, err := g.build(manifest)
		if err != nil {
			return nil, fmt.Errorf("parse the manifest of an interrupted or failed release: %w", err)
		}
		for _, info := range resources {
			if left.Get(info) == nil {
				left.Append(info)
			}
		}
	}
	return left, nil
}

// CheckPlace fails if a release may not have an object there: it is elsewhere than beside its custom resource, or in no namespace, and nobody allows that.
func (g *Guard) CheckPlace(info *resource.Info) error {
	if !info.Namespaced() {
		return g.plan.Allow.InNoNamespace(g.owner, info.Mapping.GroupVersionKind.GroupKind(), info.Name)
	}
	if info.Namespace != g.owner.GetNamespace() {
		return fmt.Errorf("%s is outside of namespace %q: a release may only hold objects beside its custom resource", describe(info), g.owner.GetNamespace())
	}
	return nil
}

// owns is whether an object is the owner's.
func (g *Guard) owns(live metav1.Object) bool { return object.Owned(live, g.owner, g.unowned) }

// adopt makes an object the owner's, and one of its Helm release: the marks are Helm's own, for those who look at the cluster
// with Helm.
func (g *Guard) adopt(obj metav1.Object) {
	object.Adopt(obj, g.owner)
	obj.SetLabels(labels.Merge(obj.GetLabels(), labels.Set{object.HelmLabel: "Helm"}))
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), labels.Set{object.ReleaseName: g.owner.GetName(), object.ReleaseNamespace: g.owner.GetNamespace()}))
}

// live reads an object from the API server.
func (g *Guard) live(info *resource.Info) (*unstructured.Unstructured, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", describe(info), said(info, err))
	}
	return content(live), nil
}

// said is what may be told of an error of a request about an object.
func said(info *resource.Info, err error) error {
	if err != nil && info.Mapping.GroupVersionKind.GroupKind() == object.Secret.GroupKind() {
		return object.Discreet(err)
	}
	return object.Unquoted(err)
}

// content of an object: Build, and what it asks the API server with, know no other type.
func content(obj runtime.Object) *unstructured.Unstructured { return obj.(*unstructured.Unstructured) }

func describe(info *resource.Info) string {
	return object.Describe(info.Mapping.GroupVersionKind.Kind, info.Namespace, info.Name)
}

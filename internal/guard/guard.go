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
	// Rehearsed is called when a rehearsal has succeeded, before the first change.
	Rehearsed func()
	// Unasked is whether Helm, which looks for existing objects before it hands them over, is to find none: the
	// guard looks itself.
	Unasked bool
	// RehearsesFirst is whether Judge asks the API server by dry runs whether it would take every object.
	RehearsesFirst bool

	// Changed is whether the action has begun to change objects of the release.
	Changed bool
	// Abandoned is whether the action has stopped waiting because the owner was deleted.
	Abandoned bool
	// Adopted are the objects given to the owner that were taken over.
	Adopted []object.Child
	// Kept are the objects that were not deleted, since they are to be kept.
	Kept []object.Child
	// Deleted are the objects that were deleted, also those made anew since, without hooks: these come and go.
	Deleted []object.Child
	// Undeleted is why objects could not be deleted. Helm does not return it.
	Undeleted error
	// Unchangeable are the objects because of which an upgrade has failed, since they cannot be changed to what the
	// chart wants. Somebody who deletes one makes room for what the chart wants, so that a repair or rollback does
	// not bring the old one back.
	Unchangeable []object.Child
	// TookBack is whether an installation found an object in the way, and deleted again what it had created.
	TookBack bool

	ctx   context.Context // of the reconcile: Helm's interface has none
	owner client.Object
	slots *Slots // one of which is held
	plan  Plan

	peeked   kube.ResourceList // what Peek has parsed
	peekedAt string            // from that manifest

	proven  kube.ResourceList // those of the manifest that Plan.Applied knows, so that they can be trusted
	unowned []types.UID       // of the owner's objects that carry no owner reference
	applied []object.Child
	// rollsBack is whether this is a rollback. What the failed upgrade has set then counts as set by others, so
	// that it stays where such fields are left to others: a claim that it has enlarged cannot shrink again.
	rollsBack bool
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

// IsReachable asks nobody: if the API server is away, the next request fails just as well.
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

// unknown is the error of a manifest with kinds that the cluster does not serve. If the manifest was applied
// once, its other objects are still repaired, upgraded and rolled back.
type unknown struct{ error }

func (u unknown) Unwrap() error { return u.error }

// IsUnknown is whether an error is because of kinds that the cluster does not serve.
func IsUnknown(err error) bool { return errors.As(err, &unknown{}) }

// build parses a manifest. With an error that is unknown, it also returns the objects whose kinds are known.
func (g *Guard) build(manifest string) (resources kube.ResourceList, err error) {
	var missing error
	if g.peeked != nil && manifest == g.peekedAt {
		resources, g.peeked = g.peeked, nil // only once: Helm, or an apply, changes them
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
			info.Namespace = "" // a chart may set one nevertheless
		}
		content(info.Object).SetNamespace(info.Namespace)
		object.DropServers(content(info.Object))
	}
	if g.plan.Applied(manifest) {
		g.proven = resources
	}
	return resources, missing
}

// Peek parses a manifest for a caller that only looks. The next build of the same manifest, Helm's after a
// rendering, reuses the result: to parse takes as long as all the rest of an installation.
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
	// Helm passes hooks separately, and a List of them may be empty. Taken for an installation with no objects,
	// it would have all that is left deleted.
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
	if len(g.plan.Leftovers) > 0 {
		return g.Update(nil, resources, false)
	}
	return &kube.Result{Created: resources}, g.makeAll(resources)
}

// caught turns a panic into an error. Helm calls the guard in goroutines of its own, where a panic would end
// the operator for all.
func (g *Guard) caught(err *error) {
	if defect := recover(); defect != nil {
		*err = fmt.Errorf("a defect of the operator, for which its log has the place: %v", defect)
		logf.FromContext(g.ctx).Error(*err, "Panic", "stack", string(debug.Stack()))
	}
}

// try calls do, and turns a panic into an error.
func (g *Guard) try(do func() error) (err error) {
	defer g.caught(&err)
	return do()
}

// Update brings the objects of target to what they say, and deletes those of original that
// target no longer has. It fails before the first change where target names an object that
// exists and is not the owner's.
func (g *Guard) Update(original, target kube.ResourceList, _ bool) (result *kube.Result, err error) {
	result = &kube.Result{} // Helm reads it even with an error
	defer g.caught(&err)
	ask(original)
	ask(target)
	left, err := g.leftovers()
	if err != nil {
		return result, err
	}
	_, err = g.apply(g.proven, append(original, left...), target, true)
	return result, err
}

// UpdateThreeWayMerge is Update. Helm calls it where an installation takes objects over, which the guard judges
// anyway.
func (g *Guard) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return g.Update(original, target, force)
}

// Apply brings the objects from previous to desired, and returns what it has changed, also with an error. With
// whole, it changes nothing if an object is in the way.
func (g *Guard) Apply(previous, desired string, whole bool) ([]Change, error) {
	changes, missing, err := g.applyKnown(previous, desired, whole)
	return changes, errors.Join(missing, err)
}

// applyKnown is Apply, but returns separately, as missing, that the cluster does not serve some kinds of
// desired.
func (g *Guard) applyKnown(previous, desired string, whole bool) (changes []Change, missing, err error) {
	before, err := g.build(previous)
	if err != nil && !IsUnknown(err) {
		return nil, nil, fmt.Errorf("parse the manifest before: %w", err)
	}
	target, missing := g.build(desired)
	if missing != nil && !IsUnknown(missing) {
		return nil, nil, fmt.Errorf("parse the manifest: %w", missing)
	}
	changes, err = g.apply(before, before, target, whole)
	return changes, missing, err
}

// RollBack brings the objects from the manifest of a failed upgrade back to the one before it.
func (g *Guard) RollBack(failed, previous string) error {
	g.rollsBack = true
	_, _, err := g.applyKnown(failed, previous, false) // the upgrade has not failed for missing kinds
	return err
}

// Compare returns what Apply would change, and changes nothing. Children then lists what Apply would leave.
func (g *Guard) Compare(manifest string) ([]Change, error) {
	target, missing := g.build(manifest)
	if missing != nil && !IsUnknown(missing) {
		return nil, fmt.Errorf("parse the manifest: %w", missing)
	}
	targets, err := g.look(target, target, target)
	changes, bringErr := g.bringAll(targets, false, true)
	return changes, errors.Join(missing, err, bringErr)
}

// Judge fails if an object of a manifest is somebody else's or, with RehearsesFirst, the API server would not
// take it.
func (g *Guard) Judge(manifest string) error {
	resources, err := g.Peek(manifest)
	if err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	targets, err := g.look(nil, nil, resources)
	if err == nil && g.RehearsesFirst {
		_, err = g.bringAll(targets, true, true)
	}
	return err
}

// Present are the objects of a manifest that exist and are the owner's.
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
	switch { // what was begun says nothing of replicas that somebody has scaled since
	case g.plan.Begins:
		previous = nil
	case g.rollsBack:
		previous = desired
	}
	wasScaled := slices.ContainsFunc(g.plan.Scaled, object.Named(desired).SameInAnyVersion)
	return object.LeftTo(previous, live, desired, g.plan.Ignored, wasScaled, g.plan.Scalable)
}

// Delete deletes those of resources that the owner owns, and reports the others. Helm calls it for hooks, and
// at an uninstallation for what the manifest does not keep.
func (g *Guard) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	g.Undeleted = g.try(func() error { return g.removeAll(resources, false, none) })
	if g.Undeleted != nil {
		return &kube.Result{}, []error{g.Undeleted}
	}
	return &kube.Result{Deleted: resources}, nil
}

// DeleteWithPropagationPolicy is Delete. Helm only ever asks for background deletion here, which is what Delete
// does.
func (g *Guard) DeleteWithPropagationPolicy(resources kube.ResourceList, _ metav1.DeletionPropagation) (*kube.Result, []error) {
	return g.Delete(resources)
}

// Keep removes, before an uninstallation, the owner references of those objects of a manifest that are to be
// kept. Objects that an older version of the operator has made, or that only the last version of the chart
// keeps, still have one, and would be garbage-collected with the owner.
func (g *Guard) Keep(manifest string) error {
	resources, err := g.build(manifest)
	if err != nil {
		return fmt.Errorf("parse the manifest: %w", err)
	}
	kept := resources.Filter(func(info *resource.Info) bool { return object.Kept(content(info.Object)) })
	return g.removeAll(kept, false, func(*unstructured.Unstructured) bool { return true })
}

// DeleteLeftovers deletes the objects of Plan.Leftovers before an uninstallation, which itself deletes those of the
// newest revision.
func (g *Guard) DeleteLeftovers() error {
	left, err := g.leftovers()
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

// leftovers are the objects of Plan.Leftovers, each as often as it is there.
func (g *Guard) leftovers() (kube.ResourceList, error) {
	var left kube.ResourceList
	for _, manifest := range g.plan.Leftovers {
		resources, err := g.build(manifest)
		if err != nil {
			return nil, fmt.Errorf("parse the manifest of an interrupted or failed release: %w", err)
		}
		left = append(left, resources...)
	}
	return left, nil
}

// CheckPlace fails if a release may not have an object there: in another namespace than its custom resource, or
// cluster-scoped where the platform does not allow that.
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

// adopt marks an object as the owner's, and as of its Helm release: Helm's own marks, for those who look at the
// cluster with Helm.
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

// said is an error of a request about an object, as it may be shown: without values of a Secret.
func said(info *resource.Info, err error) error {
	if err != nil && info.Mapping.GroupVersionKind.GroupKind() == object.Secret.GroupKind() {
		return object.Discreet(err)
	}
	return object.Unquoted(err)
}

// content is an object as an unstructured one: Build and the API server's answers have no other type.
func content(obj runtime.Object) *unstructured.Unstructured { return obj.(*unstructured.Unstructured) }

func describe(info *resource.Info) string {
	return object.Describe(info.Mapping.GroupVersionKind.Kind, info.Namespace, info.Name)
}

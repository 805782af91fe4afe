package release

import (
	"context"
	"fmt"
	"io"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guard is Helm's client to the cluster, limited to what one custom resource owns.
//
// Helm trusts the manifest in a release record: it deletes and overwrites what stands there.
// Records lie within reach of whoever may edit ConfigMaps in that namespace, so without the
// guard they would borrow the operator's rights everywhere.
type guard struct {
	*kube.Client
	ctx    context.Context // of the reconcile: Helm's interface has none
	cache  client.Reader   // sees the objects that carry managedByLabel
	owner  client.Object
	report func(message string) // of what was left alone
	slots  slots                // one of them is held
	// applied holds the objects as the API server answered after they were applied.
	applied map[childKey]*unstructured.Unstructured
	// leftovers are objects that go, too, when the owner's others are brought to what they should be.
	leftovers kube.ResourceList
	// restores is whether an update also takes out what neither the release before nor this one has: a
	// failed or interrupted upgrade, or somebody else, may have put it there.
	restores bool
	// rehearses is whether an update first asks the API server if it would take every object.
	rehearses bool
	// changed is whether an update has come so far as to change something.
	changed bool
	// undeleted is why objects could not be deleted, which Helm does not pass on.
	undeleted error
}

type childKey struct{ apiVersion, kind, name string }

// IsReachable answers at once: an API server that is away fails the next request just as well.
func (g *guard) IsReachable() error { return nil }

// Build parses a manifest. Validation against OpenAPI is left to the API server.
func (g *guard) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	return g.Client.Build(reader, false)
}

// Create makes objects in the owner's namespace, owned by it.
func (g *guard) Create(resources kube.ResourceList) (*kube.Result, error) {
	for _, info := range resources {
		if err := g.checkNamespace(info); err != nil {
			return nil, err
		}
		if err := g.adopt(info); err != nil {
			return nil, err
		}
	}
	result, err := g.Client.Create(resources)
	if err == nil {
		g.note(resources)
	}
	return result, err
}

// note remembers what was applied: Helm refreshes every resource with the answer.
func (g *guard) note(resources kube.ResourceList) {
	for _, info := range resources {
		object, err := toUnstructured(info.Object)
		if err != nil || object.GetAnnotations()[release.HookAnnotation] != "" {
			continue // a hook is no part of the release: it comes and goes
		}
		gvk := info.Mapping.GroupVersionKind
		g.applied[childKey{gvk.GroupVersion().String(), gvk.Kind, info.Name}] = object
	}
}

// Delete removes those of resources that the owner owns, and reports the others.
func (g *guard) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	return g.DeleteWithPropagationPolicy(resources, metav1.DeletePropagationBackground)
}

// DeleteWithPropagationPolicy is Delete with a choice of what happens to dependents.
func (g *guard) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	owned, err := g.owned(resources)
	if err != nil {
		g.undeleted = err
		return &kube.Result{}, []error{err}
	}
	if len(owned) == 0 {
		return &kube.Result{}, nil // for Helm it is an error to have nothing to delete
	}
	result, errs := g.Client.DeleteWithPropagationPolicy(owned, policy)
	g.undeleted = utilerrors.NewAggregate(errs)
	return result, errs
}

// owned drops what does not exist and what the owner may not touch, and reports the latter.
// What could not be looked up fails: to drop it would orphan an object of the owner.
func (g *guard) owned(resources kube.ResourceList) (kube.ResourceList, error) {
	var owned kube.ResourceList
	for _, info := range resources {
		if err := g.checkNamespace(info); err != nil {
			g.report(err.Error())
			continue
		}
		exists, ours, err := g.lookUp(info)
		switch {
		case apierrors.IsForbidden(err):
			g.report(err.Error())
		case err != nil:
			return nil, err
		case ours:
			owned.Append(info)
		case exists:
			g.report(inTheWay(info).Error())
		}
	}
	return owned, nil
}

// lookUp says whether the object exists, and whether the owner controls it.
func (g *guard) lookUp(info *resource.Info) (exists, owned bool, err error) {
	object, err := g.get(info)
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	return err == nil, err == nil && metav1.IsControlledBy(object, g.owner), err
}

// get reads an object from the cache, and from the API server if it is not there: it may not
// carry our label, or be of a kind that nobody watches yet. The caller must not change it.
func (g *guard) get(info *resource.Info) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	if err := g.cache.Get(g.ctx, client.ObjectKey{Namespace: info.Namespace, Name: info.Name}, object, client.UnsafeDisableDeepCopy); err == nil {
		return object, nil
	}
	return g.live(info)
}

// live reads an object from the API server.
func (g *guard) live(info *resource.Info) (*unstructured.Unstructured, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", describe(info), err)
	}
	return toUnstructured(live)
}

func toUnstructured(object runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("read an object of kind %s: %w", object.GetObjectKind().GroupVersionKind().Kind, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func (g *guard) checkNamespace(info *resource.Info) error {
	if info.Namespace != g.owner.GetNamespace() {
		return fmt.Errorf("%s is outside of namespace %q: a release may only hold objects beside its custom resource", describe(info), g.owner.GetNamespace())
	}
	return nil
}

func (g *guard) adopt(info *resource.Info) error {
	accessor, err := meta.Accessor(info.Object)
	if err != nil {
		return fmt.Errorf("set the owner of %s: %w", describe(info), err)
	}
	adopt(accessor, g.owner)
	return nil
}

func inTheWay(info *resource.Info) error {
	return fmt.Errorf("%s exists and is not controlled by this custom resource: delete or rename one of the two", describe(info))
}

func describe(info *resource.Info) string {
	if info.Namespace == "" {
		return fmt.Sprintf("cluster-scoped %s %q", info.Mapping.GroupVersionKind.Kind, info.Name)
	}
	return fmt.Sprintf("%s %q in namespace %q", info.Mapping.GroupVersionKind.Kind, info.Name, info.Namespace)
}

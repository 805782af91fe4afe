// Package object knows what an object of a release looks like: whose it is, whether it is as it
// was applied, and what the chart wants in it. Its functions ask nobody.
package object

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Category is what the CRDs of all kinds of the operator have: by it, kubectl get and kubectl welcome find custom resources of whatever kind.
	Category = "welcome-operator"

	// Manager is the field manager of all that the operator writes.
	Manager = "welcome-operator"

	// managedByLabel marks every object and every release record that the operator made.
	// The caches select on it: an object that loses it is invisible to the operator until
	// the next drift repair puts it back.
	managedByLabel = "webapp.demo.welcome.domain/managed-by"
	// managedByValue is the value of managedByLabel.
	managedByValue = "welcome-operator"

	// HelmLabel is, with the value Helm, and with the annotations of the prefix below, by what Helm knows the objects of a release
	// (helm.sh/helm/v3 pkg/action/validate.go).
	HelmLabel       = "app.kubernetes.io/managed-by"
	helmAnnotations = "meta.helm.sh/"
	// ReleaseName is Helm's annotation with the name of the release.
	ReleaseName = helmAnnotations + "release-name"
	// ReleaseNamespace is Helm's annotation with the namespace of the release.
	ReleaseNamespace = helmAnnotations + "release-namespace"

	// Policy is Helm's annotation of what is to outlive its release, then with the value Keep.
	Policy = "helm.sh/resource-policy"
	// Keep is the value of Policy.
	Keep = "keep"
	// hook is Helm's annotation of hooks, which come and go.
	hook = "helm.sh/hook"
	// stockOwner and stockOwnerKind are by what the stock Helm operators know objects without owner reference (operator-lib, handler/enqueue_annotation.go).
	stockOwner     = "operator-sdk/primary-resource"
	stockOwnerKind = "operator-sdk/primary-resource-type"
	// CustomResource is the annotation of an object without owner reference with the kind that it is made for, Welcome.webapp.demo.welcome.domain
	// say: two kinds may have custom resources of one name, and Helm's annotations only tell that.
	CustomResource = "webapp.demo.welcome.domain/custom-resource"

	// Published is the label of the ConfigMap in which an operator tells how it was started.
	Published = "webapp.demo.welcome.domain/published"
)

// IsHook is whether obj is one of Helm's hooks.
func IsHook(obj *unstructured.Unstructured) bool { return obj.GetAnnotations()[hook] != "" }

// Kept is whether obj is to outlive its custom resource, in Helm's reading of its annotation. A hook is not: Helm deletes it to make it anew.
func Kept(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	return annotations[hook] == "" && strings.EqualFold(strings.TrimSpace(annotations[Policy]), Keep)
}

// ManagedBy selects what the operator made.
func ManagedBy() labels.Selector { return labels.SelectorFromSet(ManagedByLabels()) }

// ManagedByLabels are the labels that ManagedBy selects.
func ManagedByLabels() labels.Set { return labels.Set{managedByLabel: managedByValue} }

// ForgetHook takes off obj what made a hook of it, where the chart no longer has it as one: it would be spared for ever, and not kept where the chart says so.
func ForgetHook(obj, desired metav1.Object) {
	annotations, wanted := obj.GetAnnotations(), desired.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		_, is := wanted[key]
		return strings.HasPrefix(key, hook) && !is
	})
	obj.SetAnnotations(annotations)
}

// InNoNamespace is whether obj, as the cluster has it or is to have it, is cluster-scoped. An owner reference to a custom resource, which is in a
// namespace, would have the garbage collector delete it.
func InNoNamespace(obj metav1.Object) bool { return obj.GetNamespace() == "" }

// Owned is whether obj is owner's: it is controlled by owner or, without a controller, one of those that carry no owner reference. What is cluster-scoped
// is also known by its marks, so that none is lost if the operator is killed when it has just made it: nobody writes them who has rights in namespaces only.
func Owned(obj metav1.Object, owner client.Object, unowned []types.UID) bool {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		return controller.UID == owner.GetUID()
	}
	return slices.Contains(unowned, obj.GetUID()) || InNoNamespace(obj) && SaysMadeFor(obj, owner)
}

// MadeFor is the kind, namespace and name of the custom resource that obj is made for, as it says by its controller or, without one, by its marks.
// The name is empty if it says neither. It is no proof: whoever may write obj can say so.
func MadeFor(obj metav1.Object) (kind schema.GroupKind, of types.NamespacedName) {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		return schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: controller.Name}
	}
	annotations := obj.GetAnnotations()
	if annotations[CustomResource] == "" || !Kept(obj) && !InNoNamespace(obj) {
		return schema.GroupKind{}, types.NamespacedName{}
	}
	return schema.ParseGroupKind(annotations[CustomResource]), types.NamespacedName{Namespace: cmp.Or(obj.GetNamespace(), annotations[ReleaseNamespace]), Name: annotations[ReleaseName]}
}

// SaysMadeFor is whether obj says that it is made for owner.
func SaysMadeFor(obj metav1.Object, owner client.Object) bool {
	kind, of := MadeFor(obj)
	return of.Name != "" && kind == owner.GetObjectKind().GroupVersionKind().GroupKind() && of == client.ObjectKeyFromObject(owner)
}

// Adopt marks obj as made by the operator for owner. That it was given to owner is used up by that, and no chart's to say. The owner reference lets the garbage
// collector remove obj should the operator be gone when owner is deleted. So what is kept has none: with a deletion in the
// foreground, the garbage collector does not wait for the operator. Nor has what is cluster-scoped.
func Adopt(obj metav1.Object, owner client.Object) {
	obj.SetLabels(labels.Merge(obj.GetLabels(), ManagedByLabels()))
	annotations := obj.GetAnnotations()
	if _, given := annotations[AdoptFor]; given {
		delete(annotations, AdoptFor)
		obj.SetAnnotations(annotations)
	}
	switch {
	case Kept(obj), InNoNamespace(obj):
		obj.SetAnnotations(labels.Merge(annotations, labels.Set{CustomResource: owner.GetObjectKind().GroupVersionKind().GroupKind().String()}))
		obj.SetOwnerReferences(withoutOwner(obj, owner))
	default:
		ref := *metav1.NewControllerRef(owner, owner.GetObjectKind().GroupVersionKind())
		refs := slices.Clone(obj.GetOwnerReferences())
		i := slices.IndexFunc(refs, func(ref metav1.OwnerReference) bool {
			return ref.UID == owner.GetUID() && ptr.Deref(ref.Controller, false)
		})
		if i < 0 {
			refs = append(refs, ref)
		} else {
			refs[i] = ref // the garbage collector finds no owner by a version that the cluster no longer serves
		}
		obj.SetOwnerReferences(refs)
	}
}

// withoutOwner are the owner references of obj but for that to owner.
func withoutOwner(obj metav1.Object, owner client.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

// SaysReleasedFrom is whether obj, which nobody owns any more, says by its marks that it was made for owner.
func SaysReleasedFrom(obj metav1.Object, owner client.Object) bool {
	annotations := obj.GetAnnotations()
	of := annotations[CustomResource]
	return annotations[ReleaseName] == owner.GetName() && annotations[ReleaseNamespace] == owner.GetNamespace() &&
		(of == "" && !InNoNamespace(obj) || of == owner.GetObjectKind().GroupVersionKind().GroupKind().String())
}

// Disown takes off obj by what the operator knows it. Helm's marks stay.
func Disown(obj metav1.Object) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	delete(labels, managedByLabel)
	delete(annotations, CustomResource)
	delete(annotations, adopted)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// Inheritable is whether nobody owns obj: it has no owner, as what was restored from a backup or orphaned, or only one of
// the name of owner, which is gone, for the name is owner's now.
func Inheritable(obj metav1.Object, owner client.Object) bool {
	return obj.GetDeletionTimestamp() == nil && len(withoutNamesakes(obj, owner)) == 0
}

// MarkedFor is whether an inheritable object is marked, whatever the chart adds to that, as of the release of owner: a namesake has left it, or a backup had it.
func MarkedFor(obj metav1.Object, owner client.Object) bool {
	marked := &metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Labels: ManagedByLabels(), Annotations: map[string]string{ReleaseName: owner.GetName(), ReleaseNamespace: owner.GetNamespace()},
	}
	return Inheritable(obj, owner) && len(Unmarked(obj, marked, owner)) == 0
}

// stockMadeFor is whether obj says, by the marks of a stock Helm operator, that it is made for owner. Who can write them could write ours.
func stockMadeFor(obj metav1.Object, owner client.Object) bool {
	return obj.GetAnnotations()[stockOwner] == owner.GetNamespace()+"/"+owner.GetName() &&
		obj.GetAnnotations()[stockOwnerKind] == owner.GetObjectKind().GroupVersionKind().GroupKind().String()
}

// Inherit makes an inheritable object owner's.
func Inherit(obj metav1.Object, owner client.Object) {
	obj.SetOwnerReferences(withoutNamesakes(obj, owner))
	Adopt(obj, owner)
}

// withoutNamesakes are the owners of obj but for those of the name of owner.
func withoutNamesakes(obj metav1.Object, owner client.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return namesake(ref, owner) })
}

func namesake(ref metav1.OwnerReference, owner client.Object) bool {
	gvk := owner.GetObjectKind().GroupVersionKind()
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && group.Group == gvk.Group && ref.Kind == gvk.Kind && ref.Name == owner.GetName() && ref.UID != owner.GetUID()
}

// ofVersion are the labels in which the objects of two versions of a chart differ.
var ofVersion = []string{"helm.sh/chart", "app.kubernetes.io/version"}

// Unmarked lists the labels and annotations, of those by which one knows the release of owner that an object is made for, that live
// has not.
func Unmarked(live, desired metav1.Object, owner client.Object) (missing []string) {
	ofStock := stockMadeFor(live, owner)
	for _, key := range slices.Sorted(maps.Keys(desired.GetLabels())) {
		if ofStock && key == managedByLabel {
			continue
		}
		value, labelled := live.GetLabels()[key]
		if want := desired.GetLabels()[key]; !labelled || value != want && !slices.Contains(ofVersion, key) {
			missing = append(missing, fmt.Sprintf("label %s=%s", key, want))
		}
	}
	wanted := map[string]string{ReleaseName: desired.GetAnnotations()[ReleaseName], ReleaseNamespace: desired.GetAnnotations()[ReleaseNamespace]}
	if _, says := live.GetAnnotations()[CustomResource]; says || !ofStock && (Kept(live) || Kept(desired) || InNoNamespace(desired)) {
		wanted[CustomResource] = owner.GetObjectKind().GroupVersionKind().GroupKind().String()
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if want := wanted[key]; live.GetAnnotations()[key] != want {
			missing = append(missing, fmt.Sprintf("annotation %s=%s", key, want))
		}
	}
	return missing
}

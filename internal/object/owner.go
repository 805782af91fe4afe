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
	// Category is a category of the CRDs of all kinds of the operator. By it, kubectl get and kubectl welcome
	// find custom resources of any kind.
	Category = "welcome-operator"

	// Manager is the field manager of all that the operator writes.
	Manager = "welcome-operator"

	// managedByLabel marks every object and every release record that the operator made.
	// The caches select on it: an object that loses it is invisible to the operator until
	// the next drift repair puts it back.
	managedByLabel = "webapp.demo.welcome.domain/managed-by"
	// managedByValue is the value of managedByLabel.
	managedByValue = "welcome-operator"

	// HelmLabel has the value Helm on all objects of a release. By it, and by the annotations with the prefix
	// below, Helm knows them (helm.sh/helm/v3 pkg/action/validate.go).
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
	// StockOwnerKind is the annotation by which the stock Helm operators know the kind that an object without an owner
	// reference belongs to, as in Welcome.webapp.demo.welcome.domain, and stockOwner that with NAMESPACE/NAME
	// (operator-lib, handler/enqueue_annotation.go).
	StockOwnerKind = "operator-sdk/primary-resource-type"
	stockOwner     = "operator-sdk/primary-resource"
	// CustomResource is the annotation of an object without an owner reference that names the kind of its
	// custom resource, as in Welcome.webapp.demo.welcome.domain: custom resources of two kinds may have the
	// same name, which is all that Helm's annotations tell.
	CustomResource = "webapp.demo.welcome.domain/custom-resource"

	// Published is the label of the ConfigMap in which an operator tells how it was started.
	Published = "webapp.demo.welcome.domain/published"
)

// IsHook is whether obj is one of Helm's hooks.
func IsHook(obj *unstructured.Unstructured) bool { return obj.GetAnnotations()[hook] != "" }

// Kept is whether obj is to outlive its custom resource, in Helm's reading of its annotation. A hook is not:
// Helm deletes it to make it anew.
func Kept(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	return annotations[hook] == "" && strings.EqualFold(strings.TrimSpace(annotations[Policy]), Keep)
}

// ManagedBy selects what the operator made.
func ManagedBy() labels.Selector { return labels.SelectorFromSet(ManagedByLabels()) }

// ManagedByLabels are the labels that ManagedBy selects.
func ManagedByLabels() labels.Set { return labels.Set{managedByLabel: managedByValue} }

// ForgetHook removes the hook annotations of obj that the chart no longer sets. With them, obj would be spared
// like a hook for ever, and not kept where the chart says so.
func ForgetHook(obj, desired metav1.Object) {
	annotations, wanted := obj.GetAnnotations(), desired.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		_, is := wanted[key]
		return strings.HasPrefix(key, hook) && !is
	})
	obj.SetAnnotations(annotations)
}

// InNoNamespace is whether obj, as the cluster has it or is to have it, is cluster-scoped. An owner reference
// to a custom resource, which is in a namespace, would have the garbage collector delete it.
func InNoNamespace(obj metav1.Object) bool { return obj.GetNamespace() == "" }

// Owned is whether obj is owner's: owner controls it, or it has no controller and is in unowned. A
// cluster-scoped object is also known by its marks, so that none is lost if the operator is killed right after
// it has created it: nobody with rights in namespaces only can write those.
func Owned(obj metav1.Object, owner client.Object, unowned []types.UID) bool {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		return controller.UID == owner.GetUID()
	}
	return slices.Contains(unowned, obj.GetUID()) || InNoNamespace(obj) && SaysMadeFor(obj, owner)
}

// MadeFor is the custom resource for which obj is made, as it says by its controller or, without one, by its
// marks. The name is empty if it says neither. It is no proof: whoever may write obj can say so.
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

// Adopt marks obj as made by the operator for owner, and removes AdoptFor, which is used up, and which no chart
// may set. The owner reference lets the garbage collector delete obj should the operator be gone when owner is
// deleted. A kept object gets none: in a foreground deletion, the garbage collector does not wait for the
// operator. Nor does a cluster-scoped one.
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

// withoutOwner are the owner references of obj except that to owner.
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

// Disown removes the marks of the operator from obj. Helm's stay.
func Disown(obj metav1.Object) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	delete(labels, managedByLabel)
	delete(annotations, CustomResource)
	delete(annotations, adopted)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// Inheritable is whether nobody else owns obj. It has no owner (after a restore from a backup, or an orphaning
// deletion), or only one that has the name of owner and so is gone, or owner itself, but not as its controller.
func Inheritable(obj metav1.Object, owner client.Object) bool {
	return obj.GetDeletionTimestamp() == nil && len(withoutNamesakes(obj, owner)) == 0
}

// MarkedFor is whether an inheritable object has the marks of owner's release: a namesake has left it, or it
// was restored from a backup.
func MarkedFor(obj metav1.Object, owner client.Object) bool {
	marked := &metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Labels: ManagedByLabels(), Annotations: map[string]string{ReleaseName: owner.GetName(), ReleaseNamespace: owner.GetNamespace()},
	}
	return Inheritable(obj, owner) && len(Unmarked(obj, marked, owner)) == 0
}

// stockMadeFor is whether obj has the marks of a stock Helm operator for owner. Whoever can write these could
// write ours.
func stockMadeFor(obj metav1.Object, owner client.Object) bool {
	return obj.GetAnnotations()[stockOwner] == owner.GetNamespace()+"/"+owner.GetName() &&
		obj.GetAnnotations()[StockOwnerKind] == owner.GetObjectKind().GroupVersionKind().GroupKind().String()
}

// Inherit makes an inheritable object owner's.
func Inherit(obj metav1.Object, owner client.Object) {
	obj.SetOwnerReferences(withoutNamesakes(obj, owner))
	Adopt(obj, owner)
}

// withoutNamesakes are the owner references of obj except those to other custom resources of owner's name, and those by
// which owner does not control it.
func withoutNamesakes(obj metav1.Object, owner client.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return namesake(ref, owner) || isMereOwner(ref, owner) })
}

// isMereOwner is whether an owner reference is to owner, but not as a controller: somebody has written it by hand.
func isMereOwner(ref metav1.OwnerReference, owner client.Object) bool {
	return ref.UID == owner.GetUID() && !ptr.Deref(ref.Controller, false)
}

func namesake(ref metav1.OwnerReference, owner client.Object) bool {
	gvk := owner.GetObjectKind().GroupVersionKind()
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && group.Group == gvk.Group && ref.Kind == gvk.Kind && ref.Name == owner.GetName() && ref.UID != owner.GetUID()
}

var (
	// ofVersion are labels that change with the version of a chart.
	ofVersion = []string{"helm.sh/chart", "app.kubernetes.io/version"}
	// ofUpgrade are those, what charts of old call the first of them, and what changes with each revision.
	ofUpgrade = append([]string{"chart", "helm.sh/revision"}, ofVersion...)
)

// Unmarked lists the labels and annotations by which an object is known as of owner's release, and that live
// lacks. The chart's labels tell it from what another kind's custom resource of the same name has left. They need
// not be there where live names the kind: chart and values may be others by now.
func Unmarked(live, desired metav1.Object, owner client.Object) (missing []string) {
	_, says := live.GetAnnotations()[CustomResource]
	ofStock, ofKind := stockMadeFor(live, owner), says && SaysReleasedFrom(live, owner)
	for _, key := range slices.Sorted(maps.Keys(desired.GetLabels())) {
		if ofStock && key == managedByLabel || ofKind && key != managedByLabel {
			continue
		}
		value, labelled := live.GetLabels()[key]
		if want := desired.GetLabels()[key]; !labelled || value != want && !slices.Contains(ofUpgrade, key) {
			missing = append(missing, fmt.Sprintf("label %s=%s", key, want))
		}
	}
	wanted := map[string]string{ReleaseName: desired.GetAnnotations()[ReleaseName], ReleaseNamespace: desired.GetAnnotations()[ReleaseNamespace]}
	if says || !ofStock && (Kept(live) || Kept(desired) || InNoNamespace(desired)) {
		wanted[CustomResource] = owner.GetObjectKind().GroupVersionKind().GroupKind().String()
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if want := wanted[key]; live.GetAnnotations()[key] != want {
			missing = append(missing, fmt.Sprintf("annotation %s=%s", key, want))
		}
	}
	return missing
}

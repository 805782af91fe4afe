// Package object knows what an object of a release looks like: whose it is, whether it is as it
// was applied, and what the chart wants in it. Its functions ask nobody.
package object

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// managedByLabel marks every object and every release record that the operator made.
	// The caches select on it: an object that loses it is invisible to the operator until
	// the next drift repair puts it back.
	managedByLabel = "webapp.demo.welcome.domain/managed-by"
	// managedByValue is the value of managedByLabel.
	managedByValue = "welcome-operator"

	// helmLabel and the annotations with this prefix are by what Helm knows the objects of a release (helm.sh/helm/v3
	// pkg/action/validate.go).
	helmLabel       = "app.kubernetes.io/managed-by"
	helmAnnotations = "meta.helm.sh/"
	// ReleaseName is Helm's annotation with the name of the release.
	ReleaseName = helmAnnotations + "release-name"
	// ReleaseNamespace is Helm's annotation with the namespace of the release.
	ReleaseNamespace = helmAnnotations + "release-namespace"
)

// ManagedBy selects what the operator made.
func ManagedBy() labels.Selector {
	return labels.SelectorFromSet(labels.Set{managedByLabel: managedByValue})
}

// Adopt marks obj as made by the operator for owner. The owner reference lets the garbage
// collector remove obj should the operator be gone when owner is deleted.
func Adopt(obj metav1.Object, owner client.Object) {
	set := obj.GetLabels()
	if set == nil {
		set = map[string]string{}
	}
	set[managedByLabel] = managedByValue
	obj.SetLabels(set)
	if !metav1.IsControlledBy(obj, owner) {
		ref := metav1.NewControllerRef(owner, owner.GetObjectKind().GroupVersionKind())
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), *ref))
	}
}

// Inheritable is whether nobody owns obj: it has no owner, as what was restored from a backup or orphaned, or only one of
// the name of owner, which is gone, for the name is owner's now.
func Inheritable(obj metav1.Object, owner client.Object) bool {
	isNamesake := func(ref metav1.OwnerReference) bool { return namesake(ref, owner) }
	return obj.GetDeletionTimestamp() == nil && len(slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), isNamesake)) == 0
}

// Inherit makes an inheritable object owner's.
func Inherit(obj metav1.Object, owner client.Object) {
	isNamesake := func(ref metav1.OwnerReference) bool { return namesake(ref, owner) }
	obj.SetOwnerReferences(slices.DeleteFunc(obj.GetOwnerReferences(), isNamesake))
	Adopt(obj, owner)
}

func namesake(ref metav1.OwnerReference, owner client.Object) bool {
	gvk := owner.GetObjectKind().GroupVersionKind()
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && group.Group == gvk.Group && ref.Kind == gvk.Kind && ref.Name == owner.GetName() && ref.UID != owner.GetUID()
}

// ofVersion are the labels in which the objects of two versions of a chart differ.
var ofVersion = []string{"helm.sh/chart", "app.kubernetes.io/version"}

// Unmarked lists the labels and annotations, of those by which one knows the release that an object is made for, that live
// has not.
func Unmarked(live, desired metav1.Object) (missing []string) {
	for _, key := range slices.Sorted(maps.Keys(desired.GetLabels())) {
		value, labelled := live.GetLabels()[key]
		if want := desired.GetLabels()[key]; !labelled || value != want && !slices.Contains(ofVersion, key) {
			missing = append(missing, fmt.Sprintf("label %s=%s", key, want))
		}
	}
	for _, key := range []string{ReleaseName, ReleaseNamespace} {
		if want := desired.GetAnnotations()[key]; live.GetAnnotations()[key] != want {
			missing = append(missing, fmt.Sprintf("annotation %s=%s", key, want))
		}
	}
	return missing
}

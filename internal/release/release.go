// Package release keeps the Helm releases of custom resources. It plugs into the seams of
// helm-operator-plugins: where release records are stored, what an action may touch, and
// how drift is found and repaired.
package release

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// managedByLabel marks every object and every release record that the operator made.
	// The caches select on it: an object that loses it is invisible to the operator until
	// the next drift repair puts it back.
	managedByLabel = "webapp.demo.welcome.domain/managed-by"
	// managedByValue is the value of managedByLabel.
	managedByValue = "welcome-operator"
)

// ManagedBy selects what the operator made.
func ManagedBy() labels.Selector {
	return labels.SelectorFromSet(labels.Set{managedByLabel: managedByValue})
}

// adopt marks obj as made by the operator for owner. The owner reference lets the garbage
// collector remove obj should the operator be gone when owner is deleted.
func adopt(obj metav1.Object, owner client.Object) {
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

package object

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// AdoptFor is the annotation that gives an object that nobody owns to the custom resource that it names, as
	// Recipient does. Whoever may write it may write the object anyway. It counts where Allow.Adopt is set, and
	// is removed when it was used.
	AdoptFor = "webapp.demo.welcome.domain/adopt-for"
	// adopted is the annotation of an object that was taken over for a release that is not applied yet: the UID
	// of the custom resource, and the last revision applied before. If the release comes to nothing, that is
	// still the last one, and the object is given back instead of deleted.
	adopted = "webapp.demo.welcome.domain/adopted"
)

// Recipient is the value of AdoptFor that names owner: Welcome.webapp.demo.welcome.domain/team-a/hello.
func Recipient(owner client.Object) string {
	return fmt.Sprintf("%s/%s/%s", owner.GetObjectKind().GroupVersionKind().GroupKind(), owner.GetNamespace(), owner.GetName())
}

// IsGiven is whether obj says that owner may take it over.
func IsGiven(obj metav1.Object, owner client.Object) bool {
	return obj.GetAnnotations()[AdoptFor] == Recipient(owner)
}

// CheckGiven is why owner may not take over an object, in words that follow "it", empty if it may.
func CheckGiven(obj metav1.Object, owner client.Object) string {
	owners := obj.GetOwnerReferences()
	switch {
	case InNoNamespace(obj):
		return "it is in no namespace"
	case len(owners) > 0:
		return fmt.Sprintf("it is owned by %s %s", Cut(owners[0].Kind, toldOfOthers), Cut(owners[0].Name, toldOfOthers))
	case obj.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case obj.GetAnnotations()[AdoptFor] == "": // these two come last: once the annotation is right, there is no other reason
		return fmt.Sprintf("it has no annotation %s=%s", AdoptFor, Recipient(owner))
	case !IsGiven(obj, owner):
		return fmt.Sprintf("its annotation %s names %s, and not %s", AdoptFor, Cut(obj.GetAnnotations()[AdoptFor], toldOfOthers), Recipient(owner))
	}
	return ""
}

// SelectsOthers is whether an object, as it would be, selects other pods than it does now.
func SelectsOthers(live, wanted *unstructured.Unstructured) bool {
	return slices.ContainsFunc([]string{"selector", "podSelector"}, func(selector string) bool {
		return !equality.Semantic.DeepEqual(field(live.Object["spec"], selector), field(wanted.Object["spec"], selector))
	})
}

// MarkAdopted marks an object that owner takes over, after the revision that was applied last.
func MarkAdopted(obj metav1.Object, owner client.Object, revision int) {
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), labels.Set{adopted: after(owner, revision)}))
}

// JustAdopted is whether an object was taken over for a release that is not applied yet: revision is still the
// last applied one.
func JustAdopted(obj metav1.Object, owner client.Object, revision int) bool {
	return obj.GetAnnotations()[adopted] == after(owner, revision)
}

// ForgetAdopted removes the annotation adopted once the release is applied.
func ForgetAdopted(obj metav1.Object, owner client.Object, revision int) {
	annotations := obj.GetAnnotations()
	if annotations[adopted] == "" || JustAdopted(obj, owner, revision) {
		return
	}
	delete(annotations, adopted) // once the revisions begin anew, it would match again
	obj.SetAnnotations(annotations)
}

func after(owner client.Object, revision int) string {
	return fmt.Sprintf("%s/%d", owner.GetUID(), revision)
}

// GiveBack undoes owner's take-over of an object, and marks it so that it can be taken over again.
func GiveBack(obj metav1.Object, owner client.Object) {
	Disown(obj)
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), labels.Set{AdoptFor: Recipient(owner)}))
	obj.SetOwnerReferences(withoutOwner(obj, owner))
}

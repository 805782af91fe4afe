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
	// AdoptFor is the annotation by which an object that nobody owns is given to the custom resource that it names, as Recipient does. Who may write it may write the
	// object. It counts where Allow.Adopt is set, and is gone once it was used.
	AdoptFor = "webapp.demo.welcome.domain/adopt-for"
	// adopted is the annotation of an object that was taken over, and is part of no release that was applied so far: with the UID of who took it,
	// and the last revision that was applied before. As long as that is the last one, the object is given back, and not deleted, should nothing come of the release.
	adopted = "webapp.demo.welcome.domain/adopted"
)

// Recipient is owner in the words of AdoptFor: Welcome.webapp.demo.welcome.domain/team-a/hello.
func Recipient(owner client.Object) string {
	return fmt.Sprintf("%s/%s/%s", owner.GetObjectKind().GroupVersionKind().GroupKind(), owner.GetNamespace(), owner.GetName())
}

// IsGiven is whether obj says that owner may take it over.
func IsGiven(obj metav1.Object, owner client.Object) bool {
	return obj.GetAnnotations()[AdoptFor] == Recipient(owner)
}

// CheckGiven is why owner may not take over an object, which goes on from "it ...", empty if it may: it is given to owner, and nobody's.
func CheckGiven(obj metav1.Object, owner client.Object) string {
	owners := obj.GetOwnerReferences()
	switch {
	case InNoNamespace(obj):
		return "it is in no namespace"
	case len(owners) > 0:
		return fmt.Sprintf("it is owned by %s %s", Cut(owners[0].Kind, toldOfOthers), Cut(owners[0].Name, toldOfOthers))
	case obj.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case obj.GetAnnotations()[AdoptFor] == "": // the last two: who writes it is not told another reason then
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

// JustAdopted is whether an object was taken over for a release of which nothing has come yet: revision is still the one that was applied last.
func JustAdopted(obj metav1.Object, owner client.Object, revision int) bool {
	return obj.GetAnnotations()[adopted] == after(owner, revision)
}

// ForgetAdopted takes that mark off an object once something has come of the release.
func ForgetAdopted(obj metav1.Object, owner client.Object, revision int) {
	annotations := obj.GetAnnotations()
	if annotations[adopted] == "" || JustAdopted(obj, owner, revision) {
		return
	}
	delete(annotations, adopted) // of a release that is made anew it would become true again
	obj.SetAnnotations(annotations)
}

func after(owner client.Object, revision int) string {
	return fmt.Sprintf("%s/%d", owner.GetUID(), revision)
}

// GiveBack makes an object, which owner has taken over, nobody's again, to be taken over once more.
func GiveBack(obj metav1.Object, owner client.Object) {
	Disown(obj)
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), labels.Set{AdoptFor: Recipient(owner)}))
	obj.SetOwnerReferences(withoutOwner(obj, owner))
}

package object

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Describe names an object for people. namespace is empty if the kind is cluster-scoped.
func Describe(kind, namespace, name string) string {
	if namespace == "" {
		return fmt.Sprintf("cluster-scoped %s %q", kind, name)
	}
	return fmt.Sprintf("%s %q in namespace %q", kind, name, namespace)
}

// InTheWay is why an object that exists and is not owner's is left alone. The text appears in the condition
// ObjectInTheWay, and in events.
func InTheWay(kind string, live metav1.Object, owner client.Object) error {
	whose := ""
	controller := metav1.GetControllerOfNoCopy(live)
	switch {
	case controller == nil && slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return isMereOwner(ref, owner) }):
		whose = ", whose owner reference in it lacks controller: true"
	case controller != nil && controller.UID == owner.GetUID(): // it is being deleted
		whose = " any longer"
	case controller != nil && !namesake(*controller, owner):
		whose = fmt.Sprintf(", but by %s %q", Cut(controller.Kind, toldOfOthers), Cut(controller.Name, toldOfOthers))
	}
	return inTheWay(fmt.Sprintf("%s exists and is not controlled by this custom resource%s: %s",
		Describe(kind, live.GetNamespace(), live.GetName()), whose, cmp.Or(Going(live), "delete or rename one of the two")))
}

// Going says that an object is being deleted, and what keeps it. It is empty if it is not being deleted.
func Going(live metav1.Object) string {
	finalizers := live.GetFinalizers()
	switch {
	case live.GetDeletionTimestamp() == nil:
		return ""
	case len(finalizers) == 0:
		return "it is being deleted"
	}
	return "it is being deleted, and these finalizers keep it: " + Cut(strings.Join(finalizers, ", "), toldOfOthers)
}

// toldOfOthers bounds how many bytes of a text that others have written are shown. Kubernetes bounds some of
// these texts only by the size of the object.
const toldOfOthers = 300

// Cut is the beginning of a text, with at most so many bytes, and no character cut in half.
func Cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }

// Causes are the fields that the API server names in an error, and what is wrong with each.
func Causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// Few are the first of many, and how many more there are.
func Few(all []string, most int) []string {
	if len(all) <= most {
		return all
	}
	return append(slices.Clip(all[:most]), fmt.Sprintf("%d more", len(all)-most))
}

type inTheWay string

func (e inTheWay) Error() string { return string(e) }

// IsInTheWay is whether an error is from InTheWay.
func IsInTheWay(err error) bool {
	_, is := errors.AsType[inTheWay](err)
	return is
}

// Each is whether is holds for an error, or for each one of joined errors.
func Each(err error, is func(error) bool) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !Each(one, is) })
	}
	return is(err)
}

// List names the objects of a release.
func List(children []Child) string {
	names := make([]string, len(children))
	for i, child := range children {
		names[i] = child.Kind + " " + child.Name
	}
	return strings.Join(names, ", ")
}

// Changes lists the paths of the fields in which two objects differ, for people to read. What the API server
// keeps is left out.
func Changes(before, after map[string]any) []string {
	var paths []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if equality.Semantic.DeepEqual(a, b) {
			return
		}
		if before, after := list(a), list(b); len(before) == len(after) && len(after) > 0 {
			for i := range after {
				walk(fmt.Sprintf("%s[%d]", path, i), before[i], after[i])
			}
			return
		}
		left, leftIsMap := a.(map[string]any)
		right, rightIsMap := b.(map[string]any)
		if !leftIsMap || !rightIsMap {
			paths = append(paths, path)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(both(left, right))) {
			walk(path+"."+key, left[key], right[key])
		}
	}
	for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		a, _, _ := unstructured.NestedFieldNoCopy(before, "metadata", key)
		b, _, _ := unstructured.NestedFieldNoCopy(after, "metadata", key)
		if !isEmpty(a) || !isEmpty(b) { // the API server drops what is empty
			walk("metadata."+key, a, b)
		}
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "metadata.annotations."+adopted }) // only the operator writes it
	for _, key := range slices.Sorted(maps.Keys(both(before, after))) {
		if key != "metadata" && key != "status" {
			walk(key, before[key], after[key])
		}
	}
	return paths
}

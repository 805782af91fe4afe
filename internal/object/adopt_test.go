package object

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCheckGiven(t *testing.T) {
	owner := greeting()
	now := metav1.Now()
	given := map[string]string{AdoptFor: Recipient(owner)}
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		why    string // empty if it may be taken over
	}{
		"given":             {metav1.ObjectMeta{Namespace: "a", Annotations: given}, ""},
		"not given":         {metav1.ObjectMeta{Namespace: "a"}, "it has no annotation " + AdoptFor + "=" + Recipient(owner)},
		"to another":        {metav1.ObjectMeta{Namespace: "a", Annotations: map[string]string{AdoptFor: Recipient(owner) + "-2"}}, "names " + Recipient(owner) + "-2"},
		"to no kind":        {metav1.ObjectMeta{Namespace: "a", Annotations: map[string]string{AdoptFor: "/" + owner.GetNamespace() + "/hello"}}, "and not " + Recipient(owner)},
		"owned":             {metav1.ObjectMeta{Namespace: "a", Annotations: given, OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "p"}}}, "it is owned by Pod p"},
		"owned by namesake": {metav1.ObjectMeta{Namespace: "a", Annotations: given, OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v2", Kind: "Greeting", Name: "hello", UID: "old"}}}, "it is owned by Greeting hello"},
		"deleted":           {metav1.ObjectMeta{Namespace: "a", Annotations: given, DeletionTimestamp: &now}, "it is being deleted"},
		"in no namespace":   {metav1.ObjectMeta{Annotations: given}, "it is in no namespace"},
	} {
		if got := CheckGiven(&c.object, owner); got != c.why && (c.why == "" || !strings.Contains(got, c.why)) {
			t.Errorf("%s: %q, not %q", name, got, c.why)
		}
	}
}

// What is taken over is given back as it was, and that it was given to anybody is used up, whoever says so.
func TestGiveBack(t *testing.T) {
	owner := greeting()
	obj := &unstructured.Unstructured{}
	obj.SetNamespace(owner.GetNamespace())
	obj.SetAnnotations(map[string]string{AdoptFor: Recipient(owner), "theirs": "stays"})
	obj.SetLabels(map[string]string{"theirs": "stays"})
	before := obj.DeepCopy()
	Adopt(obj, owner)
	MarkAdopted(obj, owner, 3)
	if IsGiven(obj, owner) || !metav1.IsControlledBy(obj, owner) || !JustAdopted(obj, owner, 3) || JustAdopted(obj, owner, 4) || JustAdopted(before, owner, 0) {
		t.Errorf("taken over: %v", obj)
	}
	GiveBack(obj, owner)
	if len(Changes(before.Object, obj.Object)) > 0 || obj.GetAnnotations()[adopted] != "" || len(obj.GetOwnerReferences()) > 0 {
		t.Errorf("given back: %v, not %v", obj, before)
	}
}

func TestSelectsOthers(t *testing.T) {
	spec := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	a, b := map[string]any{"app": "a"}, map[string]any{"app": "b"}
	for name, c := range map[string]struct {
		live, wanted map[string]any
		want         bool
	}{
		"same":         {map[string]any{"selector": a, "x": "y"}, map[string]any{"selector": a}, false},
		"none":         {map[string]any{"x": "y"}, nil, false},
		"other":        {map[string]any{"selector": a}, map[string]any{"selector": b}, true},
		"no longer":    {map[string]any{"selector": a}, map[string]any{}, true},
		"other policy": {map[string]any{"podSelector": a}, map[string]any{"podSelector": b}, true},
	} {
		if got := SelectsOthers(spec(c.live), spec(c.wanted)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

package object

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestInheritable(t *testing.T) {
	owner := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Greeting", "metadata": map[string]any{"name": "hello", "uid": "new"}}}
	was := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Greeting", Name: "hello", UID: "old"}
	ref := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		changed := was
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		refs []metav1.OwnerReference
		want bool
	}{
		"nobody":                    {nil, true},
		"a namesake":                {[]metav1.OwnerReference{was}, true},
		"the owner":                 {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.UID = "new" })}, false},
		"another name":              {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.Name = "other" })}, false},
		"another kind":              {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.Kind = "Other" })}, false},
		"another group":             {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "example.org/v1" })}, false},
		"the core group":            {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "v1" })}, false},
		"no version":                {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "a/b/c" })}, false},
		"a namesake, and one more":  {[]metav1.OwnerReference{was, {APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "x"}}, false},
		"two namesakes, both stale": {[]metav1.OwnerReference{was, ref(func(r *metav1.OwnerReference) { r.UID = "older" })}, true},
	} {
		obj := &metav1.ObjectMeta{OwnerReferences: slices.Clone(c.refs)}
		if got := Inheritable(obj, owner); got != c.want {
			t.Errorf("owned by %s: inheritable is %t", name, got)
		}
		if !slices.Equal(obj.OwnerReferences, c.refs) {
			t.Errorf("owned by %s: the look has changed it to %v", name, obj.OwnerReferences)
		}
		if !c.want {
			continue
		}
		if Inherit(obj, owner); len(obj.OwnerReferences) != 1 || !metav1.IsControlledBy(obj, owner) {
			t.Errorf("owned by %s: then by %v", name, obj.OwnerReferences)
		}
	}
	if Inheritable(&metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, owner) {
		t.Error("an object that goes is inheritable")
	}
}

func TestUnmarked(t *testing.T) {
	desired := &metav1.ObjectMeta{
		Labels:      map[string]string{"app": "hello", "helm.sh/chart": "hello-2"},
		Annotations: map[string]string{ReleaseName: "hello", ReleaseNamespace: "team-a", "more": "x"},
	}
	marked := func(change func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		live := desired.DeepCopy()
		live.Labels["theirs"] = "y"
		change(live)
		return live
	}
	for name, c := range map[string]struct {
		live *metav1.ObjectMeta
		want []string
	}{
		"all":                          {marked(func(*metav1.ObjectMeta) {}), nil},
		"of another version":           {marked(func(o *metav1.ObjectMeta) { o.Labels["helm.sh/chart"] = "hello-1" }), nil},
		"without another annotation":   {marked(func(o *metav1.ObjectMeta) { delete(o.Annotations, "more") }), nil},
		"no version":                   {marked(func(o *metav1.ObjectMeta) { delete(o.Labels, "helm.sh/chart") }), []string{"label helm.sh/chart=hello-2"}},
		"another's label":              {marked(func(o *metav1.ObjectMeta) { o.Labels["app"] = "bye" }), []string{"label app=hello"}},
		"of a release of another name": {marked(func(o *metav1.ObjectMeta) { o.Annotations[ReleaseName] = "bye" }), []string{"annotation " + ReleaseName + "=hello"}},
		"nothing": {&metav1.ObjectMeta{}, []string{
			"label app=hello", "label helm.sh/chart=hello-2", "annotation " + ReleaseName + "=hello", "annotation " + ReleaseNamespace + "=team-a",
		}},
	} {
		if got := Unmarked(c.live, desired); !slices.Equal(got, c.want) {
			t.Errorf("%s: it lacks %q, want %q", name, got, c.want)
		}
	}
}

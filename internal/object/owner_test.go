package object

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestInheritable(t *testing.T) {
	owner := greeting()
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
		"the owner, its controller": {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.UID, r.Controller = "new", new(true) })}, false},
		"the owner alone":           {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.UID = "new" })}, true},
		"another name":              {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.Name = "other" })}, false},
		"another kind":              {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.Kind = "Other" })}, false},
		"another group":             {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "example.org/v1" })}, false},
		"the core group":            {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "v1" })}, false},
		"no version":                {[]metav1.OwnerReference{ref(func(r *metav1.OwnerReference) { r.APIVersion = "a/b/c" })}, false},
		"a namesake, and one more":  {[]metav1.OwnerReference{was, {APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "x"}}, false},
		"two namesakes, both stale": {[]metav1.OwnerReference{was, ref(func(r *metav1.OwnerReference) { r.UID = "older" })}, true},
	} {
		obj := &metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: slices.Clone(c.refs)}
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

// greeting is the custom resource "hello".
func greeting() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Greeting", "metadata": map[string]any{"namespace": "team-a", "name": "hello", "uid": "new"}}}
}

func TestAdoptKept(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "x"}
	obj := &metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: []metav1.OwnerReference{other, *metav1.NewControllerRef(greeting(), greeting().GroupVersionKind())}}
	obj.Annotations = map[string]string{Policy: " Keep", ReleaseName: "hello"} // as Helm reads it
	for range 2 {
		Adopt(obj, greeting())
	}
	if !slices.Equal(obj.OwnerReferences, []metav1.OwnerReference{other}) || obj.Annotations[CustomResource] != "Greeting.example.com" || !ManagedBy().Matches(labels.Set(obj.Labels)) {
		t.Errorf("it is %+v", obj)
	}
	if kind, of := MadeFor(obj); of != (types.NamespacedName{Namespace: "team-a", Name: "hello"}) || kind != (schema.GroupKind{Group: "example.com", Kind: "Greeting"}) {
		t.Errorf("it is made for %v %q", kind, of)
	}
	delete(obj.Annotations, Policy)
	if Adopt(obj, greeting()); !metav1.IsControlledBy(obj, greeting()) || len(obj.OwnerReferences) != 2 {
		t.Errorf("no longer kept, it has the owners %v", obj.OwnerReferences)
	}
}

// What is cluster-scoped can have no owner in a namespace. It is known by its UID, or says whose it is.
func TestAdoptInNoNamespace(t *testing.T) {
	obj := &metav1.ObjectMeta{Annotations: map[string]string{ReleaseName: "hello", ReleaseNamespace: "team-a"}}
	for range 2 {
		Adopt(obj, greeting())
	}
	if len(obj.OwnerReferences) != 0 || obj.Annotations[CustomResource] != "Greeting.example.com" || !Owned(obj, greeting(), nil) || !MarkedFor(obj, greeting()) {
		t.Errorf("it is %+v", obj)
	}
	for key, value := range map[string]string{CustomResource: "Other.example.com", ReleaseName: "other", ReleaseNamespace: "team-b"} {
		other := obj.DeepCopy()
		other.Annotations[key] = value
		if Owned(other, greeting(), nil) || MarkedFor(other, greeting()) {
			t.Errorf("with %s=%s it is owned", key, value)
		}
		if other.UID = "listed"; !Owned(other, greeting(), []types.UID{"listed"}) {
			t.Errorf("listed, and with %s=%s, it is not owned", key, value)
		}
	}
	if obj.Namespace = "team-a"; Owned(obj, greeting(), nil) {
		t.Error("what is in a namespace is owned by what it says")
	}
}

func TestKept(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"nothing":        {nil, false},
		"keep":           {map[string]string{Policy: "keep"}, true},
		"as Helm reads":  {map[string]string{Policy: " Keep\n"}, true},
		"another policy": {map[string]string{Policy: "delete"}, false},
		"a hook":         {map[string]string{Policy: "keep", hook: "pre-install"}, false},
	} {
		if got := Kept(&metav1.ObjectMeta{Annotations: c.annotations}); got != c.want {
			t.Errorf("%s: kept is %t", name, got)
		}
	}
}

func TestOwned(t *testing.T) {
	own, foreign := *metav1.NewControllerRef(greeting(), greeting().GroupVersionKind()), metav1.OwnerReference{UID: "x", Controller: new(true)}
	for name, c := range map[string]struct {
		uid  types.UID
		refs []metav1.OwnerReference
		want bool
	}{
		"controlled":                          {"a", []metav1.OwnerReference{own}, true},
		"another's":                           {"a", []metav1.OwnerReference{foreign}, false},
		"nobody's":                            {"a", nil, false},
		"listed":                              {"listed", nil, true},
		"listed, with an owner":               {"listed", []metav1.OwnerReference{{UID: "y"}}, true},
		"listed, and another's by now":        {"listed", []metav1.OwnerReference{foreign}, false},
		"listed, and controlled by the owner": {"listed", []metav1.OwnerReference{own}, true},
	} {
		if got := Owned(&metav1.ObjectMeta{Namespace: "team-a", UID: c.uid, OwnerReferences: c.refs}, greeting(), []types.UID{"other", "listed"}); got != c.want {
			t.Errorf("%s: owned is %t", name, got)
		}
	}
}

func TestUnmarked(t *testing.T) {
	desired := &metav1.ObjectMeta{
		Namespace:   "team-a",
		Labels:      map[string]string{"app": "hello", "helm.sh/chart": "hello-2", "helm.sh/revision": "3", "chart": "hello-2", managedByLabel: managedByValue},
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
		"of another version":           {marked(func(o *metav1.ObjectMeta) { o.Labels["helm.sh/chart"], o.Labels["chart"] = "hello-1", "hello-1" }), nil},
		"of another revision":          {marked(func(o *metav1.ObjectMeta) { o.Labels["helm.sh/revision"] = "2" }), nil},
		"without another annotation":   {marked(func(o *metav1.ObjectMeta) { delete(o.Annotations, "more") }), nil},
		"no version":                   {marked(func(o *metav1.ObjectMeta) { delete(o.Labels, "helm.sh/chart") }), []string{"label helm.sh/chart=hello-2"}},
		"another's label":              {marked(func(o *metav1.ObjectMeta) { o.Labels["app"] = "bye" }), []string{"label app=hello"}},
		"of a release of another name": {marked(func(o *metav1.ObjectMeta) { o.Annotations[ReleaseName] = "bye" }), []string{"annotation " + ReleaseName + "=hello"}},
		"kept for this kind":           {marked(func(o *metav1.ObjectMeta) { o.Annotations[CustomResource] = "Greeting.example.com" }), nil},
		"kept for this kind by another chart, with other values": {marked(func(o *metav1.ObjectMeta) {
			o.Annotations[CustomResource], o.Labels = "Greeting.example.com", ManagedByLabels()
		}), nil},
		"kept for this kind, of a release of another name": {marked(func(o *metav1.ObjectMeta) {
			o.Annotations[CustomResource], o.Annotations[ReleaseName], o.Labels["app"] = "Greeting.example.com", "bye", "bye"
		}), []string{"label app=hello", "annotation " + ReleaseName + "=hello"}},
		"kept for another kind, by its chart": {marked(func(o *metav1.ObjectMeta) {
			o.Annotations[CustomResource], o.Labels["app"] = "Other.example.com", "bye"
		}), []string{"label app=hello", "annotation " + CustomResource + "=Greeting.example.com"}},
		"kept for this kind, unmarked": {marked(func(o *metav1.ObjectMeta) {
			o.Annotations[CustomResource], o.Labels = "Greeting.example.com", nil
		}), []string{"label " + managedByLabel + "=" + managedByValue}},
		"kept for another kind":  {marked(func(o *metav1.ObjectMeta) { o.Annotations[CustomResource] = "Other.example.com" }), []string{"annotation " + CustomResource + "=Greeting.example.com"}},
		"kept for whatever kind": {marked(func(o *metav1.ObjectMeta) { o.Annotations[Policy] = Keep }), []string{"annotation " + CustomResource + "=Greeting.example.com"}},
		"nothing": {&metav1.ObjectMeta{}, []string{
			"label app=hello", "label chart=hello-2", "label helm.sh/chart=hello-2", "label helm.sh/revision=3", "label " + managedByLabel + "=" + managedByValue,
			"annotation " + ReleaseName + "=hello", "annotation " + ReleaseNamespace + "=team-a",
		}},
	} {
		if got := Unmarked(c.live, desired, greeting()); !slices.Equal(got, c.want) {
			t.Errorf("%s: it lacks %q, want %q", name, got, c.want)
		}
	}
}

func TestSaysReleasedFrom(t *testing.T) {
	owner := greeting()
	marks := func(change map[string]string) map[string]string {
		all := map[string]string{ReleaseName: owner.GetName(), ReleaseNamespace: owner.GetNamespace()}
		maps.Copy(all, change)
		return all
	}
	kind := owner.GroupVersionKind().GroupKind().String()
	for name, c := range map[string]struct {
		namespace string
		marks     map[string]string
		want      bool
	}{
		"its own":                          {owner.GetNamespace(), marks(nil), true},
		"its own, kept":                    {owner.GetNamespace(), marks(map[string]string{CustomResource: kind}), true},
		"its own, in no namespace":         {"", marks(map[string]string{CustomResource: kind}), true},
		"in no namespace, of nobody":       {"", marks(nil), false},
		"in no namespace, of a namesake":   {"", marks(map[string]string{CustomResource: kind, ReleaseNamespace: "other"}), false},
		"of another kind":                  {owner.GetNamespace(), marks(map[string]string{CustomResource: "Other.example.com"}), false},
		"of another release":               {owner.GetNamespace(), marks(map[string]string{ReleaseName: "other"}), false},
		"of a release elsewhere":           {owner.GetNamespace(), marks(map[string]string{ReleaseNamespace: "other"}), false},
		"somebody's, with no marks at all": {owner.GetNamespace(), nil, false},
	} {
		if got := SaysReleasedFrom(&metav1.ObjectMeta{Namespace: c.namespace, Annotations: c.marks}, owner); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

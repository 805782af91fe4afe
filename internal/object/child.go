package object

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Child is an object of a release, in the namespace of its custom resource or in none.
type Child struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Fingerprint has the marks of what is the chart's, and not of what others have set.
	Fingerprint string `json:"fingerprint"`
	// ResourceVersion is the API server's answer to the apply.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// UID of an object that carries no owner reference: by it the custom resource knows it as its own. Empty for others.
	UID types.UID `json:"uid,omitempty"`
	// Expires is whether it goes by itself some time after it is done, as a Job with ttlSecondsAfterFinished
	// does, and Expired whether it was seen to have gone: it is not made again, or it would run for ever.
	// Failed is whether it was seen to have failed before.
	Expires bool `json:"expires,omitempty"`
	Expired bool `json:"expired,omitempty"`
	Failed  bool `json:"failed,omitempty"`
	// Scaled is whether its replicas were left to who scales it. They stay so when somebody edits them: other
	// work on the object would else bring them down to the chart's default, weeks later.
	Scaled bool `json:"scaled,omitempty"`
}

// Named is the child that stands for an object, whatever is in it.
func Named(o *unstructured.Unstructured) Child {
	return Child{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
}

// Empty is an object of c's kind, to read it into.
func (c Child) Empty() *unstructured.Unstructured {
	return Empty(schema.FromAPIVersionAndKind(c.APIVersion, c.Kind))
}

// ChildOf describes an object as the API server answered after it was brought to what the chart wants in what is not left
// to others. The fingerprint of a Secret is made with key.
func ChildOf(applied, desired *unstructured.Unstructured, left Left, rules Ignored, key Key) Child {
	child := Named(applied)
	child.Fingerprint = fingerprint(applied, rules, func(p pointer) bool { return isTheCharts(p, desired, left) })
	child.ResourceVersion = applied.GetResourceVersion()
	if IsSecret(applied) {
		child.Fingerprint = key.seal(child.Fingerprint)
	}
	leaves := func(left Left) bool { return slices.ContainsFunc(left, mustPointer(replicas).covers) }
	child.Scaled = leaves(left) && !leaves(rules.of(desired)) // a rule may be taken back
	if metav1.GetControllerOfNoCopy(applied) == nil {
		child.UID = applied.GetUID()
	}
	if applied.GroupVersionKind().GroupKind() == Job {
		_, child.Expires, _ = unstructured.NestedFieldNoCopy(applied.Object, "spec", "ttlSecondsAfterFinished")
	}
	return child
}

// Intact is whether an object of the cache is as c was applied, but for what is left to others: owner's, with
// an owner reference unless it is kept or cluster-scoped. key is that of ChildOf.
func (c Child) Intact(slim *unstructured.Unstructured, owner client.Object, key Key) bool {
	fingerprint := CachedFingerprint(slim)
	if IsSecret(slim) {
		fingerprint = key.seal(fingerprint)
	}
	return Owned(slim, owner, []types.UID{c.UID}) && (metav1.GetControllerOfNoCopy(slim) == nil) == (Kept(slim) || InNoNamespace(slim)) && has(fingerprint, c.Fingerprint)
}

// ShownBy is whether object, read from a cache, already is as c was applied, or newer.
func (c Child) ShownBy(object client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), c.ResourceVersion)
	return err == nil && order >= 0
}

// Same is whether two children stand for the same object, whatever is in it.
func (c Child) Same(other Child) bool {
	return c.APIVersion == other.APIVersion && c.Kind == other.Kind && c.Name == other.Name
}

// SameInAnyVersion is whether two children stand for the same object, which may have been made by different
// versions of its API.
func (c Child) SameInAnyVersion(other Child) bool {
	kind := func(c Child) schema.GroupKind { return schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind() }
	return kind(c) == kind(other) && c.Name == other.Name
}

// SameContent is whether two children stand for the same content of the same object, and it is known by the same UID.
func (c Child) SameContent(other Child) bool {
	return c.Same(other) && c.Fingerprint == other.Fingerprint && c.UID == other.UID && c.Expired == other.Expired && c.Failed == other.Failed
}

// WithScaled are children with what looked, the same ones as they are now, tell of who scales them.
func WithScaled(children, looked []Child) []Child {
	children = slices.Clone(children) // others read them
	for i, child := range children {
		if at := slices.IndexFunc(looked, child.Same); at >= 0 {
			children[i].Scaled = looked[at].Scaled
		}
	}
	return children
}

// Compare orders children by version, kind and name.
func (c Child) Compare(other Child) int {
	return strings.Compare(c.APIVersion+"/"+c.Kind+"/"+c.Name, other.APIVersion+"/"+other.Kind+"/"+other.Name)
}

// MaxChildren bounds the text of children: what is longer counts as unknown. It holds about a hundred objects.
const MaxChildren = 32 << 10

// Text of children, for the status of their custom resource. It is empty if they are not known, or too many.
func Text(children []Child) string {
	if children == nil {
		return ""
	}
	text, err := json.Marshal(children)
	if err != nil || len(text) > MaxChildren {
		return ""
	}
	return string(text)
}

// Children are those of a text, nil if it has none.
func Children(text string) (children []Child) {
	if err := json.Unmarshal([]byte(text), &children); err != nil {
		return nil
	}
	return children
}

// BareManifest names children, and no more: enough to delete them or to go on from them.
func BareManifest(children []Child) string {
	var manifest strings.Builder
	for _, child := range children {
		fmt.Fprintf(&manifest, "---\napiVersion: %q\nkind: %q\nmetadata: {name: %q}\n", child.APIVersion, child.Kind, child.Name)
	}
	return manifest.String()
}

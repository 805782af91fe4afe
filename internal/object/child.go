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

// Child is an object of a release. It is in the namespace of its custom resource, or cluster-scoped.
type Child struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Fingerprint has only the marks of what is the chart's, not of what others have set.
	Fingerprint string `json:"fingerprint"`
	// ResourceVersion is the API server's answer to the apply.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// UID is set if the object has no owner reference: by its UID the custom resource knows it as its own.
	UID types.UID `json:"uid,omitempty"`
	// Expires is whether the object deletes itself some time after it is done, as a Job with
	// ttlSecondsAfterFinished does. Expired is whether that was seen: then it is not created again, or it
	// would run for ever. Failed is whether it was seen to have failed before.
	Expires bool `json:"expires,omitempty"`
	Expired bool `json:"expired,omitempty"`
	Failed  bool `json:"failed,omitempty"`
	// Scaled is whether the replicas were left to whoever scales the object. They stay so when somebody edits
	// them: otherwise a later repair of something else would set them to the chart's default.
	Scaled bool `json:"scaled,omitempty"`
}

// Named is the child that stands for an object, without its content.
func Named(o *unstructured.Unstructured) Child {
	return Child{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
}

// Empty is an empty object of c's kind, to read into.
func (c Child) Empty() *unstructured.Unstructured {
	return Empty(schema.FromAPIVersionAndKind(c.APIVersion, c.Kind))
}

// ChildOf describes an object as the API server returned it after an apply. left is what of it is left to
// others. The fingerprint of a Secret is made with key.
func ChildOf(applied, desired *unstructured.Unstructured, left Left, rules Ignored, key Key) Child {
	child := Named(applied)
	child.Fingerprint = fingerprint(applied, rules, func(p pointer) bool { return isTheCharts(p, desired, left) })
	child.ResourceVersion = applied.GetResourceVersion()
	if IsSecret(applied) {
		child.Fingerprint = key.seal(child.Fingerprint)
	}
	leaves := func(left Left) bool { return slices.ContainsFunc(left, replicas.covers) }
	child.Scaled = leaves(left) && !leaves(rules.of(desired)) // a rule of driftDetection counts only as long as it is there
	if metav1.GetControllerOfNoCopy(applied) == nil {
		child.UID = applied.GetUID()
	}
	if applied.GroupVersionKind().GroupKind() == Job {
		_, child.Expires, _ = unstructured.NestedFieldNoCopy(applied.Object, "spec", "ttlSecondsAfterFinished")
	}
	return child
}

// Intact is whether a cached object is still as c was applied, except for what is left to others. It must be
// owner's, and have an owner reference unless it is kept or cluster-scoped. That has to name owner, too, by which
// the garbage collector looks for it. key is that of ChildOf.
func (c Child) Intact(slim *unstructured.Unstructured, owner client.Object, key Key) bool {
	fingerprint := CachedFingerprint(slim)
	if IsSecret(slim) {
		fingerprint = key.seal(fingerprint)
	}
	controlled := metav1.GetControllerOfNoCopy(slim) != nil
	return Owned(slim, owner, []types.UID{c.UID}) && controlled != (Kept(slim) || InNoNamespace(slim)) &&
		(!controlled || SaysMadeFor(slim, owner)) && has(fingerprint, c.Fingerprint)
}

// ShownBy is whether object, read from a cache, is the one that was applied, or newer.
func (c Child) ShownBy(object client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), c.ResourceVersion)
	return err == nil && order >= 0
}

// Same is whether two children stand for the same object, whatever is in it.
func (c Child) Same(other Child) bool {
	return c.APIVersion == other.APIVersion && c.Kind == other.Kind && c.Name == other.Name
}

// SameInAnyVersion is whether two children stand for the same object, even if in different versions of its
// API.
func (c Child) SameInAnyVersion(other Child) bool {
	kind := func(c Child) schema.GroupKind { return schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind() }
	return kind(c) == kind(other) && c.Name == other.Name
}

// SameContent is whether two children stand for the same content of the same object, with the same UID.
func (c Child) SameContent(other Child) bool {
	return c.Same(other) && c.Fingerprint == other.Fingerprint && c.UID == other.UID && c.Expired == other.Expired && c.Failed == other.Failed
}

// WithScaled are children with Scaled taken from looked, which are the same objects as they are now.
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

// MaxChildren bounds the text of children. About a hundred objects fit; a longer text is not written.
const MaxChildren = 32 << 10

// Text encodes children for the status of their custom resource. It is empty if they are not known, or too
// many.
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

// Children decodes a text. They are nil if it has none.
func Children(text string) (children []Child) {
	if err := json.Unmarshal([]byte(text), &children); err != nil {
		return nil
	}
	return children
}

// BareManifest is a manifest with the names of children only, which suffices to delete them or to continue
// from them.
func BareManifest(children []Child) string {
	var manifest strings.Builder
	for _, child := range children {
		fmt.Fprintf(&manifest, "---\napiVersion: %q\nkind: %q\nmetadata: {name: %q}\n", child.APIVersion, child.Kind, child.Name)
	}
	return manifest.String()
}

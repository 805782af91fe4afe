package object

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fingerprintAnnotation holds the fingerprint of an object in the cache. It is never written to the cluster.
const fingerprintAnnotation = "webapp.demo.welcome.domain/fingerprint"

const (
	// digestLength is the length of a Digest.
	digestLength = 32
	// markLength is the length of a mark. Its 72 bits keep anybody from finding an annotation with the mark
	// of another.
	markLength = 12
)

// Fingerprint is a short name of everything in an object that its author decides: all but the status, and
// what the API server and the object's own controller keep in the metadata.
//
// It is the digest of what only the chart may decide, followed by a mark of each field that others may set:
// labels, annotations, finalizers, what Restore leaves to others unless the chart sets it, and what rules may
// ignore. For a cached object it is not known what the chart wants. So a Child keeps, of the object as it was
// applied, only the marks of what is the chart's. As long as the cached object has the same digest and at
// least these marks, there is no drift, whatever others have set besides.
func Fingerprint(object *unstructured.Unstructured, rules Ignored) string {
	return fingerprint(object, rules, func(pointer) bool { return true })
}

func fingerprint(object *unstructured.Unstructured, rules Ignored, counts func(pointer) bool) string {
	content := map[string]any{}
	for key, value := range object.Object {
		if key != "status" && key != "metadata" {
			content[key] = value
		}
	}
	var marks []string
	mark := func(p pointer, value any) {
		if counts(p) {
			marks = append(marks, markOf(p, value))
		}
	}
	for key, value := range object.GetLabels() {
		mark(pointer{"metadata", "labels", key}, value)
	}
	for key, value := range object.GetAnnotations() {
		if key != fingerprintAnnotation {
			mark(pointer{"metadata", "annotations", key}, value)
		}
	}
	for _, value := range object.GetFinalizers() {
		mark(slices.Concat(finalizers, pointer{value}), nil)
	}
	given := content
	for _, p := range othersIn(object) {
		if value, ok, _ := p.in(given); ok {
			mark(p, value)
			content = p.without(content).(map[string]any)
		}
	}
	for _, p := range rules.candidates(object) {
		if p[0] != "metadata" { // fields of the metadata have their marks already
			value, _, _ := p.in(given)
			mark(p, value)
			content = p.set(content, nil, true).(map[string]any) // also where the field is missing, so that both look the same
		}
	}
	text, err := json.Marshal(withoutAccountSecrets(withoutReloads(withoutChallenges(content)), object.GetName()))
	if err != nil {
		return "" // cannot happen for decoded JSON; it would look like a drift
	}
	slices.Sort(marks)
	return Plain.Digest(text) + strings.Join(marks, "")
}

func markOf(p pointer, value any) string {
	text, err := json.Marshal([]any{p, value})
	if err != nil {
		return strings.Repeat("-", markLength) // cannot happen either
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])[:markLength]
}

// has is whether a fingerprint has the digest and all marks of a Child's fingerprint.
func has(fingerprint, wanted string) bool {
	if len(fingerprint) < digestLength || len(wanted) < digestLength || fingerprint[:digestLength] != wanted[:digestLength] {
		return false
	}
	marks := fingerprint[digestLength:]
	for wanted = wanted[digestLength:]; wanted != ""; wanted = wanted[markLength:] {
		for len(marks) >= markLength && len(wanted) >= markLength && marks[:markLength] < wanted[:markLength] { // both are sorted
			marks = marks[markLength:]
		}
		if len(marks) < markLength || len(wanted) < markLength || marks[:markLength] != wanted[:markLength] {
			return false
		}
	}
	return true
}

// CachedFingerprint is the fingerprint of a cached object, made before it was slimmed.
func CachedFingerprint(slim *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(slim.Object, "metadata", "annotations", fingerprintAnnotation)
	return text
}

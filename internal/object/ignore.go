package object

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IgnoreRule leaves fields of some objects to others, whatever the chart wants in them. Its form and meaning
// are those of spec.driftDetection.ignore in Flux's HelmRelease.
type IgnoreRule struct {
	// Target selects objects; without a target, all are selected.
	Target *IgnoreTarget `json:"target,omitempty"`
	// Paths are JSON pointers (RFC 6901) to the fields. All that is below them is ignored, too.
	Paths []string `json:"paths"`
}

// IgnoreTarget selects the objects that match all of its parts: regular expressions, which must match the
// whole text, and selectors. It is matched with the object as the chart wants it, so that nobody can have
// fields ignored by adding labels to the live object.
type IgnoreTarget struct {
	Group              string `json:"group,omitempty"`
	Version            string `json:"version,omitempty"`
	Kind               string `json:"kind,omitempty"`
	Name               string `json:"name,omitempty"`
	Namespace          string `json:"namespace,omitempty"`
	AnnotationSelector string `json:"annotationSelector,omitempty"`
	LabelSelector      string `json:"labelSelector,omitempty"`
}

// Ignored are compiled rules.
type Ignored []ignored

// IgnoredByKind are the rules for the objects of each kind of custom resources.
type IgnoredByKind map[schema.GroupKind]Ignored

type ignored struct {
	words               [5]*regexp.Regexp // of group, version, kind, name and namespace; nil fits all
	annotations, labels labels.Selector
	paths               []pointer
}

// NewIgnored compiles rules. Its error says what to write instead.
func NewIgnored(rules []IgnoreRule) (Ignored, error) {
	var all Ignored
	for i, rule := range rules {
		parsed, err := parseRule(rule)
		if err != nil {
			return nil, fmt.Errorf("ignore, rule %d: %w", i+1, err)
		}
		all = append(all, parsed)
	}
	return all, nil
}

func parseRule(rule IgnoreRule) (ignored, error) {
	parsed := ignored{annotations: labels.Everything(), labels: labels.Everything()}
	if len(rule.Paths) == 0 {
		return parsed, errors.New(`it has no paths: list JSON pointers, for example paths: ["/spec/replicas"]`)
	}
	for _, text := range rule.Paths {
		if text == "" || text == "/" {
			return parsed, fmt.Errorf("paths: %q is all of the object, and its owner is never left to others: name fields, or write mode: disabled", text)
		}
		path, err := parsePointer(text)
		if err == nil {
			err = mayBeIgnored(path)
		}
		if err != nil {
			return parsed, fmt.Errorf("paths: %w", err)
		}
		parsed.paths = append(parsed.paths, path)
	}
	if rule.Target == nil {
		return parsed, nil
	}
	target := *rule.Target
	for i, word := range []struct{ name, text string }{
		{"group", target.Group}, {"version", target.Version}, {"kind", target.Kind}, {"name", target.Name}, {"namespace", target.Namespace},
	} {
		if word.text == "" {
			continue
		}
		expression, err := regexp.Compile("^(?:" + word.text + ")$")
		if err != nil {
			return parsed, fmt.Errorf("target: %s %q is no regular expression: %w", word.name, word.text, err)
		}
		parsed.words[i] = expression
	}
	var err error
	if parsed.annotations, err = labels.Parse(target.AnnotationSelector); err != nil {
		return parsed, fmt.Errorf("target: annotationSelector %q is no selector like team=a,tier in (b, c): %w", target.AnnotationSelector, err)
	}
	if parsed.labels, err = labels.Parse(target.LabelSelector); err != nil {
		return parsed, fmt.Errorf("target: labelSelector %q is no selector like team=a,tier in (b, c): %w", target.LabelSelector, err)
	}
	return parsed, nil
}

// mayBeIgnored fails for fields that identify an object, or mark it as the operator's.
func mayBeIgnored(path pointer) error {
	switch {
	case path[0] == "apiVersion" || path[0] == "kind":
		return fmt.Errorf("%s cannot be ignored: it is what the object is", path)
	case path[0] == "status":
		return fmt.Errorf("%s need not be ignored: a status is never the chart's", path)
	case path[0] != "metadata":
		return nil
	case slices.Equal(path, finalizers):
		return nil
	case len(path) != 3 || path[1] != "labels" && path[1] != "annotations":
		return fmt.Errorf("%s cannot be ignored: of the metadata only a single label or annotation can, as /metadata/annotations/example.com~1key, and /metadata/finalizers; those that the chart does not set are others' anyway", path)
	case path[2] == managedByLabel || path[2] == HelmLabel || strings.HasPrefix(path[2], helmAnnotations) || path[2] == Policy || path[2] == CustomResource:
		return fmt.Errorf("%s cannot be ignored: by it the operator and Helm know whose the object is, or whether it is kept", path)
	}
	return nil
}

// of returns what is ignored in an object that the chart wants to be as desired.
func (all Ignored) of(desired *unstructured.Unstructured) (paths []pointer) {
	for _, rule := range all {
		if rule.mayFit(desired) && rule.annotations.Matches(labels.Set(desired.GetAnnotations())) && rule.labels.Matches(labels.Set(desired.GetLabels())) {
			paths = append(paths, rule.paths...)
		}
	}
	return paths
}

// candidates are the paths in a live object that may be ignored: it is not known which labels and annotations
// the chart wants, by which a target may select.
func (all Ignored) candidates(live *unstructured.Unstructured) (paths []pointer) {
	for _, rule := range all {
		if rule.mayFit(live) {
			paths = append(paths, rule.paths...)
		}
	}
	return paths
}

func (rule ignored) mayFit(object *unstructured.Unstructured) bool {
	gvk := object.GroupVersionKind()
	for i, word := range []string{gvk.Group, gvk.Version, gvk.Kind, object.GetName(), object.GetNamespace()} {
		if rule.words[i] != nil && !rule.words[i].MatchString(word) {
			return false
		}
	}
	return true
}

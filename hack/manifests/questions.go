package main

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// checkDefaults fails if a custom resource that says nothing can't be released, as it can't where the chart's own schema asks for a value.
func (t *trial) checkDefaults() error {
	checked := *t
	checked.checked = true
	_, err := checked.byDefault()
	return err
}

// fixedNames are the objects that the chart makes in the namespace by default, by names that are the same for another custom resource there, and how many it makes there. The
// value at own, if that is not empty, is the name of the custom resource. goesInto is whether a custom resource may have an object in its namespace.
func (t *trial) fixedNames(own []string, goesInto func(o *unstructured.Unstructured, namespace string) bool) (fixed []string, count int, err error) {
	for i, of := range []*metav1.ObjectMeta{sampleRelease, {Name: otherRelease.Name, Namespace: sampleRelease.Namespace}} {
		as, err := t.as(of)
		if err != nil {
			return nil, 0, err
		}
		values, err := as.values()
		if err != nil {
			return nil, 0, err
		}
		s := scenario{values: values}
		if len(own) > 0 {
			s, _ = s.with(own, of.Name)
		}
		objects, err := as.render(s, false)
		if err != nil {
			return nil, 0, err
		}
		var names []string
		for _, r := range objects {
			if goesInto(r.object, of.Namespace) {
				names = append(names, r.object.GetKind()+" "+r.object.GetName())
			}
		}
		if i == 0 {
			fixed, count = slices.Compact(slices.Sorted(slices.Values(names))), len(names)
		}
		fixed = slices.DeleteFunc(fixed, func(name string) bool { return !slices.Contains(names, name) })
	}
	return fixed, count, nil
}

// freesNames is a value that, as the name of the custom resource, leaves none of them and as many objects in the namespace, empty if none does alone.
func (t *trial) freesNames(objects int, goesInto func(o *unstructured.Unstructured, namespace string) bool) string {
	values, err := t.values()
	if err != nil {
		return ""
	}
	for _, path := range leaves(values, nil) {
		if !strings.Contains(strings.ToLower(path[len(path)-1]), "name") {
			continue
		}
		if fixed, count, err := t.fixedNames(path, goesInto); err == nil && len(fixed) == 0 && count == objects {
			return dotted(path)
		}
	}
	return ""
}

// hasTests is whether there are some as the chart comes.
func (t *trial) hasTests() bool {
	values, err := t.values()
	if err != nil {
		return false
	}
	with := *t
	with.tests = true
	objects, err := with.render(scenario{values: values}, true)
	return err == nil && slices.ContainsFunc(objects, func(r rendered) bool { return isTest(r.object) })
}

// without is an option, turned, with which the chart makes no such object, which it does by default; empty if none does that.
func (t *trial) without(such func(*unstructured.Unstructured) bool) string {
	has := func(r rendered) bool { return such(r.object) }
	objects, err := t.byDefault()
	if err != nil || !slices.ContainsFunc(objects, has) {
		return ""
	}
	values, err := t.values()
	if err != nil {
		return ""
	}
	for _, path := range options(values, nil) {
		now, _, _ := unstructured.NestedBool(values, path...)
		s, _ := scenario{values: values}.with(path, !now)
		objects, err := t.render(s, false)
		if err == nil && !slices.ContainsFunc(objects, has) {
			return fmt.Sprintf("%s: %q", dotted(path), fmt.Sprint(!now))
		}
	}
	return ""
}

// isImage is whether a value is the whole reference of an image, which a variable can hold.
func isImage(c *chart.Chart, values map[string]any, path string) bool {
	t, err := newTrial(operator.Entry{}, c)
	if err != nil {
		return false
	}
	s, there := scenario{values: values}.with(release.PathOf(path), markText)
	objects, err := t.render(s, true)
	if err != nil || !there {
		return false
	}
	whole := false
	for _, r := range objects {
		for _, l := range r.leaves {
			whole = whole || l.path[len(l.path)-1] == "image" && l.text == markText
		}
	}
	return whole
}

package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// CheckSamples fails if the chart's own schema neither takes what a custom resource has that says nothing, nor what one of the samples has.
func (t *Trial) CheckSamples() (err error) {
	checked := *t
	checked.checked = true
	for _, spec := range append([]map[string]any{{}}, t.samples...) {
		_, refused := checked.With(spec)
		if refused == nil {
			return nil
		}
		err = cmp.Or(err, refused)
	}
	return err
}

// FixedNames are the objects that the chart makes in a namespace by default, and whose names another custom
// resource there would use, too. freedBy is the value that makes all of these differ, if it is set to the name of the
// custom resource, or empty if no single value does. goesInto is whether a custom resource may have an object in
// its namespace.
func (t *Trial) FixedNames(goesInto func(o *unstructured.Unstructured, namespace string) bool) (fixed []string, freedBy string) {
	values, err := t.Values()
	if err != nil {
		return nil, ""
	}
	fixed, objects, err := t.fixedNames(nil, goesInto)
	if err != nil || len(fixed) == 0 {
		return nil, ""
	}
	for _, path := range leaves(values, nil) {
		if !strings.Contains(strings.ToLower(path[len(path)-1]), "name") {
			continue
		}
		if left, count, err := t.fixedNames(path, goesInto); err == nil && len(left) == 0 && count == objects {
			return fixed, dotted(path)
		}
	}
	return fixed, ""
}

// fixedNames are these objects where the value at own, if that is not empty, is the name of the custom resource,
// and of how many in the namespace.
func (t *Trial) fixedNames(own []string, goesInto func(o *unstructured.Unstructured, namespace string) bool) (fixed []string, count int, err error) {
	for i, of := range []*metav1.ObjectMeta{SampleRelease, {Name: OtherRelease.Name, Namespace: SampleRelease.Namespace}} {
		as, err := t.As(of)
		if err != nil {
			return nil, 0, err
		}
		values, err := as.Values()
		if err != nil {
			return nil, 0, err
		}
		s := Scenario{values: values}
		if len(own) > 0 {
			s, _ = s.with(own, of.Name)
		}
		objects, err := as.render(s, false)
		if err != nil {
			return nil, 0, err
		}
		var names []string
		for _, r := range objects {
			if goesInto(r.Object, of.Namespace) {
				names = append(names, r.Object.GetKind()+" "+r.Object.GetName())
			}
		}
		if i == 0 {
			fixed, count = slices.Compact(slices.Sorted(slices.Values(names))), len(names)
		}
		fixed = slices.DeleteFunc(fixed, func(name string) bool { return !slices.Contains(names, name) })
	}
	return fixed, count, nil
}

// HasTests is whether there are some as the chart comes.
func (t *Trial) HasTests() bool {
	values, err := t.Values()
	if err != nil {
		return false
	}
	with := *t
	with.tests = true
	objects, err := with.render(Scenario{values: values}, true)
	return err == nil && slices.ContainsFunc(objects, func(r Rendered) bool { return IsTest(r.Object) })
}

// Without is an option, turned, with which the chart makes no such object, which it does by default; empty if
// none does that.
func (t *Trial) Without(such func(*unstructured.Unstructured) bool) string {
	has := func(r Rendered) bool { return such(r.Object) }
	objects, err := t.ByDefault()
	if err != nil || !slices.ContainsFunc(objects, has) {
		return ""
	}
	values, err := t.Values()
	if err != nil {
		return ""
	}
	for _, path := range options(values, nil) {
		now, _, _ := unstructured.NestedBool(values, path...)
		s, _ := Scenario{values: values}.with(path, !now)
		objects, err := t.render(s, false)
		if err == nil && !slices.ContainsFunc(objects, has) {
			return fmt.Sprintf("%s: %q", dotted(path), fmt.Sprint(!now))
		}
	}
	return ""
}

// IsImage is whether a value is the whole reference of an image, which a variable can hold.
func IsImage(c *chart.Chart, values map[string]any, path string) bool {
	t, err := New(operator.Entry{}, c, nil)
	if err != nil {
		return false
	}
	s, there := Scenario{values: values}.with(release.PathOf(path), markText)
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

package render

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A value that changes nothing is a promise that nobody keeps.
func TestEveryValueIsUsed(t *testing.T) {
	for _, path := range unused(t, loadChart(t), everyCase(t)) {
		t.Errorf("%s changes nothing that is rendered: use it in a template, or take it out of values.schema.json", path)
	}
}

func TestUnusedValuesAreFound(t *testing.T) {
	chrt := loadChart(t)
	chrt.Schema = bytes.Replace(chrt.Schema, []byte(`"properties": {`),
		[]byte(`"properties": {"unused": {"type": "string"}, "inner": {"properties": {"unused": {"type": "boolean"}}}, `), 1)
	chrt.Values["unused"], chrt.Values["inner"] = "", map[string]any{"unused": false}
	set := map[string]any{"unused": "set", "inner": map[string]any{"unused": true}}
	found := unused(t, chrt, append(everyCase(t), set))
	for _, want := range []string{".Values.inner.unused", ".Values.unused"} {
		if !slices.Contains(found, want) {
			t.Errorf("found %q, and not %s", found, want)
		}
	}
}

// everyCase is the chart's own values and those of every golden case: each field is set in one of them at
// least, together with what it needs to matter.
func everyCase(t *testing.T) []map[string]any {
	t.Helper()
	cases := []map[string]any{{}}
	for _, c := range goldenCases(t) {
		spec, _ := c.applied.Object["spec"].(map[string]any)
		cases = append(cases, spec)
	}
	return cases
}

// unused lists the values of a chart's schema that change no object in any case.
func unused(t *testing.T, chrt *chart.Chart, cases []map[string]any) []string {
	t.Helper()
	var schema apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(chrt.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, set := range cases {
		values, err := chartutil.CoalesceValues(chrt, set)
		if err != nil {
			t.Fatal(err)
		}
		before, err := renderValues(chrt, values)
		if err != nil {
			t.Fatalf("%v in:\n%v", err, set)
		}
		for path, changed := range variants(schema, values.AsMap(), ".Values") {
			if used[path] {
				continue
			}
			// A template that fails with another value looks at it.
			after, err := renderValues(chrt, changed.(map[string]any))
			used[path] = err != nil || !maps.Equal(before, after)
		}
	}
	return slices.DeleteFunc(schemaFields(schema, ".Values"), func(path string) bool { return used[path] })
}

// renderValues returns what each template renders but the notes, which are for people. It does not ask the
// schema: a value is changed without regard for patterns and rules.
func renderValues(chrt *chart.Chart, values map[string]any) (map[string]string, error) {
	release := chartutil.ReleaseOptions{Name: "hello", Namespace: "demo", IsInstall: true}
	context, err := chartutil.ToRenderValuesWithSchemaValidation(chrt, values, release, nil, true)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chrt, context)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	return files, err
}

// variants returns, by the path of each field that value sets, value with this field changed.
func variants(schema apiextensionsv1.JSONSchemaProps, value any, path string) map[string]any {
	all := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		if schema.Properties == nil {
			other := maps.Clone(value)
			other["other"] = "other"
			return map[string]any{path: other}
		}
		for name, property := range schema.Properties {
			inner, set := value[name]
			if !set {
				continue
			}
			for leaf, changed := range variants(property, inner, path+"."+name) {
				other := maps.Clone(value)
				other[name] = changed
				all[leaf] = other
			}
		}
	case []any:
		for i, item := range value {
			for leaf, changed := range variants(*schema.Items.Schema, item, path) {
				other := slices.Clone(value)
				other[i] = changed
				all[leaf] = other
			}
		}
	default:
		all[path] = another(schema, value)
	}
	return all
}

// another value of the same type.
func another(schema apiextensionsv1.JSONSchemaProps, value any) any {
	if len(schema.Enum) > 0 {
		for _, allowed := range schema.Enum {
			var other any
			if json.Unmarshal(allowed.Raw, &other) == nil && other != value {
				return other
			}
		}
	}
	switch value := value.(type) {
	case bool:
		return !value
	case int64:
		return value + 1
	case float64:
		return value + 1
	case string:
		return "x" + value
	}
	return "x" // null: not set
}

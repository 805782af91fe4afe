package main

import (
	"fmt"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// replicasPath is the one field whose default the API server is to store in every object: the scale
// subresource, and with it kubectl scale and autoscalers, fails where it has no value. The other defaults are
// the chart's: what an object does not set follows those of a new version.
const replicasPath = ".spec.replicas"

// spec is the schema of what a user may set: the chart's values without the pinned ones. checked is the same
// with all defaults, for the API server's code to say whether they keep the rules.
func (a *API) spec() (spec, checked apiextensionsv1.JSONSchemaProps, err error) {
	spec = *a.values.DeepCopy()
	for _, path := range a.pinned {
		if !infer.Remove(&spec, release.PathOf(path), false) {
			return spec, checked, fmt.Errorf("overrideValues pins %q, which %s does not have: correct the path in watches.yaml", path, a.schemaFile)
		}
	}
	if !a.inferred {
		for _, left := range a.left {
			value, _, _ := strings.Cut(left.Path, "[]")
			infer.Remove(&spec, release.PathOf(value), true)
		}
	}
	values, err := a.trial.Values()
	if err != nil {
		return spec, checked, err
	}
	if err := resolveDefaults(&spec, values, "values"); err != nil {
		return spec, checked, fmt.Errorf("%s:\n%w", a.schemaFile, err)
	}
	describe(&spec)
	checked = *spec.DeepCopy()
	dropDefaults(&spec, ".spec")
	for _, schema := range []*apiextensionsv1.JSONSchemaProps{&spec, &checked} {
		defaultObjects(schema)
		if schema.Default == nil {
			// The library refuses an object without a spec.
			schema.Default = &apiextensionsv1.JSON{Raw: []byte("{}")}
		}
	}
	return spec, checked, nil
}

// isCount is whether a default is a whole number. Only such can be scaled: of what else a chart may call
// replicas, as a map with several, kubectl scale and autoscalers can read nothing.
func isCount(value *apiextensionsv1.JSON) bool {
	if value == nil {
		return false
	}
	_, err := strconv.Atoi(string(value.Raw))
	return err == nil
}

// dropDefaults leaves the default at replicasPath if that is a number, and no other.
func dropDefaults(schema *apiextensionsv1.JSONSchemaProps, path string) {
	if path != replicasPath || !isCount(schema.Default) {
		schema.Default = nil
	}
	for name, property := range schema.Properties {
		dropDefaults(&property, path+"."+name)
		schema.Properties[name] = property
	}
}

// describe adds default and bounds to the description of each property: `kubectl explain` shows nothing else of them.
func describe(schema *apiextensionsv1.JSONSchemaProps) {
	if schema.Items != nil && schema.Items.Schema != nil {
		describe(schema.Items.Schema)
	}
	for name, property := range schema.Properties {
		describe(&property)
		if property.Minimum != nil && property.Maximum != nil {
			property.Description += fmt.Sprintf(" From %s to %s.", number(*property.Minimum), number(*property.Maximum))
		}
		if property.Default != nil {
			property.Description += fmt.Sprintf(" Default: %s.", strings.Trim(string(property.Default.Raw), `"`))
		}
		schema.Properties[name] = property
	}
}

// defaultObjects gives each object the defaults inside it as its own default: an object that is left out would get none of
// them. It must be the whole object and not {}, for the API server checks the rules of an object against its default.
func defaultObjects(schema *apiextensionsv1.JSONSchemaProps) {
	defaults := map[string]*apiextensionsv1.JSON{}
	for name, property := range schema.Properties {
		defaultObjects(&property)
		schema.Properties[name] = property
		if property.Default != nil {
			defaults[name] = property.Default
		}
	}
	if len(defaults) > 0 {
		schema.Default = &apiextensionsv1.JSON{Raw: []byte(infer.Compact(defaults))}
	}
}

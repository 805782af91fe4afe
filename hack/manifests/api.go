package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// API is what a chart's values.schema.json and values.yaml say about a kind.
type API struct {
	// schemaFile is where its schema is from.
	schemaFile string
	chart      *chart.Chart
	// trial is how the chart is rendered.
	trial *infer.Trial
	// kinds are what the chart makes.
	kinds []infer.Made
	// scalable is whether replicas is the number of all pods that are counted, or of those of each run of CronJobs.
	scalable bool
	// left are the values that are no fields.
	left []infer.LeftOut
	// broken are the values with which it can't be rendered.
	broken []infer.LeftOut
	// inferred is whether nobody wrote the schema for this operator.
	inferred bool
	// values describes every value of the chart, defaults included.
	values apiextensionsv1.JSONSchemaProps
	// pinned are the paths that watches.yaml pins, for example "image".
	pinned []string
	// unlisted are the pinned ones that values.yaml lacks. Only templates or Chart.yaml name them, or templates hand them
	// on, so that one may be misspelt.
	unlisted []string
	crd      crdExtras
	// examples are values that somebody might give.
	examples []map[string]any
}

// crdExtras is what a CRD has beyond its schema: the "x-crd" block of values.schema.json. Helm ignores it.
type crdExtras struct {
	// Description of the kind; `kubectl explain` shows it.
	Description string `json:"description"`
	// Plural defaults to the kind in lower case, in the plural.
	Plural     string   `json:"plural"`
	ShortNames []string `json:"shortNames"`
	// AdditionalPrinterColumns come before those that every kind has.
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns"`
}

// loadAPI reads the chart of an entry, and tries it with what its samples say.
func loadAPI(entry operator.Entry, samples []map[string]any) (*API, error) {
	chrt, err := loader.Load(entry.ChartPath)
	if err != nil {
		return nil, fmt.Errorf("chart %q of %s: %w", entry.ChartPath, entry.Kind, err)
	}
	if err := release.CheckChart(chrt, entry.OverrideValues); err != nil {
		return nil, err
	}
	api := &API{
		schemaFile: filepath.Join(entry.ChartPath, chartutil.SchemafileName),
		chart:      chrt,
		pinned:     slices.Sorted(maps.Keys(entry.OverrideValues)),
	}
	// Not for a values.schema.json that was written for Helm alone: what it leaves open a CRD would leave open, too.
	if bytes.Contains(chrt.Schema, []byte(`"x-crd"`)) {
		if err := api.read(); err != nil {
			return nil, err
		}
	} else {
		api.inferred, api.schemaFile = true, filepath.Join(entry.ChartPath, chartutil.ValuesfileName)
	}
	trial, err := infer.New(entry, chrt, samples)
	if err != nil {
		return nil, err
	}
	scenarios, err := trial.Scenarios()
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", entry.ChartPath, err)
	}
	values, err := trial.Values()
	if err != nil {
		return nil, err
	}
	if err := api.checkNamed(entry, trial, scenarios, values); err != nil {
		return nil, err
	}
	if api.kinds, err = trial.Kinds(scenarios); err != nil {
		return nil, fmt.Errorf("chart %s can't be rendered with its defaults: correct it, or pin a value (overrideValues):\n%w", entry.ChartPath, err)
	}
	if len(trial.Broken) > 0 && !api.inferred {
		return nil, fmt.Errorf("chart %s can't be rendered with %s: %s", entry.ChartPath, trial.Broken[0].Path, trial.Broken[0].Why)
	}
	for _, sample := range samples {
		said := chartutil.CoalesceTables(runtime.DeepCopyJSON(sample), runtime.DeepCopyJSON(values))
		if _, err := trial.With(said); err != nil {
			return nil, fmt.Errorf("chart %s can't be rendered with a sample of %s: correct either:\n%w", entry.ChartPath, samplesDir, err)
		}
	}
	api.trial, api.broken = trial, trial.Broken
	var fields *apiextensionsv1.JSONSchemaProps
	fields, api.left, api.kinds = trial.Fields(scenarios, values, entry.Allow.Values, api.kinds)
	api.scalable = trial.Workloads == 1 || trial.Workloads == 0 && slices.ContainsFunc(api.kinds, func(m infer.Made) bool { return m.Kind == "CronJob" })
	if api.inferred {
		api.values, api.pinned = *fields, nil
	} else { // the author of the schema has thought of the others
		api.left = slices.DeleteFunc(api.left, func(l infer.LeftOut) bool { return !l.Powerful })
	}
	return api, nil
}

// checkNamed fails if overrideValues or allow.values name a value that the chart does not have. values.yaml may lack what
// templates ask for (values get it, unless it is pinned), and pins within a map that templates hand on.
func (a *API) checkNamed(entry operator.Entry, t *infer.Trial, scenarios []infer.Scenario, values map[string]any) error {
	unpinned, err := t.Unpinned()
	if err != nil {
		return err
	}
	for _, path := range slices.Concat(a.pinned, entry.Allow.Values) {
		keys := release.PathOf(path)
		_, found, noMap := unstructured.NestedFieldNoCopy(unpinned, keys...)
		isPin := slices.Contains(a.pinned, path)
		asked := !found && a.inferred && (t.Mentions(unpinned, keys) && (isPin || infer.Put(values, keys, nil)) || isPin && noMap == nil && t.HandsOn(scenarios, keys))
		if !found && !asked && !strings.Contains(path, "[") {
			return fmt.Errorf("%s has no value %q: correct overrideValues or allow.values of %s in %s", entry.ChartPath, path, entry.Kind, watchesFile)
		}
		if asked && isPin {
			a.unlisted = append(a.unlisted, path)
		}
	}
	return nil
}

// read reads a values.schema.json that was written for this operator. Schema and defaults must agree: every
// value has a schema, every property a value, and every default is valid.
func (a *API) read() error {
	if err := chartutil.ValidateAgainstSchema(a.chart, a.chart.Values); err != nil {
		return fmt.Errorf("%s: a default in values.yaml breaks the schema; correct either:\n%w", a.schemaFile, err)
	}
	if err := a.parseSchema(); err != nil {
		return fmt.Errorf("%s: %w", a.schemaFile, err)
	}
	if err := closeObjects(&a.values, "values"); err != nil {
		return fmt.Errorf("%s:\n%w", a.schemaFile, err)
	}
	if err := addDefaults(&a.values, a.chart.Values, "values"); err != nil {
		return fmt.Errorf("%s and values.yaml disagree:\n%w", a.schemaFile, err)
	}
	return nil
}

func (a *API) parseSchema() error {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(a.chart.Schema, &root); err != nil {
		return err
	}
	extras := root["x-crd"]
	if examples, ok := root["examples"]; ok {
		if err := json.Unmarshal(examples, &a.examples); err != nil {
			return fmt.Errorf("examples: %w", err)
		}
	}
	// Words of JSON Schema documents that a CRD has no use for.
	for _, key := range []string{"x-crd", "examples", "$schema", "title"} {
		delete(root, key)
	}
	values, err := json.Marshal(root)
	if err != nil {
		return err
	}
	if extras != nil {
		if err := unmarshalStrict(extras, &a.crd); err != nil {
			return fmt.Errorf("x-crd: %w", err)
		}
	}
	return unmarshalStrict(values, &a.values)
}

// unmarshalStrict refuses what the type does not know: a keyword that is silently lost would be a rule that nobody checks.
func unmarshalStrict(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	// Not json.Decoder.DisallowUnknownFields: the types of "items" and "additionalProperties" decode themselves, without it.
	kept, err := json.Marshal(into)
	if err != nil {
		return err
	}
	var before, after any
	if err := errors.Join(json.Unmarshal(data, &before), json.Unmarshal(kept, &after)); err != nil {
		return err
	}
	if lost := lostFields(before, after, ""); len(lost) > 0 {
		return fmt.Errorf("%s: a CRD cannot say that; say it with other keywords or a rule in x-kubernetes-validations", strings.Join(lost, ", "))
	}
	return nil
}

// lostFields lists the paths of object fields that before has and after has not.
func lostFields(before, after any, path string) []string {
	var lost []string
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if kept, ok := after[key]; ok {
				lost = append(lost, lostFields(before[key], kept, path+"."+key)...)
			} else {
				lost = append(lost, path+"."+key)
			}
		}
	case []any:
		after, _ := after.([]any)
		for i := range min(len(before), len(after)) {
			lost = append(lost, lostFields(before[i], after[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return lost
}

// closeObjects makes a CRD's closed objects of those of a JSON Schema: "additionalProperties": false makes Helm refuse a
// misspelt value, and is refused in a CRD, where it goes without saying. Each field must have a description.
func closeObjects(schema *apiextensionsv1.JSONSchemaProps, path string) error {
	var problems []error
	if schema.Description == "" {
		problems = append(problems, fmt.Errorf("%s: add a \"description\": kubectl explain shows it", path))
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		problems = append(problems, closeObjects(schema.Items.Schema, path+"[]"))
	}
	if schema.Properties != nil {
		if schema.AdditionalProperties == nil || schema.AdditionalProperties.Allows {
			problems = append(problems, fmt.Errorf("%s: add \"additionalProperties\": false, or Helm takes a misspelt value without a word", path))
		}
		schema.AdditionalProperties = nil
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		problems = append(problems, closeObjects(&property, path+"."+name))
		schema.Properties[name] = property
	}
	return errors.Join(problems...)
}

// addDefaults sets the default of every property that is not an object from values. "", {} and [] mean "not set"
// and are not defaults.
func addDefaults(schema *apiextensionsv1.JSONSchemaProps, value any, path string) error {
	if schema.Default != nil {
		return fmt.Errorf("%s: remove \"default\": defaults are in values.yaml", path)
	}
	if schema.Properties == nil {
		if !infer.IsEmpty(value) {
			schema.Default = &apiextensionsv1.JSON{Raw: []byte(infer.Compact(value))}
		}
		return nil
	}
	values, _ := value.(map[string]any)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := schema.Properties[name]; !ok {
			problems = append(problems, fmt.Errorf("%s.%s: not in the schema: describe it there, or remove it from values.yaml", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		value, ok := values[name]
		if !ok {
			problems = append(problems, fmt.Errorf("%s.%s: not in values.yaml: add its default there, or \"\", {} or [] for none", path, name))
			continue
		}
		property := schema.Properties[name]
		problems = append(problems, addDefaults(&property, value, path+"."+name))
		schema.Properties[name] = property
	}
	return errors.Join(problems...)
}

var (
	// orDefault is how a rule asks for what becomes of a field that may be left out: orDefault(self.service.port).
	orDefault = regexp.MustCompile(`\borDefault\(((?:self|oldSelf)(?:\.\w+)+)\)`)
	ruleField = regexp.MustCompile(`\b(?:self|oldSelf)(?:\.\w+)+`)
)

// resolveDefaults writes the rules of the objects in schema in CEL, which knows no chart and so no orDefault. A
// field that may be set stands for itself or, where it is left out, its default in values; any other one stands for
// that value. CEL's orValue will not do: the API server takes its result for text of any length, and the rule for
// too costly.
func resolveDefaults(schema *apiextensionsv1.JSONSchemaProps, values map[string]any, path string) error {
	var problems []error
	for i := range schema.XValidations {
		rule := &schema.XValidations[i]
		rule.Rule = orDefault.ReplaceAllStringFunc(rule.Rule, func(asked string) string {
			field := orDefault.FindStringSubmatch(asked)[1]
			elements := strings.Split(field, ".")
			value, found, err := unstructured.NestedFieldNoCopy(values, elements[1:]...)
			if !found || err != nil {
				problems = append(problems, fmt.Errorf("%s: %s in a rule: not in values.yaml", path, asked))
			}
			if !hasField(schema, elements[1:]) {
				return infer.Compact(value)
			}
			var set []string
			for i := range elements[1:] {
				set = append(set, fmt.Sprintf("has(%s)", strings.Join(elements[:i+2], ".")))
			}
			return fmt.Sprintf("(%s ? %s : %s)", strings.Join(set, " && "), field, infer.Compact(value))
		})
		for _, field := range ruleField.FindAllString(rule.Rule, -1) {
			elements := strings.Split(field, ".")
			for n := 2; n <= len(elements); n++ { // the last may be a function
				if _, found, _ := unstructured.NestedFieldNoCopy(values, elements[1:n]...); found && !hasField(schema, elements[1:n]) {
					asked := strings.Join(elements[:n], ".")
					problems = append(problems, fmt.Errorf("%s: %s in a rule is no field (is it in overrideValues?): write orDefault(%[2]s)", path, asked))
					break
				}
			}
		}
		// Where an error is shown, which has to be a field.
		if shown, _, _ := strings.Cut(rule.FieldPath, "["); shown != "" && !hasField(schema, strings.Split(shown, ".")[1:]) {
			rule.FieldPath = ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		within, _ := values[name].(map[string]any)
		problems = append(problems, resolveDefaults(&property, within, path+"."+name))
		schema.Properties[name] = property
	}
	return errors.Join(problems...)
}

// hasField is whether somebody may set what is at a path.
func hasField(schema *apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 || schema.Properties == nil {
		return true
	}
	property, ok := schema.Properties[path[0]]
	return ok && hasField(&property, path[1:])
}

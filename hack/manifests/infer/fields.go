package infer

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// oneWord is a text that is one wherever a template writes it.
const oneWord = `^([A-Za-z0-9/.]([-A-Za-z0-9._/:@+=,~]*[A-Za-z0-9/])?)?$`

// oneEntry is one that is a single entry of a list or map in one line, too.
const oneEntry = `^([A-Za-z0-9/.]([-A-Za-z0-9._/:@+=~]*[A-Za-z0-9/])?)?$`

// oneWordOrPercent is the like for a field of Kubernetes that takes 25%, too.
const oneWordOrPercent = `^([A-Za-z0-9/.]([-A-Za-z0-9._/:@+=~]*[A-Za-z0-9/%])?)?$`

// noVariable is a text in which Kubernetes finds no $(NAME) to expand, whatever a template writes around it.
const noVariable = `^([^$]|\$+[^$(])*$`

// oneLine is a text of one.
const oneLine = `^[^\r\n]*$`

// described has what values.yaml and values.schema.json say of a value.
func (i *inference) described(path []string, kind string) apiextensionsv1.JSONSchemaProps {
	schema := apiextensionsv1.JSONSchemaProps{Type: kind, Description: i.docs.comment(path)}
	said := i.docs.schema(path)
	if text, _ := said["description"].(string); schema.Description == "" {
		schema.Description = Sentence(text)
	}
	if len(path) == 0 {
		schema.Description = fmt.Sprintf("The values of chart %s.", i.chart.Name())
	} else if schema.Description == "" {
		schema.Description = fmt.Sprintf("Value %s of chart %s.", dotted(path), i.chart.Name())
	}
	if kind == "integer" || kind == "number" {
		for word, bound := range map[string]**float64{"minimum": &schema.Minimum, "maximum": &schema.Maximum} {
			if n, ok := said[word].(float64); ok {
				*bound = &n
			}
		}
	}
	if values, _ := said["enum"].([]any); kind == "string" && len(values) > 0 {
		for _, value := range values {
			if _, ok := value.(string); !ok {
				return schema // null is one of them: it may be left out, too
			}
		}
		for _, value := range values {
			raw, _ := json.Marshal(value)
			schema.Enum = append(schema.Enum, apiextensionsv1.JSON{Raw: raw})
		}
	}
	return schema
}

var spaces = regexp.MustCompile(`\s+`)

// Sentence is a text in one line that ends in a period.
func Sentence(text string) string {
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// open lets an author choose the fields of an object, as far as the places that these get to do.
func (i *inference) open(schema *apiextensionsv1.JSONSchemaProps, places []place) {
	ofTexts, ofPods := schema.Type == "object", false
	for _, p := range places {
		if !p.open {
			continue
		}
		parent := p.path[max(len(p.path)-2, 0)]
		ofTexts = ofTexts && slices.Contains([]string{"labels", "annotations", "nodeSelector", "matchLabels"}, parent)
		template, ok := obj.PodsOf[p.object.GetKind()]
		ofPods = ofPods || ok && parent == "labels" && hasPrefix(p.path, template)
	}
	if !ofTexts || !slices.ContainsFunc(places, isOpen) {
		anything(schema)
		return
	}
	schema.Properties = nil
	schema.MaxProperties = new(int64(64))
	schema.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}
	if ofPods {
		schema.XValidations = apiextensionsv1.ValidationRules{{
			Rule:    "self.all(k, k.matches(r'^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",
			Message: "write keys without a prefix, like team: labels of pods with a prefix (example.com/key) are for controllers that may change what a pod can do",
		}}
	}
}

// anything lets fields be there that the schema does not know.
func anything(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XPreserveUnknownFields = new(true)
	if schema.Description != "" {
		schema.Description += " Nobody knows all that it may have: the chart hands it on."
	}
}

// hasRules is whether a schema, or one in it, has rules in CEL.
func hasRules(schema *apiextensionsv1.JSONSchemaProps) bool {
	return len(schema.XValidations) > 0 || schema.Items != nil && hasRules(schema.Items.Schema) ||
		slices.ContainsFunc(slices.Collect(maps.Values(schema.Properties)), func(property apiextensionsv1.JSONSchemaProps) bool { return hasRules(&property) })
}

// Remove takes the property at path out of schema, and objects that have nothing left: maps whose keys are
// free, too, if nobody is to write any of them. It reports whether path exists.
func Remove(schema *apiextensionsv1.JSONSchemaProps, path []string, withMaps bool) bool {
	if schema.AdditionalProperties != nil {
		// One key of a free map: the operator's value wins over the user's, other keys stay the user's.
		return true
	}
	property, ok := schema.Properties[path[0]]
	if !ok {
		return false
	}
	if len(path) > 1 && (!withMaps || property.AdditionalProperties == nil) {
		if !Remove(&property, path[1:], withMaps) {
			return false
		}
		schema.Properties[path[0]] = property
		if property.Properties == nil || len(property.Properties) > 0 {
			return true
		}
	}
	delete(schema.Properties, path[0])
	schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == path[0] })
	return true
}

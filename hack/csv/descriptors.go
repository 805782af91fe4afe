package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Console hints, the "x-descriptors" of a field. Which there are:
// https://github.com/openshift/console/blob/main/frontend/packages/operator-lifecycle-manager/src/components/descriptors/reference/reference.md
const (
	ui             = "urn:alm:descriptor:com.tectonic.ui:"
	hintText       = ui + "text"
	hintNumber     = ui + "number"
	hintSwitch     = ui + "booleanSwitch"
	hintPodCount   = ui + "podCount"
	hintAdvanced   = ui + "advanced"
	hintSelect     = ui + "select:"
	hintGroup      = ui + "fieldGroup:"
	hintDependency = ui + "fieldDependency:"
	hintConditions = "urn:alm:descriptor:io.kubernetes.conditions"
	hintLink       = "urn:alm:descriptor:org.w3:link"
)

// hints says what the console makes of a field, by its path; a schema alone does not tell.
type hints map[string][]string

var (
	specHints   = hints{"replicas": {hintPodCount}}
	statusHints = hints{
		"conditions":    {hintConditions},
		"url":           {hintLink},
		"replicas":      {hintPodCount},
		"readyReplicas": {hintPodCount},
	}
)

// descriptors describes every field below schema, which is that of the field with these parents, parents
// before children, in the order of their names.
func descriptors(schema apiextensionsv1.JSONSchemaProps, parents []string, special hints) (list []any) {
	_, canBeDisabled := schema.Properties["enabled"]
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		elements := append(slices.Clone(parents), name)
		path := strings.Join(elements, ".")
		found, ok := special[path]
		if !ok {
			found = fieldHints(field)
		}
		all := slices.Clone(found)
		if len(parents) > 0 {
			all = append(all, hintGroup+parents[0])
			if canBeDisabled && name != "enabled" {
				all = append(all, hintDependency+strings.Join(parents, ".")+".enabled:true")
			}
		}
		xDescriptors := make([]any, len(all))
		for i := range all {
			xDescriptors[i] = all[i]
		}
		list = append(list, map[string]any{
			"path":          path,
			"displayName":   displayName(elements),
			"description":   field.Description,
			"x-descriptors": xDescriptors,
		})
		list = append(list, descriptors(field, elements, special)...)
	}
	return list
}

func fieldHints(field apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case len(field.Enum) > 0:
		var values []string
		for _, value := range field.Enum {
			values = append(values, hintSelect+strings.Trim(string(value.Raw), `"`))
		}
		return values
	case field.Type == "boolean":
		return []string{hintSwitch}
	case field.Type == "integer":
		return []string{hintNumber}
	case field.Type == "object" || field.Type == "array":
		return []string{hintAdvanced}
	default:
		return []string{hintText}
	}
}

var (
	wordStart  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// displayName makes words of a path: targetCPUUtilizationPercentage becomes "Target cpu utilization percentage".
func displayName(elements []string) string {
	words := strings.Join(elements, " ")
	for _, boundary := range []*regexp.Regexp{wordStart, acronymEnd} {
		words = boundary.ReplaceAllString(words, "$1 $2")
	}
	words = strings.ToLower(words)
	return strings.ToUpper(words[:1]) + words[1:]
}

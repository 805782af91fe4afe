package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	tableStart = "<!-- values: written by make manifests -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// writeValuesTable replaces what is between the markers of a chart's README with the table of its values.
func writeValuesTable(file string, api *API) error {
	data, err := os.ReadFile(file)
	if err != nil && !api.inferred {
		return fmt.Errorf("the chart needs a README: %w", err)
	}
	before, rest, started := strings.Cut(string(data), tableStart)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !started && api.inferred { // somebody else wrote it
		return nil
	}
	if !started || !ended {
		return fmt.Errorf("%s: add the lines %q and %q where the table of values belongs", file, tableStart, tableEnd)
	}
	rows := []string{"| Value | Default | May be | What it is |", "|---|---|---|---|"}
	rows = append(rows, api.valueRows(api.values, "")...)
	table := strings.Join(rows, "\n") + "\n"
	return os.WriteFile(file, []byte(before+tableStart+table+tableEnd+after), 0o644)
}

// valueRows has a row for every value, and for every field of a list's entries.
func (a *API) valueRows(schema apiextensionsv1.JSONSchemaProps, path string) []string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property, path := schema.Properties[name], strings.TrimPrefix(path+"."+name, ".")
		if property.Properties != nil {
			rows = append(rows, a.valueRows(property, path)...)
			continue
		}
		description, def := property.Description, ""
		if slices.Contains(a.pinned, path) {
			description += " Pinned by the operator."
		}
		if property.Default != nil {
			def = fmt.Sprintf("`%s`", property.Default.Raw)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", path, def, mayBe(property), strings.ReplaceAll(description, "|", `\|`)))
		if property.Items != nil {
			rows = append(rows, a.valueRows(*property.Items.Schema, path+"[]")...)
		}
	}
	return rows
}

// mayBe is the type of a value, and its bounds.
func mayBe(schema apiextensionsv1.JSONSchemaProps) string {
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, fmt.Sprintf("`%s`", strings.Trim(string(value.Raw), `"`)))
		}
		return strings.Join(values, ", ")
	}
	said := schema.Type
	switch {
	case schema.XIntOrString:
		said = "integer or string"
	case schema.Type == "object":
		said = "map"
	case schema.Type == "array":
		said = "list"
	}
	for _, limits := range []string{
		interval(schema.Minimum, schema.Maximum, ""),
		interval(schema.MinLength, schema.MaxLength, " characters"),
		interval(schema.MinItems, schema.MaxItems, " entries"),
		interval(schema.MinProperties, schema.MaxProperties, " entries"),
	} {
		said += limits
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		said += " of: " + mayBe(*schema.AdditionalProperties.Schema)
	}
	if schema.Items != nil && schema.Items.Schema.Properties == nil {
		said += " of: " + mayBe(*schema.Items.Schema)
	}
	return said
}

// interval is how a description goes on that has bounds.
func interval[N int64 | float64](lowest, highest *N, unit string) string {
	switch {
	case lowest != nil && highest != nil:
		return fmt.Sprintf(", %s to %s%s", number(*lowest), number(*highest), unit)
	case lowest != nil:
		return fmt.Sprintf(", at least %s%s", number(*lowest), unit)
	case highest != nil:
		return fmt.Sprintf(", at most %s%s", number(*highest), unit)
	}
	return ""
}

// number has no exponent, which %v writes from a million on.
func number[N int64 | float64](n N) string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }

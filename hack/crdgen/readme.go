package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
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
	if err != nil {
		return fmt.Errorf("the chart needs a README: %w", err)
	}
	before, rest, started := strings.Cut(string(data), tableStart)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !started || !ended {
		return fmt.Errorf("%s: add the lines %q and %q where the table of values belongs", file, tableStart, tableEnd)
	}
	rows := []string{"| Value | Default | What it is |", "|---|---|---|"}
	rows = append(rows, api.valueRows(api.values, "")...)
	table := strings.Join(rows, "\n") + "\n"
	return os.WriteFile(file, []byte(before+tableStart+table+tableEnd+after), 0o644)
}

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
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", path, def, strings.ReplaceAll(description, "|", `\|`)))
	}
	return rows
}

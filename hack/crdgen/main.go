// Command crdgen derives a CustomResourceDefinition from the chart of every entry of watches.yaml, and the table of values in
// the chart's README. Run it from the root of the repository with `make manifests`.
//
// The chart is the one source of an API: values.schema.json has the fields, their descriptions and bounds, values.yaml the
// defaults. What watches.yaml pins with overrideValues is not a field.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"sigs.k8s.io/yaml"
)

const watchesFile = "watches.yaml"

func main() {
	if err := run("config/crd/bases"); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

// run writes the CRD of each entry of watches.yaml into outDir as <group>_<plural>.yaml, and completes the chart's README.
func run(outDir string) error {
	data, err := os.ReadFile(watchesFile)
	if err != nil {
		return err
	}
	// Not watches.Load: it expands environment variables, and what they are is of no concern here.
	var entries []watches.Watch
	if err := yaml.UnmarshalStrict(data, &entries); err != nil {
		return fmt.Errorf("%s: %w", watchesFile, err)
	}
	for _, entry := range entries {
		api, err := loadAPI(entry)
		if err != nil {
			return err
		}
		crd, err := newCRD(entry.GroupVersionKind, api)
		if err != nil {
			return fmt.Errorf("%s: %w", watchesFile, err)
		}
		if err := validate(crd); err != nil {
			return fmt.Errorf("%s becomes no valid CRD; correct the schema:\n%w", api.schemaFile, err)
		}
		crdFile := filepath.Join(outDir, fmt.Sprintf("%s_%s.yaml", crd.Spec.Group, crd.Spec.Names.Plural))
		if err := writeCRD(crdFile, api, crd); err != nil {
			return err
		}
		readmeFile := filepath.Join(entry.ChartPath, "README.md")
		if err := writeValuesTable(readmeFile, api); err != nil {
			return err
		}
		fmt.Printf("%s → %s, %s\n", api.schemaFile, crdFile, readmeFile)
	}
	return nil
}

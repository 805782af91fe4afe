// Command manifests derives a CustomResourceDefinition from the chart of every entry of watches.yaml, the table of values in
// the chart's README, and the policy that bounds the operator's ServiceAccount. It refuses a chart that has changed since its release without a new version. Run it from the root of the
// repository with `make manifests`.
//
// The chart is the one source of an API: values.schema.json has the fields, their descriptions and bounds, values.yaml the
// defaults, of which the CRD only tells: the operator fills them in. What watches.yaml pins with overrideValues is not a field.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

const watchesFile = "watches.yaml"

func main() {
	const outDir = "config/crd/bases"
	var err error
	if len(os.Args) > 1 && os.Args[1] == "kind" {
		var w wanted
		if w, err = parseWanted(os.Args[2:]); err == nil {
			err = makeKind(w, outDir)
		}
	} else {
		err = run(outDir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// run writes the CRD of each entry of watches.yaml into outDir as <group>_<plural>.yaml, completes the chart's README, and writes the policy.
func run(outDir string) error {
	entries, err := readEntries()
	if err != nil {
		return err
	}
	charts := map[string]*chart.Chart{}
	var kinds []kind
	for _, entry := range entries {
		samples, err := samplesOf(entry)
		if err != nil {
			return err
		}
		api, err := loadAPI(entry, samples)
		if err != nil {
			return fmt.Errorf("%s, entry %s: %w", watchesFile, entry.Kind, err)
		}
		spec, checked, err := api.spec()
		if err != nil {
			return fmt.Errorf("%s: %w", watchesFile, err)
		}
		crd := newCRD(entry, api, spec)
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{crd, newCRD(entry, api, checked)} {
			if err := validate(crd); err != nil {
				return fmt.Errorf("%s becomes no valid CRD; correct the schema:\n%w", api.schemaFile, err)
			}
		}
		crdFile := filepath.Join(outDir, fmt.Sprintf("%s_%s.yaml", crd.Spec.Group, crd.Spec.Names.Plural))
		if err := writeCRD(crdFile, api, crd); err != nil {
			return err
		}
		readmeFile := filepath.Join(entry.ChartPath, "README.md")
		if err := writeValuesTable(readmeFile, api); err != nil {
			return err
		}
		kinds = append(kinds, kind{entry, api, crd})
		fmt.Printf("%s → %s, %s\n", api.schemaFile, crdFile, readmeFile)
		charts[entry.ChartPath] = api.chart
	}
	if err := writePolicy(entries); err != nil {
		return err
	}
	if err := writeRole(kinds); err != nil {
		return err
	}
	if err := writeLists(kinds); err != nil {
		return err
	}
	fmt.Printf("%s → %s\n", watchesFile, policyFile)
	return keepReleased(charts)
}

func readEntries() ([]operator.Entry, error) {
	data, err := os.ReadFile(watchesFile)
	if err != nil {
		return nil, err
	}
	// Not watches.Load: it expands environment variables, and what they are is of no concern here.
	var entries []operator.Entry
	if err := yaml.UnmarshalStrict(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", watchesFile, err)
	}
	return entries, nil
}

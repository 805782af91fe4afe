// Command manifests makes all that follows from watches.yaml and the charts. Run it from the root of the
// repository:
//
//   - `make manifests` makes the CustomResourceDefinition of every entry, the table of values in the chart's README,
//     what the operator and people may do, the policy that bounds the operator's ServiceAccount, a first sample, and
//     the places where kinds and images are listed (PROJECT, kustomizations, ClusterServiceVersion). It refuses a
//     chart that has changed since its release without a new version, and tells which fields and rights of before
//     a kind has no longer.
//   - `make kind` (the argument kind) adds an entry first, here or to an operator of its own (own.go).
//   - With the directory of such an operator as the argument, it makes all of that one anew.
//
// The chart is the one source of an API: values.schema.json has the fields, their descriptions and bounds, and
// values.yaml the defaults. The CRD only tells of these; the operator fills them in. If a chart was not written for
// this operator (its values.schema.json has no "x-crd"), package infer finds the fields by rendering it. What
// watches.yaml pins with overrideValues is not a field, nor is what makes its author more powerful, unless
// allow.values has it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"helm.sh/helm/v3/pkg/chart"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

const watchesFile = "watches.yaml"

func main() {
	var err error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	infer.Ended = ctx.Done()
	switch args := os.Args[1:]; {
	case len(args) > 0 && args[0] == "kind":
		var w wanted
		if w, err = parseWanted(args[1:]); err == nil {
			err = telling(os.Stderr, w.into, w.make)
		}
	case len(args) > 0:
		err = telling(os.Stderr, args[0], func() error { return inOwn(args[0], run) })
	default:
		err = telling(os.Stderr, "", run)
	}
	if err != nil {
		// Further lines are indented, and so look like none of make's: a chart may say anything in an error.
		fmt.Fprintln(os.Stderr, "manifests:", strings.ReplaceAll(terminal.Lines(err.Error()), "\n", "\n  "))
		os.Exit(1)
	}
}

// run writes all that is made of watches.yaml and the charts.
func run() error {
	kinds, err := generate()
	for _, k := range kinds {
		for _, hook := range release.UnknownHooks(k.api.chart) {
			fmt.Println(terminal.Line(unknownHook(hook)))
		}
		for _, text := range k.obstacles(true) {
			fmt.Println(terminal.Line(k.entry.Kind + ": " + text))
		}
	}
	return err
}

func generate() (kinds []kind, err error) {
	defer infer.Caught(&err)
	entries, err := readEntries()
	if err != nil {
		return nil, err
	}
	charts := map[string]*chart.Chart{}
	for _, entry := range entries {
		samples, err := samplesOf(entry)
		if err != nil {
			return nil, err
		}
		api, err := loadAPI(entry, samples)
		if err != nil {
			return nil, fmt.Errorf("%s, entry %s: %w", watchesFile, entry.Kind, err)
		}
		spec, checked, err := api.spec()
		if err != nil {
			return nil, fmt.Errorf("%s, entry %s: %w", watchesFile, entry.Kind, err)
		}
		crd := newCRD(entry, api, spec)
		candidates := []*apiextensionsv1.CustomResourceDefinition{crd}
		if !api.inferred { // which has no rules, and has defaults of values that are left out
			candidates = append(candidates, newCRD(entry, api, checked))
		}
		for _, crd := range candidates {
			if err := validate(crd); err != nil {
				return nil, fmt.Errorf("%s becomes no valid CRD; correct the schema, or overrideValues in watches.yaml:\n%w", api.schemaFile, err)
			}
		}
		k := kind{entry, api, crd}
		crdFile := filepath.Join(crdDir, "bases", k.crdFile())
		if err := writeCRD(crdFile, api, crd); err != nil {
			return nil, err
		}
		readmeFile := filepath.Join(entry.ChartPath, "README.md")
		if err := writeValuesTable(readmeFile, api); err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
		fmt.Printf("%s → %s, %s\n", api.schemaFile, crdFile, readmeFile)
		charts[entry.ChartPath] = api.chart
	}
	if err := writePolicy(entries); err != nil {
		return nil, err
	}
	if err := writeRole(kinds); err != nil {
		return nil, err
	}
	if err := writeScorecard(kinds); err != nil {
		return nil, err
	}
	if err := writeLists(kinds); err != nil {
		return nil, err
	}
	fmt.Printf("%s → %s, %s/role.yaml and what lists kinds\n", watchesFile, policyFile, rightsDir)
	return kinds, keepReleased(charts)
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

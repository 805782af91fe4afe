// Command scorecard runs one test of the operator that a bundle installed, inside the cluster, with every example of the
// bundle. `operator-sdk scorecard` starts a pod of it per test of config/scorecard and reads its output, which is JSON and
// nothing else.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// timeout bounds a test with one example. All tests run at once, and the whole suite must end in five minutes on two CPUs.
const timeout = 2 * time.Minute

// A check does with an example what a user does. It returns an error that says what was not as it should be.
type check func(ctx context.Context, c *cluster, example *unstructured.Unstructured) error

var checks = map[string]check{
	"install-and-ready":     installAndReady,
	"edit":                  edit,
	"drift-heals":           driftHeals,
	"scale":                 scale,
	"bad-input-refused":     badInputRefused,
	"delete-leaves-nothing": deleteLeavesNothing,
}

// result is a TestResult of scorecard's v1alpha3 API.
type result struct {
	Name   string   `json:"name"`
	Log    string   `json:"log,omitempty"`
	State  string   `json:"state"`
	Errors []string `json:"errors,omitempty"`
}

func main() {
	// Scorecard takes whatever else is printed for a broken result.
	log.SetLogger(logr.Discard())
	if len(os.Args) != 2 {
		report("usage", nil, fmt.Errorf("want the name of a test"))
		return
	}
	results, err := run(context.Background(), os.Args[1], "/bundle")
	report(os.Args[1], results, err)
}

// report prints the results, and err as one of its own: the pod's log is all that scorecard sees.
func report(test string, results []result, err error) {
	if err != nil {
		results = append(results, result{Name: test, State: "error", Errors: []string{err.Error()}})
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"results": results})
}

func run(ctx context.Context, test, bundle string) ([]result, error) {
	check, ok := checks[test]
	if !ok {
		return nil, fmt.Errorf("no test has this name")
	}
	examples, err := loadExamples(bundle)
	if err != nil {
		return nil, err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	c := &cluster{Client: api, namespace: os.Getenv("SCORECARD_NAMESPACE")}
	var results []result
	for _, example := range examples {
		name := example.GetName()
		example.SetName(name + "-" + test)
		example.SetNamespace(c.namespace)
		results = append(results, runOne(ctx, c, check, example, test+" "+name))
	}
	return results, nil
}

func runOne(ctx context.Context, c *cluster, check check, example *unstructured.Unstructured, name string) result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	err := check(ctx, c, example)
	if cleanUp := c.remove(context.WithoutCancel(ctx), example); err == nil {
		err = cleanUp
	}
	r := result{Name: name, State: "pass", Log: fmt.Sprintf("took %.1fs", time.Since(start).Seconds())}
	if err != nil {
		r.State, r.Errors = "fail", []string{err.Error()}
	}
	return r
}

// loadExamples returns what the bundle's ClusterServiceVersion shows to users, without the status.
func loadExamples(bundle string) ([]*unstructured.Unstructured, error) {
	file := filepath.Join(bundle, "manifests", "welcome-operator.clusterserviceversion.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &csv.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var objects []map[string]any
	if err := json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &objects); err != nil {
		return nil, fmt.Errorf("%s: alm-examples: %w", file, err)
	}
	var examples []*unstructured.Unstructured
	for _, object := range objects {
		delete(object, "status")
		examples = append(examples, &unstructured.Unstructured{Object: object})
	}
	return examples, nil
}

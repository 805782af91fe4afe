// Command scorecard runs one test of the operator that a bundle installed, inside the cluster, with every
// example of the bundle, whatever its kind. `operator-sdk scorecard` starts a pod of it per test of
// config/scorecard and reads its output, which is JSON and nothing else. By hand, on the cluster of
// KUBECONFIG: SCORECARD_NAMESPACE=default scorecard TEST BUNDLE.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// timeout bounds a test with one example. All tests run at once, and the whole suite must end in five minutes on two CPUs.
const timeout = 2 * time.Minute

// A check does with an example what a user does. It returns an error that says what was not as it should be,
// and else what it has done where that depends on the kind.
type check func(ctx context.Context, c *cluster, e *example) (did string, err error)

var checks = map[string]check{
	"install-and-ready":     installAndReady,
	"edit":                  edit,
	"drift-heals":           driftHeals,
	"scale":                 scale,
	"bad-input-refused":     badInputRefused,
	"delete-leaves-nothing": deleteLeavesNothing,
	"helm-test":             helmTest,
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
	test, bundle := "", "/bundle"
	if len(os.Args) > 1 {
		test = os.Args[1]
	}
	if len(os.Args) > 2 {
		bundle = os.Args[2]
	}
	results, err := run(context.Background(), test, bundle)
	report(test, results, err)
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
		return nil, fmt.Errorf("no test has the name %q", test)
	}
	examples, err := loadExamples(bundle)
	if err != nil {
		return nil, err
	}
	api, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	c, err := newCluster(api, os.Getenv("SCORECARD_NAMESPACE"))
	if err != nil {
		return nil, err
	}
	var results []result
	for i, example := range examples {
		name := fmt.Sprintf("%s %s %s", test, example.GetKind(), example.GetName())
		// Short: the name of the kind may belong to that of the release.
		example.SetName(fmt.Sprintf("%s-%d", test, i+1))
		example.SetNamespace(c.namespace)
		results = append(results, runOne(ctx, c, check, example, name))
	}
	return results, nil
}

func newCluster(api *rest.Config, namespace string) (*cluster, error) {
	api.WarningHandler = rest.NoWarnings{}
	api.QPS = -1 // there are many kinds to look for
	client, err := client.New(api, client.Options{})
	if err != nil {
		return nil, err
	}
	c := &cluster{Client: client, namespace: namespace}
	c.kinds, err = visibleKinds(api)
	return c, err
}

func runOne(ctx context.Context, c *cluster, check check, e *example, name string) result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	did, err := check(ctx, c, e)
	if cleanUp := c.remove(context.WithoutCancel(ctx), e.Unstructured); err == nil {
		err = cleanUp
	}
	r := result{Name: name, State: "pass", Log: strings.TrimSpace(fmt.Sprintf("took %.1fs %s", time.Since(start).Seconds(), did))}
	if err != nil {
		r.State, r.Errors = "fail", []string{err.Error()}
	}
	return r
}

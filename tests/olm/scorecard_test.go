package olm

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestScorecard runs all scorecard tests of the bundle against an operator that OLM has installed. It also checks
// the number of results, because scorecard takes a test without results for a success.
func TestScorecard(t *testing.T) {
	catalog(t, releasedCatalog)
	ns := namespace(t, "olm-scorecard", "restricted")
	group(t, ns)
	subscribe(t, ns)
	awaitVersion(t, ns, "0.1.0")
	run(t, "kubectl", "apply", "-n", ns, "-f", kit.File("config", "scorecard", "rbac.yaml"))

	cmd := command(t.Context(), t.TempDir(), "operator-sdk", "scorecard", bundleDir, "--output", "json", "--namespace", ns,
		"--service-account", "welcome-scorecard", "--untar-image", busyboxImage, "--pod-security", "restricted", "--wait-time", "5m")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	var list struct {
		Items []struct {
			Spec   struct{ Entrypoint []string }
			Status struct {
				Results []struct {
					Name, State, Log    string
					Errors, Suggestions []string
				}
			}
		}
	}
	if jsonErr := json.Unmarshal(out, &list); jsonErr != nil {
		t.Fatalf("operator-sdk scorecard printed no JSON: %v (%v)\n%s%s", jsonErr, err, out, &problems)
	}
	results, examples := map[string]int{}, len(shown(t))
	for _, item := range list.Items {
		test := item.Spec.Entrypoint[1]
		for _, result := range item.Status.Results {
			results[test]++
			t.Logf("%s: %s", result.Name, result.State)
			if test == "edit" && strings.HasSuffix(result.Name, "welcome-full") && !strings.Contains(result.Log, "spec.name: myfriends changed Deployment") {
				t.Errorf("%s: the edit of a Welcome was not seen in its Deployment: %s", result.Name, result.Log)
			}
			if result.State != "pass" || len(result.Errors) > 0 || len(result.Suggestions) > 0 {
				t.Errorf("%s: %s\nerrors: %q\nsuggestions: %q\n%s", result.Name, result.State, result.Errors, result.Suggestions, result.Log)
			}
		}
	}
	for test, want := range map[string]int{
		"basic-check-spec": 1, "olm-bundle-validation": 1, "olm-crds-have-validation": 1,
		"olm-crds-have-resources": 1, "olm-spec-descriptors": 1, "olm-status-descriptors": 1,
		"install-and-ready": examples, "edit": examples, "drift-heals": examples,
		"scale": examples, "bad-input-refused": examples, "delete-leaves-nothing": examples,
		"helm-test": examples,
	} {
		if results[test] != want {
			t.Errorf("%s has %d results, want %d", test, results[test], want)
		}
	}
	if err != nil {
		t.Errorf("operator-sdk scorecard: %v\n%s", err, &problems)
	}
}

// shown are the examples in the ClusterServiceVersion (alm-examples).
func shown(t *testing.T) (examples []map[string]any) {
	t.Helper()
	var csv struct {
		Metadata struct{ Annotations map[string]string }
	}
	readYAML(t, filepath.Join(bundleDir, csvFile), &csv)
	if err := json.Unmarshal([]byte(csv.Metadata.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	return examples
}

// TestExamples compares the examples in the ClusterServiceVersion with the repository's samples of all kinds.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(kit.File("config", "samples", "*_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]bool{}
	for _, file := range files {
		var sample map[string]any
		readYAML(t, file, &sample)
		samples[canonicalJSON(t, sample)] = true
	}
	for _, example := range shown(t) {
		delete(example, "status") // see hack/csv
		text := canonicalJSON(t, example)
		if !samples[text] {
			t.Errorf("the ClusterServiceVersion shows %s, which is no sample", text)
		}
		delete(samples, text)
	}
	for sample := range samples {
		t.Errorf("the ClusterServiceVersion does not show the sample %s", sample)
	}
}

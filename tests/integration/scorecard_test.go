package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestScorecardOfAnyKind runs the scorecard's checks on a kind that was made of Helm's own chart, with the
// rights that were made for them.
func TestScorecardOfAnyKind(t *testing.T) {
	s := newScene(t)
	chart, err := chartutil.Create("created", t.TempDir())
	s.must(err)
	for _, file := range []string{"values.yaml", "templates/deployment.yaml"} { // kubectl scale wants that word
		text, err := os.ReadFile(filepath.Join(chart, file))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(chart, file), []byte(strings.ReplaceAll(string(text), "replicaCount", "replicas")), 0o600))
	}
	dir := makeKind(s, chart, "Scored", "", "  tests: true\n")
	s.operatorOf(dir)
	s.must(controlplane.RunDeployments(t.Context(), env.Admin))
	s.collectGarbage()
	s.endPods()

	sample, err := os.ReadFile(filepath.Join(dir, "config/samples/kinds_v1_scored.yaml"))
	s.must(err)
	example, err := yaml.YAMLToJSON(sample)
	s.must(err)
	bundle := bundleOf(s, dir, "["+string(example)+"]")

	rights, err := os.ReadFile(filepath.Join(dir, "config/scorecard/rbac.yaml"))
	s.must(err)
	_, err = s.kubectl(strings.ReplaceAll(string(rights), "- kind: ServiceAccount\n", "- kind: ServiceAccount\n  namespace: "+s.namespace+"\n"), "apply", "-f", "-")
	s.must(err)
	token, err := env.Token(ctx, s.namespace, "welcome-scorecard")
	s.must(err)
	kubeconfig, err := env.Kubeconfig("scorecard", env.As(token))
	s.must(err)

	program := filepath.Join(t.TempDir(), "scorecard")
	s.must(kit.Build(program, "tests/scorecard"))
	for test, did := range map[string]string{
		"install-and-ready": "", "edit": "changed ", "drift-heals": "changed the image of Deployment", "scale": "", "bad-input-refused": "mistakes", "delete-leaves-nothing": "objects",
		"helm-test": `Pod "helm-test-1-created-test-connection"`,
	} {
		cmd := exec.Command(program, test, bundle)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "SCORECARD_NAMESPACE="+s.namespace)
		out, err := kit.Output(cmd)
		s.must(err)
		var report struct {
			Results []struct {
				Name, State, Log string
				Errors           []string
			}
		}
		s.must(json.Unmarshal([]byte(out), &report))
		if len(report.Results) != 1 || report.Results[0].State != "pass" || !strings.Contains(report.Results[0].Log, did) {
			t.Errorf("%s: %s\n%s", test, out, s.dump())
		}
		t.Log(out)
	}
}

// endPods has each pod succeed at once: nobody runs them here.
func (s *scene) endPods() {
	s.Helper()
	pods, err := env.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
	s.must(err)
	s.Cleanup(pods.Stop)
	go func() {
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Added {
				pod.Status.Phase = corev1.PodSucceeded
				_ = env.Client.Status().Update(ctx, pod) // if it fails, the test does
			}
		}
	}()
}

// bundleOf is as much of a bundle as the checks read: the CRDs of a repository in dir, and examples.
func bundleOf(s *scene, dir, examples string) string {
	s.Helper()
	bundle := s.TempDir()
	s.must(os.CopyFS(filepath.Join(bundle, "manifests"), os.DirFS(filepath.Join(dir, "config/crd/bases"))))
	csv, err := yaml.Marshal(map[string]any{"kind": "ClusterServiceVersion", "metadata": map[string]any{"annotations": map[string]any{"alm-examples": examples}}})
	s.must(err)
	s.must(os.WriteFile(filepath.Join(bundle, "manifests/csv.yaml"), csv, 0o600))
	return bundle
}

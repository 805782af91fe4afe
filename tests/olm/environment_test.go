// Package olm installs, upgrades and validates the bundle with a real OLM on a real cluster, and with the stock
// operator-sdk and opm. Run it with `make test-olm`, which builds and pushes what the tests install, and with
// `make test-olm-v1`.
package olm

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// The settings from `make test-olm`, and what TestMain derives from them.
var (
	// bundleDir has the bundle of version 0.1.0, with its images named by digest.
	bundleDir = kit.File("dist/olm/bundle")
	// registry is host:port of the cluster's image registry.
	registry = os.Getenv("CLUSTER_REGISTRY")
	// nodeIP is the address of the node, at which NodePorts answer.
	nodeIP = os.Getenv("CLUSTER_NODE_IP")
	// api reads and writes the cluster without a cache.
	api client.Client

	olmV1 = flag.Bool("olm-v1", false, "install OLM v1 instead of OLM, for the tests TestV1…, which no other OLM can do")
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	pushImages, install, uninstall := pushImages, installOLM, uninstallOLM
	if *olmV1 {
		pushImages, install, uninstall = pushImagesOfOLMv1, installOLMv1, uninstallOLMv1
	}
	if err := prepare(context.Background(), pushImages, install); err != nil {
		fmt.Fprintf(os.Stderr, "tests/olm: %v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 { // after a failure, somebody wants to look at it
		if err := uninstall(context.Background()); err != nil {
			fmt.Fprintf(os.Stderr, "tests/olm: remove OLM: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

func prepare(ctx context.Context, pushImages, install func(context.Context) error) error {
	if registry == "" || nodeIP == "" || os.Getenv("SSL_CERT_FILE") == "" {
		return fmt.Errorf("CLUSTER_REGISTRY, CLUSTER_NODE_IP and SSL_CERT_FILE must be set: run `make test-olm` or `make test-olm-v1`")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	start := time.Now()
	if err := pushImages(ctx); err != nil {
		return err
	}
	logf("images of OLM pushed in %s", since(start))
	start = time.Now()
	if err := install(ctx); err != nil {
		return fmt.Errorf("install OLM: %w", err)
	}
	logf("OLM installed in %s", since(start))
	return nil
}

// logf is for what happens before and after the tests.
func logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }

// command is a tool of bin/. It runs in a scratch directory, because operator-sdk writes to ./cache and deletes
// it.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := kit.Tool(ctx, name, args...)
	cmd.Dir = dir
	return cmd
}

// run runs a tool of bin/ and returns its output. If the tool fails, so does the test, with all that it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	start, what := time.Now(), name+" "+strings.Join(args, " ")
	stop := waiting.While(t.Logf, what)
	out, err := kit.Output(command(t.Context(), t.TempDir(), name, args...))
	stop()
	t.Logf("%s (%s)", what, since(start))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pause is how long await waits between two attempts.
const pause = 250 * time.Millisecond

// await repeats condition until it returns nil. After limit, it fails the test with the last error.
func await(t *testing.T, limit time.Duration, what string, condition func(ctx context.Context) error) {
	t.Helper()
	start := time.Now()
	// Cleanups await, too, and run after the context of the test is cancelled.
	if err := waiting.For(context.WithoutCancel(t.Context()), t.Logf, what, limit, pause, condition); err != nil {
		t.Fatal(err)
	}
	if took := since(start); took > time.Second {
		t.Logf("%s (%s)", what, took)
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func canonicalJSON(t *testing.T, object any) string {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

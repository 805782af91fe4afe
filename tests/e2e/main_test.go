// Package e2e tests the operator as its users see it: deployed in a real cluster, by kubectl, by helm and in a browser.
// Run it with `make test-e2e`. It deploys the working tree, and removes the operator and its CRD again if no test
// failed. KUBECONFIG names another cluster than the local one, and TEST_NAMESPACE a namespace to use if it may create
// none (tests/README.md).
package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

const (
	operatorNamespace = "welcome-operator-system"
	operatorName      = "welcome-operator-controller-manager"
	// testLabel marks the namespaces of the tests.
	testLabel = "webapp.demo.welcome.domain/e2e"
)

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	stopProxy()
	if code == 0 { // after a failure, somebody wants to look at it
		if err := tearDown(); err != nil {
			fmt.Fprintln(os.Stderr, "tests/e2e:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func setUp() error {
	local := kit.File(".cluster", "kubeconfig")
	switch given := os.Getenv("KUBECONFIG"); {
	case given == "":
		os.Setenv("KUBECONFIG", local)
	case !filepath.IsAbs(given): // make and the tests run in different directories
		os.Setenv("KUBECONFIG", kit.File(given))
	}
	if os.Getenv("KUBECONFIG") == local {
		if err := runMake("cluster"); err != nil {
			return err
		}
	}
	fresh := exec.Command(kit.File("hack", "fresh.sh"), "tests")
	if sharedNamespace != "" {
		fresh.Args = append(fresh.Args[:1], append([]string{"shared", sharedNamespace}, leftInShared...)...)
	}
	fresh.Stdout, fresh.Stderr = os.Stdout, os.Stderr
	if err := step("no other operator is there", fresh.Run); err != nil {
		return err
	}
	if sharedNamespace == "" {
		// Remove what a failed run has left.
		if err := removeNamespaces(); err != nil {
			return err
		}
	}
	for _, target := range []string{"images", "push", "deploy", "dist/load"} {
		if err := runMake(target); err != nil {
			return err
		}
	}
	if os.Getenv("KUBECONFIG") == local {
		return nil
	}
	return startProxy()
}

func tearDown() error {
	kinds := "crd,clusterrole,clusterrolebinding"
	if sharedNamespace == "" {
		if err := removeNamespaces(); err != nil {
			return err
		}
		kinds += ",namespace"
	}
	if err := runMake("undeploy"); err != nil {
		return err
	}
	left, err := kubectl("", "get", kinds, "--output=name",
		"--selector=app.kubernetes.io/part-of=welcome-operator")
	if err == nil && left != "" {
		err = fmt.Errorf("make undeploy left behind: %s", left)
	}
	return err
}

// removeNamespaces also tests that a namespace with Welcomes can be deleted.
func removeNamespaces() error {
	return step("namespaces of the tests deleted", func() error {
		_, err := kubectl("", "delete", "namespace", "--selector="+testLabel, "--timeout=90s")
		return err
	})
}

// apiProxy is the address of kubectl proxy on this machine, with the rights of the kubeconfig. It is empty in
// the local cluster, whose node can be reached.
var (
	apiProxy  string
	stopProxy = func() {}
)

func startProxy() error {
	ctx, cancel := context.WithCancel(context.Background())
	// Everybody on this machine may use the proxy, so it serves pages only.
	cmd := kit.Tool(ctx, "kubectl", "proxy", "--port=0", "--accept-paths=^/api/v1/namespaces/[^/]+/services/[^/]+:http/proxy/", "--reject-methods=^(POST|PUT|PATCH|DELETE)$")
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return err
	}
	stopProxy = func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if !found {
		return errors.Join(fmt.Errorf("kubectl proxy says %q", line), err)
	}
	apiProxy = "http://" + address
	return nil
}

// runMake runs make with a target and variables.
func runMake(args ...string) error {
	return step("make "+strings.Join(args, " "), func() error {
		return run("make", append([]string{"--no-print-directory", "-C", kit.Root()}, args...)...)
	})
}

func step(what string, do func() error) error {
	start := time.Now()
	stop := waiting.While(waiting.Stderr, what)
	err := do()
	stop()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Printf("== %s: %s\n", what, since(start))
	return nil
}

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }

// run runs a program without output of interest.
func run(program string, args ...string) error {
	_, err := kit.Output(exec.Command(program, args...))
	return err
}

func kubectl(stdin string, args ...string) (string, error) {
	cmd := kit.Tool(context.Background(), "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	return kit.Output(cmd)
}

// Package e2e tests the operator as its users meet it: deployed in a real cluster, by kubectl, by helm and in a browser.
// Run it with `make test-e2e`. It deploys the working tree, and removes the operator and its CRD again if all went well.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	operatorNamespace = "welcome-operator-system"
	operatorName      = "welcome-operator-controller-manager"
	crdName           = "welcomes.webapp.demo.welcome.domain"
	// testLabel marks the namespaces of the tests.
	testLabel = "webapp.demo.welcome.domain/e2e"
)

// root is the checkout.
var root = mustAbs("../..")

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 { // else somebody wants to look at it
		if err := tearDown(); err != nil {
			fmt.Fprintln(os.Stderr, "tests/e2e:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func setUp() error {
	local := filepath.Join(root, ".cluster", "kubeconfig")
	if os.Getenv("KUBECONFIG") == "" {
		os.Setenv("KUBECONFIG", local)
	}
	if os.Getenv("KUBECONFIG") == local {
		if err := runMake("cluster"); err != nil {
			return err
		}
	} else if _, err := kubectl("", "get", "crd", crdName); err == nil {
		return errors.New("this cluster has Welcomes already, and these tests would replace its operator: choose another one")
	}
	// What is left of a run that failed.
	if err := removeNamespaces(); err != nil {
		return err
	}
	for _, target := range []string{"images", "push", "deploy", "dist/load"} {
		if err := runMake(target); err != nil {
			return err
		}
	}
	return nil
}

func tearDown() error {
	if err := removeNamespaces(); err != nil {
		return err
	}
	if err := runMake("undeploy"); err != nil {
		return err
	}
	left, err := kubectl("", "get", "namespace,crd,clusterrole,clusterrolebinding", "--output=name",
		"--selector=app.kubernetes.io/part-of=welcome-operator")
	if err == nil && left != "" {
		err = fmt.Errorf("make undeploy left behind: %s", left)
	}
	return err
}

// removeNamespaces also shows that a namespace can be deleted with all Welcomes in it.
func removeNamespaces() error {
	return step("namespaces of the tests deleted", func() error {
		_, err := kubectl("", "delete", "namespace", "--selector="+testLabel, "--timeout=90s")
		return err
	})
}

// runMake runs make with a target and variables.
func runMake(args ...string) error {
	return step("make "+strings.Join(args, " "), func() error {
		return run(exec.Command("make", append([]string{"--no-print-directory", "-C", root}, args...)...))
	})
}

func step(what string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Printf("== %s: %s\n", what, since(start))
	return nil
}

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }

// run runs a command to its end; an error has what it printed.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// output runs a tool of bin/ and returns what it printed, warnings excluded.
func output(stdin, tool string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(root, "bin", tool), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s%s", tool, strings.Join(args, " "), err, out, warnings.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func kubectl(stdin string, args ...string) (string, error) { return output(stdin, "kubectl", args...) }

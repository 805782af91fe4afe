package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// runOperator runs the operator until it ends by itself, with the rights of the admin.
func runOperator(t *testing.T, environment []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	kubeconfig, err := env.Kubeconfig("admin", env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(env.binary, args...)
	cmd.Dir = kit.Root()
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}, environment...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	start := time.Now()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("it ended after %s", time.Since(start).Round(time.Millisecond))
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// What is wrong stops the start, with one line that says where and why. All that can be wrong in watches.yaml is in
// internal/operator; here are a few through the real binary, and what only a cluster can tell.
func TestStartFails(t *testing.T) {
	pinned := []string{"RELATED_IMAGE_WELCOME=" + image}
	for name, c := range map[string]struct {
		watches string
		env     []string
		args    []string
		want    []string
	}{
		"watches file is missing": {args: []string{"--watches-file=nowhere.yaml"}, want: []string{"--watches-file", "nowhere.yaml", "no such file"}},
		"chart is missing": {
			watches: strings.Replace(watchesWith(""), "helm-charts/welcome", "helm-charts/nowhere", 1), env: pinned,
			want: []string{"entry 1", "Welcome", "helm-charts/nowhere", "no such file"},
		},
		"variable is not set":    {watches: watchesWith(""), want: []string{"entry 1", "Welcome", "RELATED_IMAGE_WELCOME"}},
		"flag is unknown":        {args: []string{"--no-such-flag"}, want: []string{"--no-such-flag"}},
		"flag is invalid":        {args: []string{"--max-concurrent-reconciles=0"}, want: []string{"--max-concurrent-reconciles"}},
		"namespaces are invalid": {env: []string{"WATCH_NAMESPACE=a,B"}, want: []string{"WATCH_NAMESPACE", `"B"`}},
		"no cluster": {
			env: append([]string{"KUBECONFIG=/nowhere"}, pinned...), want: []string{"KUBECONFIG"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0"}, c.args...)
			if c.watches != "" {
				file := filepath.Join(t.TempDir(), "watches.yaml")
				if err := os.WriteFile(file, []byte(c.watches), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--watches-file="+file)
			}
			_, stderr, code := runOperator(t, c.env, args...)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			if last := lines[len(lines)-1]; len(lines) != 1 || !strings.HasPrefix(last, "welcome-operator: ") {
				t.Errorf("not one line:\n%s", stderr)
			}
			for _, part := range c.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("%q is missing in\n%s", part, stderr)
				}
			}
		})
	}
}

// Who runs the operator before the CRD is there need not start it again.
func TestStartWaitsForTheCRD(t *testing.T) {
	s := newScene(t)
	var fails atomic.Pointer[func(method, path string) bool]
	operator := s.launch(settings{
		namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Farewell", noteChart(t), ""),
		through: func(login *rest.Config) { s.failing(login, &fails) },
	})
	s.await("the log says what it waits for", func() error { return says(operator.Text(), []string{"Farewell", "make install"}) })
	if err := operator.ready(); err == nil || operator.HasEnded() {
		t.Errorf("it is ready (%v) or has ended (%v)", err == nil, operator.HasEnded())
	}
	away := func(string, string) bool { return true }
	fails.Store(&away)
	s.await("the log says that the API server is away", func() error { return says(operator.Text(), []string{"Still waiting: connect to the cluster"}) })
	fails.Store(nil)
	s.serveKind("Farewell")
	s.createOf("Farewell", "hello")
	s.awaitOf("Farewell", "hello", "Ready")
	s.must(operator.ready())
	if told := strings.Count(operator.Text(), "make install"); told != 1 {
		t.Errorf("it said %d times what it waits for:\n%s", told, operator.Text())
	}
	s.delete(s.of("Farewell", "hello"))
}

func TestHelp(t *testing.T) {
	stdout, stderr, code := runOperator(t, nil, "--help")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	for _, part := range []string{"--watches-file", "--metrics-bind-address", "--health-probe-bind-address", "--leader-elect", "--leader-election-namespace",
		"--max-concurrent-reconciles", "--reconcile-period", "--zap-log-level", "WATCH_NAMESPACE", "RELATED_IMAGE_WELCOME", "KUBECONFIG"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%s is missing in\n%s", part, stdout)
		}
	}
}

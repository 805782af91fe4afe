package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// pluginBinary is `kubectl welcome`, built when the first test needs it.
var pluginBinary = sync.OnceValues(func() (string, error) {
	program := filepath.Join(env.Dir, "kubectl-welcome")
	return program, kit.Build(program, "cmd/kubectl-welcome")
})

// said is what a run of the plugin printed, results and the rest, and its exit code.
type said struct {
	out, notes string
	code       int
}

// plugin runs `kubectl welcome` as the admin, in the namespace of the test.
func (s *scene) plugin(args ...string) said {
	s.Helper()
	return s.pluginAs("admin", env.Admin, args...)
}

// pluginAs runs it as somebody else, who is called name.
func (s *scene) pluginAs(name string, login *rest.Config, args ...string) said {
	s.Helper()
	program, err := pluginBinary()
	s.must(err)
	kubeconfig, err := env.Kubeconfig(name, login)
	s.must(err)
	var out, notes strings.Builder
	cmd := exec.Command(program, append([]string{"--kubeconfig", kubeconfig, "-n", s.namespace}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = kit.Root(), []string{"HOME=" + env.Dir}, &out, &notes
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return said{out.String(), notes.String(), cmd.ProcessState.ExitCode()}
}

// expect fails unless the plugin ended so, and said all parts.
func (s *scene) expect(got said, code int, parts ...string) {
	s.Helper()
	if err := says(got.out+got.notes, parts); got.code != code || err != nil {
		s.Errorf("exit code %d, not %d, or %v:\n%s\n%s", got.code, code, err, got.out, got.notes)
	}
}

// Kinds are found by what everybody may read, and names by kind, in kubectl's words.
func TestPluginFindsCustomResources(t *testing.T) {
	s := newScene(t)
	s.create("hello")
	for _, arg := range []string{"hello", "welcome/hello", "wel/hello", "Welcomes/hello", "welcomes.webapp.demo.welcome.domain/hello", "welcome/"} {
		s.expect(s.plugin("status", arg), 0, "welcome/hello")
	}
	s.expect(s.plugin("status", "-A"), 0, "welcome/hello")
	s.expect(s.plugin("status", "nobody"), 1, `"nobody" not found`)
	s.expect(s.plugin("status", "nothing/hello"), 1, "nothing")
	s.expect(s.plugin("__complete", "status", "welcome/h"), 0, "welcome/hello")
}

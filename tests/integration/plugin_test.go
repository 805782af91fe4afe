package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// buildPlugin compiles kubectl-welcome, once.
var buildPlugin = sync.OnceValues(func() (string, error) {
	file := filepath.Join(env.Dir, "kubectl-welcome")
	return file, kit.Build(file, "cmd/kubectl-welcome")
})

// said is what a run of kubectl-welcome had to say.
type said struct {
	out, err string
	code     int
}

// plugin runs kubectl-welcome in the scene's namespace, as the admin.
func (s *scene) plugin(args ...string) said {
	s.Helper()
	return s.pluginAs(env.Admin, args...)
}

// pluginAs runs it as another user.
func (s *scene) pluginAs(user *rest.Config, args ...string) said {
	s.Helper()
	binary, err := buildPlugin()
	s.must(err)
	kubeconfig, err := env.Kubeconfig("plugin", user)
	s.must(err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append([]string{"--namespace=" + s.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+env.Dir)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.Fatalf("kubectl welcome %v: %v", args, err)
	}
	return said{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// expect fails unless it ended with code and has said all of these.
func (got said) expect(code int, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			return fmt.Errorf("it does not say %q, but:\n%s%s", text, got.out, got.err)
		}
	}
	if got.code != code {
		return fmt.Errorf("exit code %d, not %d:\n%s%s", got.code, code, got.out, got.err)
	}
	return nil
}

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// The commands of docs/book.md, typed row by row, show what it says, with the operator on this machine and none in the
// cluster.
func TestBook(t *testing.T) {
	needsCluster(t, "the namespace default")
	s := &scene{T: t, namespace: "default"}
	text, err := os.ReadFile(kit.File("docs/book.md"))
	s.must(err)
	s.must(runMake("undeploy"))
	t.Cleanup(func() { s.must(runMake("deploy")) })
	var run *typed
	rows := 0
	for row := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(row, " | ")
		if !strings.HasPrefix(row, "| `") || len(cells) != 2 {
			continue
		}
		rows++
		command := strings.Trim(strings.TrimPrefix(cells[0], "|"), " `")
		var see []string
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			if !strings.Contains(match[1], "ADDRESS") {
				see = append(see, match[1])
			}
		}
		cmd := s.types(command)
		switch {
		case command == "make run":
			run = cmd
			s.must(cmd.Start())
			defer func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its children
				_ = cmd.Wait()
			}()
			s.await("make run waits for the CRD", func() error { return cmd.shows(see[:1]) })
			continue // its other output depends on the CRD
		case strings.Contains(command, "status.url") && os.Getenv("KUBECONFIG") != kit.File(".cluster", "kubeconfig"):
			s.awaitPage(s.url("welcome-sample"), see[0]) // the cluster may have no load balancer
			continue
		}
		if err := errors.Join(cmd.Run(), cmd.shows(see)); err != nil {
			t.Fatalf("%s: %v\n%s\nmake run says\n%s", command, err, &cmd.shown, &run.shown)
		}
	}
	if rows < 10 || run == nil {
		t.Fatalf("docs/book.md has %d rows, and starts the operator: %v", rows, run != nil)
	}
	s.must(run.shows([]string{"kubectl create serviceaccount metrics", "INFO", "Going on", "Installed", "Upgraded"}))
	if log := run.shown.String(); strings.Count(log, "Nothing can be served yet") != 1 || strings.Contains(log, `{"level"`) {
		t.Errorf("it tells more than once what it waits for, or tells it to machines:\n%s", log)
	}
}

// typed is a command as somebody types it.
type typed struct {
	*exec.Cmd
	shown screen
}

// screen holds the output of a command so far.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *scene) types(command string) *typed {
	c := &typed{Cmd: exec.CommandContext(s.Context(), "bash", "-c", command)}
	c.Dir = kit.Root()
	c.Env = append(os.Environ(), "PATH="+filepath.Join(kit.Root(), "bin")+":"+os.Getenv("PATH"))
	c.Stdout, c.Stderr = &c.shown, &c.shown
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

func (c *typed) shows(parts []string) error {
	for _, part := range parts {
		if !strings.Contains(c.shown.String(), part) {
			return fmt.Errorf("%s does not show %q:\n%s", c.Args[2], part, &c.shown)
		}
	}
	return nil
}

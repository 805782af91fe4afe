package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// traffic requests a page all the time (tests/load).
type traffic struct {
	*exec.Cmd
	report strings.Builder
}

// traffic sends some requests per second to url, until stop.
func (s *scene) traffic(url string, rate int) *traffic {
	s.Helper()
	t := &traffic{Cmd: exec.CommandContext(s.Context(), kit.File("dist", "load"), "-url="+url, fmt.Sprintf("-rate=%d", rate), "-duration=10m")}
	t.Stdout, t.Stderr = &t.report, &t.report
	s.must(t.Start())
	return t
}

// stop fails the test unless every request was answered well.
func (t *traffic) stop(s *scene) {
	s.Helper()
	s.must(t.Process.Signal(os.Interrupt))
	if err := t.Wait(); err != nil {
		s.Errorf("requests failed: %v\n%s", err, t.report.String())
		return
	}
	s.Log(t.report.String())
}

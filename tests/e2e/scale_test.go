package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestScale(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends")) // sets no replicas
	s.awaitReady("hello")
	for _, replicas := range []int{2, 0, 1} {
		s.kubectl("scale", "welcome/hello", fmt.Sprintf("--replicas=%d", replicas))
		s.await(fmt.Sprintf("there are %d ready pods", replicas), func() error { return s.hasPods(replicas) })
		s.awaitOutput("the scale subresource says so", strconv.Itoa(replicas),
			"get", "welcome", "hello", "--subresource=scale", "--output=jsonpath={.status.replicas}")
	}
}

// hasPods returns an error unless there are exactly that many pods of Welcomes, and all are ready.
func (s *scene) hasPods(want int) error {
	return s.countPods("welcome", func(pods, ready int) bool { return pods == want && ready == want })
}

// countPods returns an error unless that many pods have a label, and that many of these are ready.
func (s *scene) countPods(label string, right func(pods, ready int) bool) error {
	pods, err := s.tryKubectl("", "get", "pods", "--selector="+label, "--no-headers")
	if err != nil {
		return err
	}
	if got, ready := len(lines(pods)), strings.Count(pods, "1/1"); !right(got, ready) {
		return fmt.Errorf("there are %d, %d of them ready:\n%s", got, ready, pods)
	}
	return nil
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

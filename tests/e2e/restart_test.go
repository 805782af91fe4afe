package e2e

import (
	"fmt"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestOperatorPodIsKilled(t *testing.T) {
	s := newScene(t)
	s.welcome("before", kit.Greet("myfriends"))
	s.awaitReady("before")
	url := s.url("before")
	s.awaitPage(url, "Hello myfriends")
	const pods = "--output=jsonpath={.items[*].metadata.uid}"
	page := s.kubectl("get", "pods", "--selector=welcome=before", pods)

	visitors := s.traffic(url, 200)
	killed := s.leader()
	for i := range 3 { // the operator is busy with these
		s.welcome(fmt.Sprintf("during-%d", i), kit.Greet("myfriends"), kit.Set("resources.requests.cpu", "10m"))
	}
	s.kubectl("--namespace="+operatorNamespace, "delete", "pod", killed, "--force", "--grace-period=0")
	for i := range 3 {
		s.awaitReady(fmt.Sprintf("during-%d", i))
	}
	s.patch("before", `{"logLevel":"info"}`) // the default: nothing to change
	s.awaitReady("before")
	visitors.stop(s)
	if got := s.kubectl("get", "pods", "--selector=welcome=before", pods); got != page {
		t.Errorf("the pods of a page that nobody changed were %s and are %s", page, got)
	}
}

func TestAnotherReplicaTakesOver(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")
	leader := s.leader()
	s.kubectl("--namespace="+operatorNamespace, "delete", "pod", leader, "--wait=false")
	s.await("another pod leads", func() error {
		if now := s.leader(); now == leader || now == "" {
			return fmt.Errorf("it is %q", now)
		}
		return nil
	})
	s.patch("hello", `{"name":"world"}`)
	s.awaitReady("hello")
	s.awaitPage(s.url("hello"), "Hello world")
}

// leader is the name of the operator's pod that holds the lease. It is empty if there is none.
func (s *scene) leader() string {
	s.Helper()
	holder := s.kubectl("--namespace="+operatorNamespace, "get", "lease", kit.Lease, "--output=jsonpath={.spec.holderIdentity}")
	pod, _, _ := strings.Cut(holder, "_")
	return pod
}

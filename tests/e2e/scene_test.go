package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// patience is how long something may take on a busy machine.
const patience = 90 * time.Second

// sharedNamespace is TEST_NAMESPACE: one namespace for all tests, for users who may not create any.
var sharedNamespace = os.Getenv("TEST_NAMESPACE")

// leftInShared are the objects that tests leave in the shared namespace beside Welcomes, also when they fail.
var leftInShared = []string{
	"deployment/hello", "service/hello", "secret/sh.helm.release.v1.hello.v1", "secret/sh.helm.release.v1.hello.v2", // TestHelmInstall, TestPrometheus
	"horizontalpodautoscaler/of-a-welcome", "serviceaccount/nobody", "serviceaccount/prometheus",
}

// needsCluster skips a test if all share a namespace. It says which rights on the cluster the test needs.
func needsCluster(t *testing.T, what string) {
	t.Helper()
	if sharedNamespace != "" {
		t.Skip("TEST_NAMESPACE is set, and this needs " + what)
	}
}

// scene is a test with a namespace of its own, in which only restricted pods may run.
type scene struct {
	*testing.T
	namespace string
	undos     []func()
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, namespace: sharedNamespace}
	if sharedNamespace == "" {
		s.namespace = "e2e-" + kit.NameOf(t.Name())
		s.kubectl("create", "namespace", s.namespace)
		s.kubectl("label", "namespace", s.namespace, testLabel+"=true", "pod-security.kubernetes.io/enforce=restricted")
	}
	t.Cleanup(func() {
		defer func() {
			for _, undo := range s.undos {
				undo()
			}
		}()
		if t.Failed() {
			t.Log(s.dump())
		}
		if sharedNamespace != "" {
			s.empty()
		} else if !t.Failed() { // after a failure, it stays for somebody to look at
			s.kubectl("delete", "namespace", s.namespace, "--wait=false") // TestMain waits
		}
	})
	return s
}

// empty deletes what the tests create in the shared namespace. No object had these names before
// (hack/fresh.sh).
func (s *scene) empty() {
	s.Helper()
	s.kubectl("delete", "welcomes", "--all", "--timeout="+patience.String())
	s.kubectl(append([]string{"delete", "--ignore-not-found"}, leftInShared...)...)
	s.await("no pod is left", func() error { return s.hasPods(0) })
}

// undo reverts a change to the operator at the end of the test. If the test failed, it does so after the dump, which
// has the log of the changed pods.
func (s *scene) undo(change func()) { s.undos = append(s.undos, change) }

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// kubectl runs kubectl in the namespace of the test and returns what it printed. The test ends if kubectl fails.
func (s *scene) kubectl(args ...string) string {
	s.Helper()
	out, err := s.tryKubectl("", args...)
	s.must(err)
	return out
}

// tryKubectl is kubectl for commands that may fail. The error has all of their output.
func (s *scene) tryKubectl(stdin string, args ...string) (string, error) {
	return kubectl(stdin, append([]string{"--namespace=" + s.namespace}, args...)...)
}

// welcome applies a Welcome.
func (s *scene) welcome(name string, edits ...kit.Edit) {
	s.Helper()
	s.must(s.tryWelcome(name, edits...))
}

func (s *scene) tryWelcome(name string, edits ...kit.Edit) error {
	if apiProxy != "" { // in a cloud, each load balancer takes its time and costs money
		edits = append([]kit.Edit{kit.Set("service.type", "ClusterIP")}, edits...)
	}
	manifest, err := json.Marshal(kit.Welcome(s.namespace, name, edits...))
	if err == nil {
		_, err = s.tryKubectl(string(manifest), "apply", "--filename=-")
	}
	return err
}

// patch edits the spec of a Welcome: {"name":"world"}.
func (s *scene) patch(name, spec string) {
	s.Helper()
	s.kubectl("patch", "welcome", name, "--type=merge", `--patch={"spec":`+spec+`}`)
}

// awaitReady waits until a Welcome is Ready with its current spec.
func (s *scene) awaitReady(name string) {
	s.Helper()
	start := time.Now()
	stop := waiting.While(s.Logf, "Welcome "+name+" to be ready")
	_, err := s.tryKubectl("", "wait", "welcome/"+name, "--for=condition=Ready", "--timeout="+patience.String())
	stop()
	s.must(err)
	s.Logf("Welcome %s is ready after %s", name, since(start))
}

// await repeats check until it returns nil, and ends the test with its last error if it does not in time.
func (s *scene) await(what string, check func() error) {
	s.Helper()
	s.awaitWithin(patience, what, check)
}

func (s *scene) awaitWithin(limit time.Duration, what string, check func() error) {
	s.Helper()
	start := time.Now()
	err := waiting.For(context.WithoutCancel(s.Context()), s.Logf, what, limit, 200*time.Millisecond, func(context.Context) error { return check() })
	s.must(err)
	s.Logf("%s, after %s", what, since(start))
}

// awaitOutput waits until a kubectl command prints want.
func (s *scene) awaitOutput(what, want string, args ...string) {
	s.Helper()
	s.await(what, func() error {
		got, err := s.tryKubectl("", args...)
		if err == nil && got != want {
			err = fmt.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), got, want)
		}
		return err
	})
}

// url is the address of a page's Service: on the node of the local cluster or, where nodes cannot be reached,
// through the API server.
func (s *scene) url(service string) string {
	s.Helper()
	if apiProxy != "" {
		return apiProxy + "/api/v1/namespaces/" + s.namespace + "/services/" + service + ":http/proxy/hello/"
	}
	node := s.kubectl("get", "nodes", `--output=jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	port := s.kubectl("get", "service", service, "--output=jsonpath={.spec.ports[0].nodePort}")
	return "http://" + node + ":" + port + "/hello/"
}

// awaitPage waits until the page at url has a text.
func (s *scene) awaitPage(url, text string) {
	s.Helper()
	s.await(fmt.Sprintf("%s says %q", url, text), func() error { return kit.Page(s.Context(), url, text) })
}

// dump prints what helps to find out why a test failed.
func (s *scene) dump() string {
	var out strings.Builder
	for _, args := range [][]string{
		{"--namespace=" + s.namespace, "get", "welcomes", "--output=yaml"},
		{"--namespace=" + s.namespace, "get", "all,configmaps", "--output=wide"},
		{"--namespace=" + s.namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"--namespace=" + operatorNamespace, "get", "pods", "--output=wide"},
		{"--namespace=" + operatorNamespace, "logs", "deployment/" + operatorName, "--all-pods", "--tail=100"},
	} {
		text, err := kubectl("", args...)
		fmt.Fprintf(&out, "\n== kubectl %s\n%s\n", strings.Join(args, " "), text)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String()
}

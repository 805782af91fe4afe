package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience is how long something may take on a machine that has other work to do.
const patience = 90 * time.Second

// scene is a test with a namespace of its own, in which only restricted pods may run.
type scene struct {
	*testing.T
	namespace string
	undos     []func()
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t}
	s.namespace = "e2e-" + notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	s.kubectl("create", "namespace", s.namespace)
	s.kubectl("label", "namespace", s.namespace, testLabel+"=true", "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.dump()) // and the namespace stays, for whoever looks at it
		} else {
			s.kubectl("delete", "namespace", s.namespace, "--wait=false") // TestMain waits
		}
		for _, undo := range s.undos {
			undo()
		}
	})
	return s
}

// undo has a change to the operator taken back at the end, after the dump of a failed test: that has the log of its pods.
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

// tryKubectl is for what may fail; an error has all that kubectl said.
func (s *scene) tryKubectl(stdin string, args ...string) (string, error) {
	return kubectl(stdin, append([]string{"--namespace=" + s.namespace}, args...)...)
}

// welcome applies a Welcome with a spec in YAML's flow style: {name: myfriends}.
func (s *scene) welcome(name, spec string) {
	s.Helper()
	_, err := s.tryKubectl(manifest(name, spec), "apply", "--filename=-")
	s.must(err)
}

func manifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: %s}\nspec: %s\n", name, spec)
}

// patch edits the spec of a Welcome: {"name":"world"}.
func (s *scene) patch(name, spec string) {
	s.Helper()
	s.kubectl("patch", "welcome", name, "--type=merge", `--patch={"spec":`+spec+`}`)
}

// awaitReady waits until a Welcome says that it is as its spec wants it.
func (s *scene) awaitReady(name string) {
	s.Helper()
	start := time.Now()
	s.kubectl("wait", "welcome/"+name, "--for=condition=Ready", "--timeout="+patience.String())
	s.Logf("Welcome %s is ready after %s", name, since(start))
}

// await repeats check until it returns nil, and ends the test with its last error if it does not in time.
func (s *scene) await(what string, check func() error) {
	s.Helper()
	start := time.Now()
	for {
		err := check()
		if err == nil {
			s.Logf("%s, after %s", what, since(start))
			return
		}
		if time.Since(start) > patience {
			s.Fatalf("waited %s in vain: %s: %v", patience, what, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
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

// url is where the Service of a page answers on a node, from wherever nodes can be reached.
func (s *scene) url(service string) string {
	s.Helper()
	node := s.kubectl("get", "nodes", `--output=jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	port := s.kubectl("get", "service", service, "--output=jsonpath={.spec.ports[0].nodePort}")
	return "http://" + node + ":" + port + "/hello/"
}

// awaitPage waits until the page at url has a text.
func (s *scene) awaitPage(url, text string) {
	s.Helper()
	s.await(fmt.Sprintf("%s says %q", url, text), func() error {
		response, err := visitor.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(string(page), text)) {
			err = fmt.Errorf("%s: %s", response.Status, page)
		}
		return err
	})
}

// visitor comes each time anew: with a kept connection it would see no other pod than its first.
var visitor = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// dump is what a person would look at.
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

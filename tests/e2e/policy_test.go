package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// otherPort is a port on which only a probe listens.
const otherPort = ":9999"

// With networkPolicy.enabled, a page answers on its port only, and reaches nothing. A page without it shows what the
// network lets through otherwise.
func TestNetworkPolicyOfAPage(t *testing.T) {
	needsCluster(t, "a network that enforces policies, and the Service of the API server")
	s := newScene(t)
	s.welcome("open")
	s.welcome("guarded")
	s.awaitReady("open")
	s.awaitReady("guarded")
	probes := s.newProbes()
	open, guarded, api := s.podOf("open"), s.podOf("guarded"), s.apiServer()

	probes.lookFrom(open, guarded.ip+":8080", guarded.ip+otherPort, api)
	probes.lookFrom(guarded, "127.0.0.1"+otherPort, open.ip+":8080", open.ip+otherPort, api)
	unguarded := func() {
		probes.awaitSight(open, guarded.ip+":8080=true", guarded.ip+otherPort+"=true", api+"=true")
		probes.awaitSight(guarded, "127.0.0.1"+otherPort+"=true", open.ip+":8080=true", open.ip+otherPort+"=true", api+"=true")
	}
	unguarded()
	s.patch("guarded", `{"networkPolicy":{"enabled":true}}`)
	probes.awaitSight(open, guarded.ip+":8080=true", guarded.ip+otherPort+"=false", api+"=true")
	probes.awaitSight(guarded, "127.0.0.1"+otherPort+"=true", open.ip+":8080=false", open.ip+otherPort+"=false", api+"=false")
	s.must(kit.Page(s.Context(), s.url("guarded"), "Hello")) // from outside
	s.patch("guarded", `{"networkPolicy":{"enabled":false}}`)
	unguarded()
}

// In all tests of this package, config/network-policy applies to the operator. Only namespaces with a label reach its
// metrics, nobody reaches its other ports, and it reaches only the ports of API servers and DNS.
func TestNetworkPolicyOfTheOperator(t *testing.T) {
	needsCluster(t, "a network that enforces policies, and the right to label a namespace")
	s := newScene(t)
	s.welcome("hello")
	s.awaitReady("hello")
	probes := s.newProbes()
	page, operator, api := s.podOf("hello"), s.operatorPod(), s.apiServer()

	probes.lookFrom(operator, "127.0.0.1:8081", page.ip+":8080", api)
	probes.lookFrom(page, "127.0.0.1:8080", operator.ip+":8443", operator.ip+":8081")
	probes.awaitSight(operator, "127.0.0.1:8081=true", page.ip+":8080=false", api+"=true")
	probes.awaitSight(page, "127.0.0.1:8080=true", operator.ip+":8443=false", operator.ip+":8081=false")

	s.kubectl("label", "namespace", s.namespace, "metrics=enabled")
	probes.awaitSight(page, "127.0.0.1:8080=true", operator.ip+":8443=true", operator.ip+":8081=false")
}

// pod is a running pod.
type pod struct{ namespace, name, ip string }

// podOf is the pod of a Welcome, which must have only one.
func (s *scene) podOf(welcome string) pod {
	s.Helper()
	return s.onePod(s.namespace, "--selector=welcome="+welcome)
}

// operatorPod is the pod of the operator that leads.
func (s *scene) operatorPod() pod {
	s.Helper()
	return s.onePod(operatorNamespace, "--field-selector=metadata.name="+s.leader())
}

func (s *scene) onePod(namespace, selector string) pod {
	s.Helper()
	found := strings.Fields(s.kubectl("--namespace="+namespace, "get", "pods", selector, "--output=jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {end}"))
	if len(found) != 2 {
		s.Fatalf("want one pod in %s with %s, got %q", namespace, selector, found)
	}
	return pod{namespace, found[0], found[1]}
}

// apiServer is the address at which pods find the API server.
func (s *scene) apiServer() string {
	s.Helper()
	return s.kubectl("--namespace=default", "get", "service", "kubernetes", "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
}

// probes run in the network of pods, and try which addresses they reach (tests/probe).
type probes struct {
	*scene
	image string
	// container is the probe's name in each pod. It is unique, because the operator's pods keep the probes of all tests
	// and of earlier runs.
	container string
}

func (s *scene) newProbes() *probes {
	s.Helper()
	context := s.TempDir()
	s.must(kit.Build(filepath.Join(context, "probe"), "tests/probe"))
	return &probes{scene: s, image: s.pushImage("probe", "tests/probe/Dockerfile", context), container: fmt.Sprintf("probe-%08x", rand.Uint32())}
}

// lookFrom starts a probe in the network of a pod. It listens on otherPort, and tries which addresses it reaches.
func (p *probes) lookFrom(from pod, addresses ...string) {
	p.Helper()
	image := p.output(kit.File("hack", "image.sh"), "ref", p.image)
	p.kubectl("--namespace="+from.namespace, "debug", from.name, "--image="+image, "--container="+p.container, "--profile=restricted",
		"--", "/probe", "-listen="+otherPort, "-dial="+strings.Join(addresses, ","))
}

// awaitSight waits until the probe of a pod reaches what it should and nothing else.
func (p *probes) awaitSight(from pod, want ...string) {
	p.Helper()
	p.await(fmt.Sprintf("%s sees %v", from.name, want), func() error {
		got, err := p.tryKubectl("", "--namespace="+from.namespace, "logs", from.name, "--container="+p.container, "--tail=1")
		if err == nil && got != strings.Join(want, " ") {
			err = fmt.Errorf("it sees %s", got)
		}
		return err
	})
}

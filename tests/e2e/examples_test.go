package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// exampleKinds are the kinds of examples/, with the names of their CRDs.
var exampleKinds = map[string]string{
	"crontab":       "crontabs.stable.example.com",
	"memcached":     "memcacheds.cache.gmem.cc",
	"springbootapp": "springbootapps.gmem.cc",
}

var (
	imageScript      = kit.File("hack", "image.sh")
	deploymentScript = kit.File("hack", "deployment.sh")
)

// The operators of examples/ are built and deployed unchanged, beside Welcome's.
func TestExamplesInOperatorsOfTheirOwn(t *testing.T) {
	needsCluster(t, "namespaces for other operators")
	s := newExamples(t)
	var resources, images []string
	for kind := range exampleKinds {
		name := kind + "-operator"
		image, context := "demo.welcome.domain/"+name+":e2e", kit.File("examples", name)
		s.must(run(imageScript, "build", image, filepath.Join(context, "Dockerfile"), runtime.GOARCH, context))
		s.must(run(imageScript, "push", image))
		// By its digest: the node may have an image of this name from an earlier run.
		repository, digest, _ := strings.Cut(s.output(imageScript, "ref", image), "@")
		resources = append(resources, "../../examples/"+name)
		images = append(images, fmt.Sprintf("{name: %s, digest: %q}", repository, digest))
	}
	all := kit.File("dist", "examples")
	s.must(os.WriteFile(filepath.Join(all, "kustomization.yaml"),
		fmt.Appendf(nil, "resources: [%s]\nimages: [%s]\n", strings.Join(resources, ", "), strings.Join(images, ", ")), 0o600))
	s.undo(func() {
		s.removeExampleKinds()
		_, err := kubectl("", "delete", "--kustomize", all, "--ignore-not-found")
		s.must(err)
	})
	_, err := kubectl("", "apply", "--server-side", "--kustomize", all)
	s.must(err)
	s.useExamples()
	for kind := range exampleKinds {
		if operator := s.kubectl("get", kind, "--output=jsonpath={.items[0].status.operator}"); !strings.HasPrefix(operator, kind+"-operator-system/") {
			t.Errorf("the %s is served by %q", kind, operator)
		}
	}
}

// The same charts are kinds of Welcome's own operator, by the same commands without INTO.
func TestExamplesInOneOperator(t *testing.T) {
	needsCluster(t, "rights on custom resources of other kinds")
	s := newExamples(t)
	program := filepath.Join(s.TempDir(), "manifests")
	s.must(kit.Build(program, "hack/manifests"))
	readme, err := os.ReadFile(kit.File("examples", "README.md"))
	s.must(err)
	var tree string
	image := s.buildOperator(func(context string) {
		tree = context
		for _, part := range []string{"config", "catalog", "PROJECT"} {
			s.must(run("cp", "--recursive", kit.File(part), context))
		}
		for line := range strings.SplitSeq(string(readme), "\n") {
			if variables, ok := strings.CutPrefix(line, "make kind "); ok {
				s.output("env", append([]string{"--chdir=" + context, program, "kind"}, flagsOf(variables)...)...)
			}
		}
	})
	base, err := filepath.Rel(kit.Root(), filepath.Join(tree, "config", "default"))
	s.must(err)
	operand := s.kubectl("--namespace="+operatorNamespace, "get", "deployment", operatorName,
		`--output=jsonpath={.spec.template.spec.containers[0].env[?(@.name=="RELATED_IMAGE_WELCOME")].value}`)
	manifest := s.output(deploymentScript, s.output(imageScript, "ref", image), operand, base)
	s.undo(func() {
		s.removeExampleKinds()
		for kind := range exampleKinds {
			for _, may := range []string{"admin", "editor", "viewer"} {
				s.kubectl("delete", "clusterrole", "--ignore-not-found", "welcome-operator-"+kind+"-"+may+"-role")
			}
		}
		s.must(runMake("deploy"))
	})
	_, err = kubectl(manifest, "apply", "--server-side", "--force-conflicts", "--filename=-")
	s.must(err)
	s.kubectl("--namespace="+operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
	s.useExamples()
}

// flagsOf returns the variables of a `make kind` command as flags of its program, without INTO: CHART=a KIND=B.
func flagsOf(variables string) []string {
	var flags []string
	for variable := range strings.FieldsSeq(variables) {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case "INTO":
			continue
		case "CHART":
			value = kit.File(value)
		}
		flags = append(flags, "-"+strings.ToLower(name)+"="+value)
	}
	return flags
}

// newExamples begins a test, and pushes the images that the samples run.
func newExamples(t *testing.T) *scene {
	t.Helper()
	if os.Getenv("KUBECONFIG") != kit.File(".cluster", "kubeconfig") {
		t.Skip("the images of examples/ are for the registry of the local cluster")
	}
	s := newScene(t)
	s.must(exampleImages())
	return s
}

var exampleImages = sync.OnceValue(func() error { return run(kit.File("examples", "images.sh")) })

// useExamples does what users do with a Welcome and with a sample of each other kind.
func (s *scene) useExamples() {
	s.Helper()
	s.welcome("hello", kit.Greet("myfriends"))
	for kind := range exampleKinds {
		s.await(kind+" is a kind that the API server serves", func() error {
			_, err := s.tryKubectl("", "apply", "--filename="+kit.File("examples", kind+"-operator", "samples"))
			return err
		})
	}
	for _, name := range []string{"welcome/hello", "memcached/memcached-sample", "springbootapp/springbootapp-sample", "ct/crontab-sample"} {
		s.kubectl("wait", name, "--for=condition=Ready", "--timeout="+patience.String())
	}
	s.awaitPage(s.url("hello"), "Hello myfriends")

	servers := strings.Fields(s.kubectl("get", "endpointslices", "--selector=kubernetes.io/service-name=memcached-sample",
		`--output=jsonpath={range .items[*].endpoints[*]}{.addresses[0]}:11211{"\n"}{end}`))
	if len(servers) != 2 {
		s.Errorf("the servers of memcached are %q: the sample wants two", servers)
	}
	client := memcache.New(servers...)
	client.Timeout = 10 * time.Second
	defer func() { _ = client.Close() }() // the answer has been read
	for i := range 20 {
		item := &memcache.Item{Key: fmt.Sprintf("key-%d", i), Value: fmt.Appendf(nil, "value %d", i)}
		s.must(client.Set(item))
		if got, err := client.Get(item.Key); err != nil || string(got.Value) != string(item.Value) {
			s.Errorf("memcached says %v, %v for %s", got, err, item.Key)
		}
	}

	s.awaitPage("http://"+s.kubectl("get", "service", "springbootapp-sample", "--output=jsonpath={.spec.clusterIP}")+":8080/hello/", "Hello")
	uid := []string{"get", "deployment", "springbootapp-sample", "--output=jsonpath={.metadata.uid} {.status.readyReplicas}"}
	deleted := s.kubectl(uid...)
	s.kubectl("delete", "deployment", "springbootapp-sample")
	s.await("the Deployment of the program is made again", func() error {
		now, err := s.tryKubectl("", uid...)
		if err == nil && (now == deleted || !strings.HasSuffix(now, " 1")) {
			err = fmt.Errorf("it is %q, after %q", now, deleted)
		}
		return err
	})
	// Authors choose no image, except from those that the chart offers.
	if _, err := s.tryKubectl("", "patch", "springbootapp", "springbootapp-sample", "--type=merge", `--patch={"spec":{"jdkVersion":"21-evil"}}`); err == nil || !strings.Contains(err.Error(), `supported values: "17", "21"`) {
		s.Errorf("jdkVersion may be anything: %v", err)
	}

	s.kubectl("scale", "ct/crontab-sample", "--replicas=2")
	s.awaitOutput("each run has two pods", "2 2", "get", "cronjob", "crontab-sample", "--output=jsonpath={.spec.jobTemplate.spec.completions} {.spec.jobTemplate.spec.parallelism}")
	s.await("the CronTab has run", func() error {
		date, err := s.tryKubectl("", "logs", "--selector=app.kubernetes.io/instance=crontab-sample")
		if err == nil && !strings.Contains(date, "UTC 20") {
			err = fmt.Errorf("its pods say %q", date)
		}
		return err
	})
	s.awaitOutput("the run has ended well", "True", "get", "jobs", `--output=jsonpath={.items[0].status.conditions[?(@.type=="Complete")].status}`)
}

// removeExampleKinds deletes the kinds with their custom resources, while there still is an operator for them.
func (s *scene) removeExampleKinds() {
	s.Helper()
	s.kubectl(append([]string{"delete", "crd", "--ignore-not-found", "--timeout=" + patience.String()}, slices.Collect(maps.Values(exampleKinds))...)...)
}

// output runs a command and returns its output.
func (s *scene) output(program string, args ...string) string {
	s.Helper()
	out, err := kit.Output(exec.Command(program, args...))
	s.must(err)
	return out
}

package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// An edit of only the chart changes what all Welcomes deploy, once the operator's image is built anew.
func TestChartEditUpgradesWelcomes(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"))
	s.awaitReady("hello")
	url := s.url("hello")
	s.awaitPage(url, "Hello myfriends")

	edited := s.buildOperator(func(context string) {
		templates := filepath.Join(context, "helm-charts", "welcome", "templates")
		s.edit(filepath.Join(templates, "_helpers.tpl"), `{{- define "welcome.labels" -}}`, "\nchart: edited")
		s.edit(filepath.Join(templates, "deployment.yaml"), "          env:", "\n            - {name: CHART, value: edited}")
	})
	s.undo(func() { s.must(runMake("deploy")) })

	const (
		edits  = `--output=jsonpath={.metadata.labels.chart} {.spec.template.spec.containers[0].env[?(@.name=="CHART")].value}`
		before = ""
		after  = "edited edited"
	)
	visitors := s.traffic(url, 200)
	s.must(runMake("deploy", "IMG="+edited))
	s.awaitOutput("the Deployment has label and variable", after, "get", "deployment", "hello", edits)
	s.awaitReady("hello")
	s.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())
	s.await("the old pod is gone", func() error { return s.hasPods(1) })
	if got := s.kubectl("get", "service", "hello", "--output=jsonpath={.metadata.labels.chart}"); got != "edited" {
		t.Errorf("the Service's label is %q", got)
	}

	s.must(runMake("deploy"))
	s.awaitOutput("the Deployment has lost both", before, "get", "deployment", "hello", edits)
	s.awaitReady("hello")
	s.await("one pod is left", func() error { return s.hasPods(1) })
	visitors.stop(s)
	s.awaitPage(url, "Hello myfriends")
}

// buildOperator builds and pushes another image of the operator, from the same binary and an edited copy of its other
// files, and returns its name.
func (s *scene) buildOperator(edit func(context string)) string {
	s.Helper()
	context := s.TempDir()
	binary := filepath.Join("dist", "linux-"+runtime.GOARCH)
	s.must(os.MkdirAll(filepath.Join(context, binary), 0o755))
	for _, path := range []string{"watches.yaml", "helm-charts", filepath.Join(binary, "welcome-operator")} {
		s.must(run("cp", "--recursive", kit.File(path), filepath.Join(context, filepath.Dir(path))))
	}
	edit(context)
	return s.pushImage("e2e", "Dockerfile", context)
}

// pushImage builds an image and pushes it to the operator's repository, with a tag, and returns its name.
func (s *scene) pushImage(tag, dockerfile, context string) string {
	s.Helper()
	deployed := s.kubectl("--namespace="+operatorNamespace, "get", "deployment", operatorName,
		"--output=jsonpath={.spec.template.spec.containers[0].image}")
	repository, _, _ := strings.Cut(deployed, "@")
	image := repository + ":" + tag
	script := kit.File("hack", "image.sh")
	s.must(run(script, "build", image, dockerfile, runtime.GOARCH, context))
	s.must(run(script, "push", image))
	return image
}

// edit inserts text into a file, after the first occurrence of another text.
func (s *scene) edit(file, where, text string) {
	s.Helper()
	content, err := os.ReadFile(file)
	s.must(err)
	if !strings.Contains(string(content), where) {
		s.Fatalf("%s has no %q: edit it in another place", file, where)
	}
	s.must(os.WriteFile(file, []byte(strings.Replace(string(content), where, where+text, 1)), 0o644))
}

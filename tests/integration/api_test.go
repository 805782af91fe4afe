package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const unknownField = `
apiVersion: webapp.demo.welcome.domain/v1
kind: Welcome
metadata: {name: hello}
spec: {name: myfriends, greetings: many}
`

func TestUnknownField(t *testing.T) {
	s := newScene(t)
	s.operator()
	out, err := s.kubectlRun(unknownField, "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "unknown field") || !strings.Contains(out, "spec.greetings") {
		t.Errorf("kubectl does not refuse an unknown field: %v\n%s", err, out)
	}
	out, err = s.kubectlRun(unknownField, "apply", "--validate=ignore", "-f", "-")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, found, _ := unstructured.NestedString(s.welcome("hello").Object, "spec", "greetings"); found {
		t.Error("the unknown field was stored")
	}
	s.awaitDeployed("hello")
}

func TestScale(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create(welcome("hello")) // says nothing of replicas
	s.awaitDeployed("hello")
	if out, err := s.kubectlRun("", "scale", "welcome", "hello", "--replicas=3"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.await("the Deployment has 3 replicas", func() error {
		out, err := s.kubectlRun("", "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}")
		if err != nil || out != "3" {
			return fmt.Errorf("%s %w", out, err)
		}
		return nil
	})
}

// Every field is explained.
func TestExplain(t *testing.T) {
	s := newScene(t)
	var walk func(path string, schema map[string]any)
	walk = func(path string, schema map[string]any) {
		if description, _ := schema["description"].(string); description == "" {
			t.Errorf("%s has no description", path)
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			walk(path+"."+name, property.(map[string]any))
		}
	}
	objects, err := readObjects(env.root + "/config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml")
	s.must(err)
	versions, _, _ := unstructured.NestedSlice(objects[0].Object, "spec", "versions")
	spec, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	if !found || err != nil {
		t.Fatalf("the CRD has no spec: %v", err)
	}
	walk("spec", spec)

	out, err := s.kubectlRun("", "explain", "welcome.spec", "--recursive")
	s.must(err)
	for field := range spec["properties"].(map[string]any) {
		if !regexp.MustCompile(`(?m)^\s+` + field + `\s`).MatchString(out) {
			t.Errorf("%s is missing in\n%s", field, out)
		}
	}
	out, err = s.kubectlRun("", "explain", "welcome.spec.name")
	if err != nil || !strings.Contains(out, "greeted") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestShortNameAndColumns(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create(welcome("hello").greeting("myfriends"))
	s.awaitDeployed("hello")
	out, err := s.kubectlRun("", "get", "wel")
	if err != nil || !strings.Contains(out, "GREETING") || !strings.Contains(out, "myfriends") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = s.kubectlRun("", "get", "all")
	if err != nil || !strings.Contains(out, "welcome.webapp.demo.welcome.domain/hello") {
		t.Errorf("category all: %v\n%s", err, out)
	}
}

package integration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestUnknownField(t *testing.T) {
	s := newScene(t)
	s.operator()
	unknownField, err := kit.Welcome(s.namespace, "hello", kit.Greet("myfriends"), kit.Set("greetings", "many")).MarshalJSON()
	s.must(err)
	_, err = s.kubectl(string(unknownField), "apply", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "unknown field") || !strings.Contains(err.Error(), "spec.greetings") {
		t.Errorf("kubectl does not refuse an unknown field: %v", err)
	}
	_, err = s.kubectl(string(unknownField), "apply", "--validate=ignore", "-f", "-")
	s.must(err)
	if _, found, _ := unstructured.NestedString(s.welcome("hello").Object, "spec", "greetings"); found {
		t.Error("the unknown field was stored")
	}
	s.awaitDeployed("hello")
}

func TestScale(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello") // says nothing of replicas
	_, err := s.kubectl("", "scale", "welcome", "hello", "--replicas=3")
	s.must(err)
	s.await("the Deployment has 3 replicas", func() error {
		out, err := s.kubectl("", "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}")
		if err != nil || out != "3" {
			return errors.Join(fmt.Errorf("it has %q", out), err)
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
	crd, err := kit.Read[map[string]any](kit.File("config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml"))
	s.must(err)
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	spec, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	if !found || err != nil {
		t.Fatalf("the CRD has no spec: %v", err)
	}
	walk("spec", spec)

	out, err := s.kubectl("", "explain", "welcome.spec", "--recursive")
	s.must(err)
	for field := range spec["properties"].(map[string]any) {
		if !regexp.MustCompile(`(?m)^\s+` + field + `\s`).MatchString(out) {
			t.Errorf("%s is missing in\n%s", field, out)
		}
	}
	out, err = s.kubectl("", "explain", "welcome.spec.name")
	if err != nil || !strings.Contains(out, "greeted") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestShortNameAndColumns(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("myfriends"))
	out, err := s.kubectl("", "get", "wel")
	if err != nil || !strings.Contains(out, "GREETING") || !strings.Contains(out, "myfriends") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = s.kubectl("", "get", "all")
	if err != nil || !strings.Contains(out, "welcome.webapp.demo.welcome.domain/hello") {
		t.Errorf("category all: %v\n%s", err, out)
	}
}

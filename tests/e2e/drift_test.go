package e2e

import (
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestDriftIsHealed(t *testing.T) {
	s := newScene(t)
	s.welcome("hello", kit.Greet("myfriends"), kit.Set("service.port", 8081))
	s.awaitReady("hello")
	s.awaitPage(s.url("hello"), "Hello myfriends")

	t.Run("the Deployment is deleted", func(t *testing.T) {
		s := &scene{T: t, namespace: s.namespace}
		deleted := s.kubectl("get", "deployment", "hello", "--output=jsonpath={.metadata.uid}")
		s.kubectl("delete", "deployment", "hello")
		s.kubectl("wait", "deployment/hello", "--for=create", "--timeout="+patience.String())
		s.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())
		if s.kubectl("get", "deployment", "hello", "--output=jsonpath={.metadata.uid}") == deleted {
			t.Error("it is still the same")
		}
		s.awaitPage(s.url("hello"), "Hello myfriends")
	})

	t.Run("the Service leads elsewhere", func(t *testing.T) {
		s := &scene{T: t, namespace: s.namespace}
		s.kubectl("patch", "service", "hello", "--patch", `{"spec":{"ports":[{"port":8081,"name":"http","targetPort":1}],"selector":{"welcome":"another"}}}`)
		s.awaitOutput("it is as before", "http hello", "get", "service", "hello",
			"--output=jsonpath={.spec.ports[0].targetPort} {.spec.selector.welcome}")
		s.awaitPage(s.url("hello"), "Hello myfriends")
	})

	t.Run("the Deployment greets intruders", func(t *testing.T) {
		s := &scene{T: t, namespace: s.namespace}
		s.kubectl("set", "env", "deployment/hello", "NAME=intruders")
		s.awaitOutput("it greets friends", "myfriends", "get", "deployment", "hello",
			`--output=jsonpath={.spec.template.spec.containers[0].env[?(@.name=="NAME")].value}`)
	})
}

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// After the deletion of a Welcome with every option that needs no allowance of the platform, the namespace is as it
// was before.
func TestDeleteLeavesNothing(t *testing.T) {
	needsCluster(t, "the right to list objects of every kind")
	s := newScene(t)
	s.kubectl("wait", "configmap/kube-root-ca.crt", "serviceaccount/default", "--for=create") // Kubernetes creates them in each namespace
	before, err := s.objects()
	s.must(err)

	sample := "--filename=" + kit.File("config/samples/webapp_v1_welcome_full.yaml")
	s.kubectl("apply", sample)
	s.await("there are two ready pods", func() error { return s.hasPods(2) })
	during, err := s.objects()
	s.must(err)
	for _, kind := range []string{
		"deployment", "replicaset", "pod", "service", "endpointslice", "networkpolicy", "horizontalpodautoscaler",
		"poddisruptionbudget", "configmap/sh.helm.release",
	} {
		if !slices.ContainsFunc(during, func(object string) bool { return strings.HasPrefix(object, kind) }) {
			t.Errorf("there is no %s among %q", kind, during)
		}
	}

	s.kubectl("delete", sample, "--timeout=60s")
	s.await("nothing is left", func() error {
		after, err := s.objects()
		if err == nil && !slices.Equal(after, before) {
			err = fmt.Errorf("there is %q", slices.DeleteFunc(after, func(object string) bool { return slices.Contains(before, object) }))
		}
		return err
	})
}

// objects are all objects in the namespace, of any kind, except events.
func (s *scene) objects() ([]string, error) {
	kinds, err := kubectl("", "api-resources", "--namespaced", "--verbs=list", "--output=name")
	if err != nil {
		return nil, err
	}
	asked := slices.DeleteFunc(lines(kinds), func(kind string) bool { return strings.HasPrefix(kind, "events") })
	names, err := s.tryKubectl("", "get", strings.Join(asked, ","), "--output=name", "--ignore-not-found")
	return lines(names), err
}

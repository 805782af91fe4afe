package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestInstall(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	before := s.record()
	cr := s.deploy("hello", kit.Greet("myfriends"))
	s.settled(operator)
	s.costsAtMost(6, "an install", before.of(operator))

	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	s.get(deployment, "hello")
	s.get(service, "hello")
	for _, child := range []client.Object{deployment, service} {
		if !metav1.IsControlledBy(child, cr) {
			t.Errorf("%T is not owned by the Welcome: %v", child, child.GetOwnerReferences())
		}
		if child.GetLabels()[kit.ManagedBy] != "welcome-operator" {
			t.Errorf("%T has labels %v", child, child.GetLabels())
		}
		if got := child.GetManagedFields()[0].Manager; got != "welcome-operator" {
			t.Errorf("%T was written by %q", child, got)
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Image != image {
		t.Errorf("the image is %q, not the one of RELATED_IMAGE_WELCOME", container.Image)
	}
	if got := kit.Greeting(deployment); got != "myfriends" {
		t.Errorf("NAME is %q", got)
	}
	if got := deployment.Spec.Template.Labels["welcome"]; got != "hello" {
		t.Errorf("pods are labelled welcome=%q", got)
	}
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Spec.Ports[0].Port != 8080 {
		t.Errorf("the Service is %v", service.Spec)
	}
	if !slices.Contains(s.welcome("hello").GetFinalizers(), "uninstall-helm-release") {
		t.Error("there is no finalizer")
	}
	if got := s.records("hello"); len(got) != 1 || !metav1.IsControlledBy(&got[0], cr) {
		t.Errorf("release records: %v", names(got))
	}
	secrets := &corev1.SecretList{}
	s.must(env.Client.List(ctx, secrets, client.InNamespace(s.namespace)))
	if len(secrets.Items) > 0 {
		t.Errorf("the operator made %d Secrets", len(secrets.Items))
	}
}

// costsAtMost fails if something has cost more requests than that. Lists and watches do not count: they begin
// the watch of a kind, or are for the pods of a Deployment that nobody makes ready.
func (s *scene) costsAtMost(most int, what string, requests controlplane.Requests) {
	s.Helper()
	s.Logf("%s and all reconciles that it causes cost %s", what, requests)
	if cost := slices.DeleteFunc(slices.Clone(requests), func(one controlplane.Request) bool {
		return one.Verb == "list" || one.Verb == "watch"
	}); len(cost) > most {
		s.Errorf("%s costs %s", what, cost)
	}
}

func TestUpdate(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Greet("first"))
	s.settled(operator)

	before := s.record()
	s.edit("hello", kit.Greet("second"))
	s.awaitGreeting("hello", "second")
	s.await("a second record", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	s.settled(operator)
	s.costsAtMost(8, "an upgrade", before.of(operator))

	t.Run("an object that the chart adds is made, and deleted when it is no longer wanted", func(t *testing.T) {
		policy := &networkingv1.NetworkPolicy{}
		s.edit("hello", kit.Set("networkPolicy.enabled", true))
		s.awaitExists(policy, "hello")
		s.edit("hello", kit.Set("networkPolicy.enabled", false))
		s.awaitGone(policy, "hello")
	})

	t.Run("history is bounded", func(t *testing.T) {
		for i := range 5 {
			greeting := fmt.Sprintf("again %d", i)
			s.edit("hello", kit.Greet(greeting))
			s.awaitGreeting("hello", greeting)
		}
		s.await("five records", func() error { return s.hasRecords("hello", 5) })
	})
}

func TestNothingToDo(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello")
	s.settled(operator)

	const pokes = 10
	before, reconciles := s.record(), operator.reconciles(t)
	for i := range pokes {
		s.edit("hello", kit.Annotate("example.com/poke", fmt.Sprint(i)))
		s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, i+1) })
	}
	s.settled(operator)
	requests, reconciles := before.of(operator), operator.reconciles(t)-reconciles
	t.Logf("%d idle reconciles cost %s", reconciles, requests)
	for _, request := range requests {
		if request.Writes() {
			t.Errorf("an idle reconcile writes: %s", request)
		}
	}
	if len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}
	if told := s.told(); told > 1 {
		t.Errorf("%d events tell of more than the installation", told)
	}
}

// told is how many events there were in the namespace of the test so far.
func (s *scene) told() (count int32) {
	s.Helper()
	events := &corev1.EventList{}
	s.must(env.Client.List(ctx, events, client.InNamespace(s.namespace)))
	for _, event := range events.Items {
		count += event.Count
	}
	return count
}

// settled waits until the operator is idle.
func (s *scene) settled(operator *process) {
	s.Helper()
	last := -1
	s.await("the operator has nothing to do", func() error {
		now := operator.reconciles(s.T)
		busy := operator.metric(s.T, "controller_runtime_active_workers", "") + operator.metric(s.T, "workqueue_depth", "")
		if now != last || busy > 0 {
			defer func() { last = now }()
			return fmt.Errorf("%d reconciles, %v at work or waiting", now, busy)
		}
		return nil
	})
}

func (s *scene) awaitGreeting(name, greeting string) {
	s.Helper()
	s.awaitDeployment(name, fmt.Sprintf("it greets %q", greeting), greets(greeting))
}

// records are the release records of a custom resource, oldest first.
func (s *scene) records(name string) []corev1.ConfigMap {
	s.Helper()
	list := &corev1.ConfigMapList{}
	s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm", "name": name}))
	slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return revisionOf(a.Name) - revisionOf(b.Name) })
	return list.Items
}

// revisionOf is the revision at the end of a record's name; 0 if somebody has created one with another name.
func revisionOf(record string) int {
	revision, _ := strconv.Atoi(record[strings.LastIndex(record, ".v")+len(".v"):])
	return revision
}

func (s *scene) hasRecords(name string, count int) error {
	if got := s.records(name); len(got) != count {
		return fmt.Errorf("there are %v", names(got))
	}
	return nil
}

func names(records []corev1.ConfigMap) []string {
	var out []string
	for _, record := range records {
		out = append(out, record.Name+" ("+record.Labels["status"]+")")
	}
	return out
}

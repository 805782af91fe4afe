package integration

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const runTests = "webapp.demo.welcome.domain/test"

// testedChart has a ConfigMap, and a Job that tests it.
func testedChart(t *testing.T) string {
	t.Helper()
	return chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: tested, version: 0.1.0}",
		"values.yaml":         "note: first\nwithSecret: false\ntestIn: \"\"",
		"templates/note.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {note: {{ quote .Values.note }}}\n",
		"templates/test.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: '{{ .Release.Name }}-test'\n  namespace: {{ .Values.testIn }}\n  annotations: {helm.sh/hook: test, note: {{ quote .Values.note }}}\n" +
			"spec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: test, image: example.com/test:1}]\n",
		"templates/secret.yaml": "{{ if .Values.withSecret }}\napiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Release.Name }}-secret', annotations: {helm.sh/hook: test}}\n{{ end }}",
	})
}

// tester serves a kind whose chart has tests.
func (s *scene) tester(kind, more string) settings {
	s.Helper()
	s.serveKind(kind)
	return settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf(kind, testedChart(s.T), more)}
}

// awaitTested waits until the tests of a value have run.
func (s *scene) awaitTested(kind, name, value, status string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("the tests of %s %s asked for as %q are %s", kind, name, value, status), func() error {
		object := s.of(kind, name)
		if tested, _, _ := unstructured.NestedString(object.Object, "status", "tested"); tested != value {
			return fmt.Errorf("status.tested is %q", tested)
		}
		got, err := kit.Condition(object, "Tested")
		if err != nil {
			return err
		}
		if string(got.Status) != status || got.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("it is %+v", got)
		}
		return says(got.Reason+": "+got.Message, parts)
	})
}

// The tests of a chart run once for each new value of the annotation, as the chart and the spec are then. A
// restart of the operator repeats none, and a failure is told and changes nothing else.
func TestTestsOfAChart(t *testing.T) {
	s := newScene(t)
	kind := "Tested"
	with := s.tester(kind, "  tests: true\n")
	operator := s.ownOperator(with)
	s.createOf(kind, "hello")
	s.awaitOf(kind, "hello", "Ready")
	s.must(s.isGone(&batchv1.Job{}, "hello-test"))

	s.editOf(kind, "hello", kit.Annotate(runTests, "one"), kit.Set("note", "second"))
	job := s.another("hello-test", &batchv1.Job{})
	if job.Annotations["note"] != "second" || !metav1.IsControlledBy(job, s.of(kind, "hello")) {
		t.Errorf("the test is %+v", job.ObjectMeta)
	}
	s.endHook(job)
	s.awaitTested(kind, "hello", "one", "True", "TestsSucceeded", `Job "hello-test"`)
	s.awaitEvent("hello", "TestsSucceeded", "hello-test")

	isNotRepeated := func(operator *process) {
		t.Helper()
		s.seenOf(operator, kind)
		now := &batchv1.Job{}
		s.get(now, "hello-test")
		if now.UID != job.UID {
			t.Error("the test was repeated")
		}
	}

	// Neither another edit nor another operator repeats it.
	s.editOf(kind, "hello", kit.Set("note", "third"))
	s.awaitOf(kind, "hello", "Ready")
	s.settled(operator)
	operator.Stop()
	operator = s.ownOperator(with)
	s.settled(operator)
	s.editOf(kind, "hello", kit.Set("note", "fourth"))
	s.awaitOf(kind, "hello", "Ready")
	isNotRepeated(operator)

	s.editOf(kind, "hello", kit.Annotate(runTests, strings.Repeat("x", 5000)))
	job = s.another("hello-test", job)
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitTested(kind, "hello", strings.Repeat("x", 63), "False", "TestsFailed", "job hello-test failed")
	s.awaitEvent("hello", "TestsFailed", "hello-test")
	s.awaitOf(kind, "hello", "Ready")
	isNotRepeated(operator) // nor is one that fails

	// One that an operator did not see end is run again by the next.
	s.editOf(kind, "hello", kit.Annotate(runTests, "three"))
	interrupted := s.another("hello-test", job)
	operator.Stop()
	s.ownOperator(with)
	s.endHook(s.another("hello-test", interrupted))
	s.awaitTested(kind, "hello", "three", "True", "TestsSucceeded")
}

// Tests begin once all objects are healthy: the custom resource is Ready then, however long they take.
func TestReadyWhileTestsRun(t *testing.T) {
	s := newScene(t)
	kind := "Examined"
	s.serveKind(kind)
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf(kind, chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: examined, version: 0.1.0}",
		"templates/it.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: '{{ .Release.Name }}'}\nspec:\n  selector: {matchLabels: {app: '{{ .Release.Name }}'}}\n" +
			"  template: {metadata: {labels: {app: '{{ .Release.Name }}'}}, spec: {containers: [{name: it, image: example.com/it:1}]}}\n",
		"templates/test.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: '{{ .Release.Name }}-test', annotations: {helm.sh/hook: test}}\n" +
			"spec: {template: {spec: {restartPolicy: Never, containers: [{name: test, image: example.com/test:1}]}}}\n",
	}), "  tests: true\n")})
	s.createOf(kind, "hello", kit.Annotate(runTests, "one"))
	s.awaitOf(kind, "hello", "Reconciling") // its first status is written, and says that it is not ready
	s.runsAll("hello")
	job := s.another("hello-test", &batchv1.Job{})
	s.awaitOf(kind, "hello", "Ready")
	s.endHook(job)
	s.awaitTested(kind, "hello", "one", "True", "TestsSucceeded")
}

// Tests wait for their release, and for nothing but the tests of their namespace; who hangs holds up nobody else.
func TestTestsHoldUpNobody(t *testing.T) {
	s := newScene(t)
	kind := "Patient"
	s.ownOperator(s.tester(kind, "  tests: true\n  maxConcurrentReconciles: 1\n"))
	s.createOf(kind, "paused", kit.Annotate("webapp.demo.welcome.domain/paused", "true"), kit.Annotate(runTests, "one"))
	s.createOf(kind, "one", kit.Annotate(runTests, "one"))
	first := s.another("one-test", &batchv1.Job{})
	s.createOf(kind, "two", kit.Annotate(runTests, "one"))
	s.awaitOf(kind, "two", "Ready")
	s.editOf(kind, "two", kit.Set("note", "edited"))
	s.await("the edit is applied", func() error {
		note := &corev1.ConfigMap{}
		s.get(note, "two")
		if note.Data["note"] != "edited" {
			return fmt.Errorf("it is %q", note.Data["note"])
		}
		return nil
	})
	s.must(s.isGone(&batchv1.Job{}, "two-test"))
	s.endHook(first)
	s.awaitTested(kind, "one", "one", "True")
	s.endHook(s.another("two-test", &batchv1.Job{}))
	s.awaitTested(kind, "two", "one", "True")
	s.must(s.isGone(&batchv1.Job{}, "paused-test"))
	if condition, err := kit.Condition(s.of(kind, "paused"), "Tested"); err == nil {
		t.Errorf("a paused one is tested: %+v", condition)
	}
}

// What the platform does not allow, nobody's annotation does.
func TestTestsThatAreNotAllowed(t *testing.T) {
	s := newScene(t)
	kind := "Untested"
	with := s.tester(kind, "")
	s.ownOperator(with)
	s.createOf(kind, "hello", kit.Annotate(runTests, "one"))
	s.awaitOf(kind, "hello", "Ready")
	s.awaitTested(kind, "hello", "one", "False", "NotAllowed", "tests: true")
	s.must(s.isGone(&batchv1.Job{}, "hello-test"))

	s.ownOperator(settings{namespaces: with.namespaces, account: with.account, watches: with.watches + "  tests: true\n"})
	s.createOf(kind, "secret", kit.Set("withSecret", true), kit.Annotate(runTests, "one"))
	s.await("tests with Secrets are refused", func() error {
		ready, err := kit.Condition(s.of(kind, "secret"), "Ready")
		if err != nil {
			return err
		}
		return says(ready.Reason+": "+ready.Message, []string{"NotAllowed", "secrets: true"})
	})
	s.must(s.isGone(&corev1.Secret{}, "secret-secret"))
}

// A test that may not be where it is has failed when somebody asks for it, and holds up nothing else.
func TestTestElsewhere(t *testing.T) {
	s := newScene(t)
	kind := "Astray"
	s.ownOperator(s.tester(kind, "  tests: true\n"))
	s.createOf(kind, "hello", kit.Set("testIn", "default"))
	s.awaitOf(kind, "hello", "Ready")
	s.editOf(kind, "hello", kit.Annotate(runTests, "one"))
	s.awaitTested(kind, "hello", "one", "False", "ChartError", `Job "hello-test" in namespace "default" is outside of namespace`)
	s.editOf(kind, "hello", kit.Set("testIn", ""), kit.Annotate(runTests, "two"))
	s.endHook(s.another("hello-test", &batchv1.Job{}))
	s.awaitTested(kind, "hello", "two", "True")
}

// A chart without tests says so.
func TestNoTests(t *testing.T) {
	s := newScene(t)
	s.serveKind("Plain")
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Plain", noteChart(t), "  tests: true\n")})
	s.createOf("Plain", "hello", kit.Annotate(runTests, "one"))
	s.awaitTested("Plain", "hello", "one", "True", "no tests")
}

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchesWithChart is watches.yaml with another version of the chart, in which the Deployment's template has old replaced.
func watchesWithChart(t *testing.T, old, replacement string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "welcome")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(env.root, "helm-charts/welcome"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"templates/deployment.yaml": {old, replacement},
		"Chart.yaml":                {"\nversion: ", "\nversion: 9"},
	} {
		file = filepath.Join(dir, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s has no %q", file, change[0])
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(watchesWith(""), "helm-charts/welcome", dir, 1)
}

// upgraded lists those of the Welcomes whose Deployment is of the new chart.
func (s *scene) upgraded(names []string) (done []string) {
	s.Helper()
	for _, name := range names {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if *deployment.Spec.RevisionHistoryLimit == 7 {
			done = append(done, name)
		}
	}
	return done
}

// breaks says that the pods of a Deployment do not come up.
func (s *scene) breaks(name string) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment := &appsv1.Deployment{}
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, deployment); err != nil {
			return err
		}
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation,
			Replicas:           1,
			Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "Played"}},
		}
		return env.client.Status().Update(ctx, deployment)
	}))
}

// A new version of the chart goes to a few Welcomes at a time, and to no more once too many of them are broken. It goes on
// by itself when they recover. Who edits a Welcome does not wait, nor who has edited one before the new version came.
func TestRolloutOfANewChart(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, args: []string{"--rollout-max-concurrent=2", "--rollout-max-failures=2"}}
	first := s.ownOperator(only)
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		s.create(welcome(name))
	}
	for _, name := range names {
		s.runsAll(name)
		s.awaitReady(name)
	}
	s.create(welcome("paused"))
	s.runsAll("paused")
	s.awaitReady("paused")
	s.edit("paused", func(w *fixture) { w.annotate(paused, "true").greeting("edited") })
	s.awaitCondition("paused", "Paused", "True")
	first.stop()

	only.watches = watchesWithChart(t, "revisionHistoryLimit: 3", "revisionHistoryLimit: 7")
	s.ownOperator(only)
	const round = 3 * time.Second // the next is woken at once, if it is
	// exactly waits until so many are upgraded, and then whether it stays so.
	exactly := func(count int) []string {
		t.Helper()
		s.await(fmt.Sprintf("%d are upgraded", count), func() error { return atLeast(len(s.upgraded(names)), count) })
		for until := time.Now().Add(round); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if done := s.upgraded(names); len(done) != count {
				t.Fatalf("%d were to be upgraded, not %v\n%s", count, done, s.dump())
			}
		}
		return s.upgraded(names)
	}
	underway := exactly(2)
	s.must(s.runs(underway[0], 1))
	t.Log("one of two is healthy: a third goes")
	exactly(3)
	t.Log("one is broken: a fourth goes")
	s.breaks(underway[1])
	four := exactly(4)
	t.Log("two are broken: no other goes")
	for _, name := range four {
		if name != underway[0] && name != underway[1] {
			s.breaks(name)
			break
		}
	}
	stopped := exactly(4)
	var waiting string
	for _, name := range names {
		if !strings.Contains(strings.Join(stopped, " "), name) {
			waiting = name
		}
	}
	s.awaitCondition(waiting, "Ready", "True", "the rollout of the new version has stopped")
	t.Log("its objects are looked after all the same")
	s.must(env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, waiting)}))
	s.await("the Service exists again", func() error {
		return env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: waiting}, &corev1.Service{})
	})
	exactly(4)

	s.edit(waiting, func(w *fixture) { w.greeting("now") })
	s.awaitGreeting(waiting, "now")
	s.runsAll(waiting)
	s.awaitReady(waiting)
	exactly(5)
	s.edit("paused", func(w *fixture) { w.annotate(paused, "false") })
	s.awaitGreeting("paused", "edited")

	t.Log("the broken ones recover: the others go")
	s.await("all are upgraded and ready", func() error {
		done := s.upgraded(names)
		for _, name := range done {
			s.must(s.runs(name, 1))
		}
		return atLeast(len(done), len(names))
	})
	for _, name := range names {
		s.runsAll(name)
		s.awaitReady(name)
	}
}

// A chart that cannot be rendered changes nothing: no object, no release record.
func TestChartCannotBeRendered(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	s.create(welcome("hello").greeting("before"))
	s.awaitDeployed("hello")
	s.settled(first)
	first.stop()
	objects := func() map[string]string {
		versions := map[string]string{}
		for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			s.get(object, "hello")
			versions[fmt.Sprintf("%T", object)] = object.GetResourceVersion()
		}
		for _, record := range s.records("hello") {
			versions[record.Name] = record.ResourceVersion
		}
		return versions
	}

	before := objects()
	only.watches = watchesWithChart(t, "apiVersion: apps/v1", `{{ if eq .Values.name "before" }}{{ fail "out of order" }}{{ end }}`+"\napiVersion: apps/v1")
	second := s.ownOperator(only)
	s.awaitReason("hello", "InvalidValues", "out of order", "Correct the spec")
	s.await("it is tried again", func() error { return atLeast(second.reconciles(t), 4) })
	for name, version := range objects() {
		if before[name] != version {
			t.Errorf("%s was changed, or is new", name)
		}
	}

	s.edit("hello", func(w *fixture) { w.greeting("after") })
	s.awaitGreeting("hello", "after")
	s.runsAll("hello")
	s.awaitReady("hello")
}

// A chart with a mistake says where it is, and is all right when a mended one comes.
func TestChartWithAMistake(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, watches: watchesWithChart(t, "apiVersion: apps/v1", "apiVersion: {{ .Values.none.none }}")}
	broken := s.ownOperator(only)
	s.create(welcome("hello"))
	s.awaitReason("hello", "ChartError", "templates/deployment.yaml", "Correct the chart")
	s.awaitCondition("hello", "Stalled", "True", "templates/deployment.yaml")
	broken.stop()

	only.watches = ""
	s.ownOperator(only)
	s.runsAll("hello")
	s.awaitReady("hello")
	s.awaitCondition("hello", "Stalled", "False")
}

// The newest chart no longer has an object that the record of the release has. It goes; and so does everything when the
// Welcome is deleted, whatever of it somebody has deleted before.
func TestDeleteAfterAChangeOfTheChart(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	cr := s.create(welcome("hello").with("networkPolicy.enabled", true))
	s.awaitDeployed("hello")
	s.settled(first)
	first.stop()
	s.must(env.client.Delete(ctx, cr))
	s.must(env.client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))

	only.watches = watchesWithChart(t, "apiVersion: apps/v1", "apiVersion: example.com/v1")
	s.ownOperator(only)
	s.awaitGone(newWelcome(), "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.awaitGone(listed("networking.k8s.io/v1", "NetworkPolicy"), "hello")
	s.must(s.hasRecords("hello", 0))
}

func listed(apiVersion, kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return object
}

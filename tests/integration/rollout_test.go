package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// watchesWithChart is watches.yaml with another version of the chart, in which the Deployment's template has old replaced.
func watchesWithChart(t *testing.T, old, replacement string) string {
	t.Helper()
	return watchesWithFile(t, "templates/deployment.yaml", old, replacement)
}

// watchesWithFile is watchesWithChart for another file of the chart.
func watchesWithFile(t *testing.T, changed, old, replacement string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "welcome")
	if err := os.CopyFS(dir, os.DirFS(kit.File("helm-charts/welcome"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		changed:      {old, replacement},
		"Chart.yaml": {"\nversion: ", "\nversion: 9"},
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

// upgraded lists those of the Welcomes whose Deployment is from the new chart.
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

// A new version of the chart goes to a few Welcomes at a time, and to no more once too many of them are broken. It goes on
// by itself when they recover. Who edits a Welcome does not wait, nor who has edited one before the new version came.
func TestRolloutOfANewChart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, args: []string{"--rollout-max-concurrent=2", "--rollout-max-failures=2"}}
	first := s.ownOperator(only)
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		s.create(name)
	}
	for _, name := range names {
		s.bringUp(name)
	}
	s.create("paused")
	s.bringUp("paused")
	s.edit("paused", kit.Pause(true), kit.Greet("edited"))
	s.awaitCondition("paused", "Paused", "True")
	first.Stop()

	only.watches = watchesWithChart(t, "revisionHistoryLimit: 3", "revisionHistoryLimit: 7")
	operator := s.ownOperator(only)
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
	if told := operator.metric(t, "welcome_operator_rollout_stopped", `kind="Welcome"`); told != 1 {
		t.Errorf("the metric is %v", told)
	}
	t.Log("its objects are looked after all the same")
	s.deleteService(waiting)
	s.awaitExists(&corev1.Service{}, waiting)
	exactly(4)

	s.edit(waiting, kit.Greet("now"))
	s.awaitGreeting(waiting, "now")
	s.bringUp(waiting)
	exactly(5)
	s.edit("paused", kit.Pause(false))
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
		s.bringUp(name)
	}
}

// What was broken before a new version of the chart came does not stop it for others, and goes last. What the
// version breaks stops it, and no longer once it is gone, whatever became of its finalizer.
func TestRolloutIsStoppedByWhatItBroke(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, args: []string{"--rollout-max-concurrent=1", "--rollout-max-failures=2"}}
	first := s.ownOperator(only)
	stalled, ready := []string{"a", "b", "c"}, []string{"d", "e", "f", "g", "h", "i"}
	for _, name := range append(stalled, ready...) {
		s.create(name)
	}
	for _, name := range ready {
		s.bringUp(name)
	}
	for _, name := range stalled {
		s.awaitExists(&appsv1.Deployment{}, name)
		s.breaks(name)
		s.awaitCondition(name, "Stalled", "True")
	}
	first.Stop()

	only.watches = watchesWithChart(t, "revisionHistoryLimit: 3", "revisionHistoryLimit: 7")
	s.ownOperator(only)
	await := func(count int, of []string) []string {
		t.Helper()
		s.await(fmt.Sprintf("%d of %v are upgraded", count, of), func() error { return atLeast(len(s.upgraded(of)), count) })
		return s.upgraded(of)
	}
	var broken []string
	waiting := slices.Clone(ready)
	for range 2 {
		name := await(1, waiting)[0]
		s.breaks(name)
		broken = append(broken, name)
		waiting = slices.DeleteFunc(waiting, func(one string) bool { return one == name })
	}
	s.awaitCondition(waiting[0], "Ready", "True", "the rollout of the new version has stopped")

	t.Log("somebody forces one off: another one goes, and no more, for one is still broken")
	s.forceOff(broken[0])
	third := await(1, waiting)
	s.must(s.runs(third[0], 1))
	await(2, waiting)
	if done := s.upgraded(stalled); len(done) > 0 {
		t.Errorf("%v went before those that were ready", done)
	}

	t.Log("the others recover: those that were not ready go last, and nobody waits for them")
	s.await("all others are upgraded", func() error {
		for _, name := range s.upgraded(waiting) {
			s.must(s.runs(name, 1))
		}
		return atLeast(len(s.upgraded(waiting)), len(waiting))
	})
	for _, name := range waiting {
		s.bringUp(name)
	}
	await(3, stalled)
}

// forceOff removes the finalizer of a Welcome and deletes it before the operator, which puts the finalizer
// back at once, can do so. The operator learns of the deletion only when it is done.
func (s *scene) forceOff(name string) {
	s.Helper()
	s.await(name+" is gone without its finalizer", func() error {
		welcome := s.welcome(name)
		welcome.SetFinalizers(nil)
		if err := env.Client.Update(ctx, welcome); err != nil {
			return err
		}
		version := welcome.GetResourceVersion()
		return env.Client.Delete(ctx, welcome, client.Preconditions{ResourceVersion: &version})
	})
}

// A chart that cannot be rendered changes nothing: no object, no release record.
func TestChartCannotBeRendered(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	s.settled(first)
	first.Stop()
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

	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.bringUp("hello")
}

// A chart with a mistake says where it is, and is all right when a mended one comes.
func TestChartWithAMistake(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, watches: watchesWithChart(t, "apiVersion: apps/v1", "apiVersion: {{ .Values.none.none }}")}
	broken := s.ownOperator(only)
	s.create("hello")
	s.awaitReason("hello", "ChartError", "templates/deployment.yaml", "Correct the spec or", "the chart")
	s.awaitCondition("hello", "Stalled", "True", "templates/deployment.yaml")
	broken.Stop()

	only.watches = ""
	s.ownOperator(only)
	s.bringUp("hello")
	s.awaitCondition("hello", "Stalled", "False")
}

// The newest chart no longer has an object that the record of the release has. It goes; and so does everything when the
// Welcome is deleted, whatever of it somebody has deleted before.
func TestDeleteAfterAChangeOfTheChart(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	cr := s.deploy("hello", kit.Set("networkPolicy.enabled", true))
	s.settled(first)
	first.Stop()
	s.must(env.Client.Delete(ctx, cr))
	s.deleteService("hello")

	only.watches = watchesWithChart(t, "apiVersion: apps/v1", "apiVersion: example.com/v1")
	s.ownOperator(only)
	s.awaitGone(cr, "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.awaitGone(kit.Object("networking.k8s.io/v1", "NetworkPolicy"), "hello")
	s.must(s.hasRecords("hello", 0))
}

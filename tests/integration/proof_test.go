package integration

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// annotations of a release record, the first of which only older versions have written
const (
	childrenOfRecord = kit.Group + "/children"
	inputsOfRecord   = kit.Group + "/inputs"
)

// childrenInStatus is what the status of the Welcome hello says of the objects of its release.
func (s *scene) childrenInStatus() string {
	s.Helper()
	children, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "release", "children")
	return children
}

// forgeAnnotation changes one annotation of the newest release record of the Welcome hello.
func (s *scene) forgeAnnotation(key, value string) {
	s.Helper()
	s.forge("hello", func(record *corev1.ConfigMap, _ *release.Release) { record.Annotations[key] = value })
}

// proofs are the values in the status of a custom resource that prove its release record.
func (s *scene) proofs(name string) (digest, record string) {
	s.Helper()
	welcome := s.welcome(name)
	digest, _, _ = unstructured.NestedString(welcome.Object, "status", "release", "digest")
	record, _, _ = unstructured.NestedString(welcome.Object, "status", "release", "record")
	return digest, record
}

// touch makes the operator reconcile a Welcome.
func (s *scene) touch(name string) {
	s.Helper()
	s.edit(name, kit.Label("example.com/touched", s.welcome(name).GetResourceVersion()))
}

// deleteChildren deletes the children of the Welcome hello.
func (s *scene) deleteChildren() {
	s.Helper()
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.deleteService("hello")
}

// A record that denies its objects has them repaired all the same, by an operator that knows better and by
// one that has just started.
func TestForgedChildrenHideNoDrift(t *testing.T) {
	for name, forged := range map[string]string{"no children": "[]", "rubbish": "{", "other children": `[{"apiVersion": "v1", "kind": "Service", "name": "other", "fingerprint": "0"}]`} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}}
			operator := s.ownOperator(only)
			s.deploy("hello")
			s.settled(operator)
			s.forgeAnnotation(childrenOfRecord, forged)
			s.deleteChildren()
			s.awaitExists(&appsv1.Deployment{}, "hello")
			s.awaitExists(&corev1.Service{}, "hello")
			s.settled(operator)

			operator.Stop()
			s.forgeAnnotation(childrenOfRecord, forged)
			s.deleteChildren()
			s.ownOperator(only)
			s.awaitExists(&appsv1.Deployment{}, "hello")
			s.awaitExists(&corev1.Service{}, "hello")
		})
	}
}

// What somebody writes into a record that the operator would not write goes, or the release would be looked
// at, whole, at each reconcile.
func TestForgedAnnotationsGo(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello")
	s.bringUp("hello")
	s.settled(operator)
	for _, key := range []string{"lookups", "capabilities", "unmade"} {
		s.forgeAnnotation(kit.Group+"/"+key, "true")
	}
	s.await("the record is as it was", func() error {
		s.seen(operator) // which may come before the record
		for _, key := range []string{"lookups", "capabilities", "unmade"} {
			if got := s.records("hello")[0].Annotations[kit.Group+"/"+key]; got != "" {
				return fmt.Errorf("%s is %q", key, got)
			}
		}
		return nil
	})
	s.settled(operator)
	since := s.record()
	s.seen(operator)
	s.costsAtMost(0, "a reconcile with nothing to do", since.of(operator))
}

// A record that claims to be made from what the custom resource now wants keeps no edit from it.
func TestForgedInputsHoldUpNoEdit(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	s.deploy("hello", kit.Greet("after"))
	inputs := s.records("hello")[0].Annotations[inputsOfRecord]
	s.edit("hello", kit.Greet("before"))
	s.awaitGreeting("hello", "before")
	s.awaitDeployed("hello")
	s.settled(operator)
	operator.Stop()
	s.edit("hello", kit.Greet("after"))
	s.forgeAnnotation(inputsOfRecord, inputs)
	s.ownOperator(only)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// Kinds are watched, listed and read because the chart renders them, and not because a record says so.
func TestForgedChildOfAnotherKindIsNotWatched(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	s.deploy("hello")
	s.settled(operator)
	for _, restart := range []bool{false, true} {
		from := s.record()
		forged := `[{"apiVersion": "v1", "kind": "Pod", "name": "hello"}, {"apiVersion": "v1", "kind": "Secret", "name": "hello"}]`
		if restart {
			operator.Stop()
		}
		s.forgeAnnotation(childrenOfRecord, forged)
		if restart {
			operator = s.ownOperator(only)
		}
		reconciles := operator.reconciles(t)
		s.touch("hello")
		s.await("it is looked at", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
		s.settled(operator)
		for _, request := range from.of(operator) {
			// The pods of an unhealthy release are listed.
			if kind := request.ObjectRef.Resource; kind == "pods" && request.Verb != "list" || kind == "secrets" {
				t.Errorf("the operator asked for what a record names: %s", request)
			}
		}
	}
}

// What the operator itself has put into a record is proven after a restart: also what a repair has written there.
func TestRestartAfterARepairAsksNothing(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	s.deploy("hello")
	s.bringUp("hello")
	s.settled(operator)
	before := s.childrenInStatus()
	s.changeService(func(service *corev1.Service) { service.Annotations = map[string]string{"example.com/mine": "stays"} })
	s.deleteChildren()
	s.await("the repair is noted", func() error {
		if now := s.childrenInStatus(); now == before {
			return errors.New(now)
		}
		return nil
	})
	s.bringUp("hello")
	s.settled(operator)
	operator.Stop()

	from := s.record()
	operator = s.ownOperator(only)
	s.await("it is reconciled", func() error { return atLeast(operator.reconciles(t), 1) })
	s.settled(operator)
	for _, request := range from.of(operator) {
		if request.ObjectRef.Name == "hello" || request.Writes() {
			t.Errorf("a restart asks: %s", request)
		}
	}
}

// What version 0.1.0 has written is proven anew, once, without a change of any object; so is what an operator
// that was killed before it could write the status left behind.
func TestRecordsAreProvenAnew(t *testing.T) {
	for name, forget := range map[string]func(status map[string]any, digest string){
		"of version 0.1.0": func(status map[string]any, digest string) {
			status["digest"] = digest[:32]
			delete(status, "record")
			delete(status, "inputs")
		},
		"without a digest": func(status map[string]any, _ string) {
			delete(status, "digest")
			delete(status, "record")
			delete(status, "inputs")
		},
		"without a digest, and with inputs": func(status map[string]any, _ string) { delete(status, "digest"); delete(status, "record") },
		"of an earlier revision": func(status map[string]any, digest string) {
			status["digest"], status["record"], status["revision"], status["inputs"] = digest[32:]+digest[:32], digest, int64(1), "other//"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			only := settings{namespaces: []string{s.namespace}}
			operator := s.ownOperator(only)
			s.deploy("hello", kit.Greet("before"))
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.settled(operator)
			digest, record := s.proofs("hello")
			if len(digest) != 64 || len(record) != 64 {
				t.Fatalf("no full SHA-256: %q, %q", digest, record)
			}
			children := []client.Object{&appsv1.Deployment{}, &corev1.Service{}}
			versions := make([]string, len(children))
			for i, child := range children {
				s.get(child, "hello")
				versions[i] = child.GetResourceVersion()
			}
			operator.Stop()
			welcome := s.welcome("hello")
			forget(welcome.Object["status"].(map[string]any)["release"].(map[string]any), digest)
			s.must(env.Client.Status().Update(ctx, welcome))

			from := s.record()
			operator = s.ownOperator(only)
			s.await("the record is proven anew", func() error {
				if now, its := s.proofs("hello"); now != digest || len(its) != 64 {
					return fmt.Errorf("%q, %q", now, its)
				}
				return nil
			})
			s.settled(operator)
			t.Logf("to prove a record costs %s", from.of(operator))
			for i, child := range children {
				s.get(child, "hello")
				if now := child.GetResourceVersion(); now != versions[i] {
					t.Errorf("%T was changed", child)
				}
			}
			s.must(s.hasRecords("hello", 2))
		})
	}
}

// A new chart reaches the Welcomes of version 0.1.0 a few at a time. Those that wait are ready meanwhile,
// though nothing proves their records, and no pod is touched.
func TestRolloutOverVersion010(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}, args: []string{"--rollout-max-concurrent=1"}}
	operator := s.ownOperator(only)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.create(name)
	}
	for _, name := range names {
		s.bringUp(name)
	}
	s.settled(operator)
	operator.Stop()
	templates := map[string]corev1.PodTemplateSpec{}
	for _, name := range names {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		templates[name] = deployment.Spec.Template
		digest, _ := s.proofs(name)
		welcome := s.welcome(name)
		of := welcome.Object["status"].(map[string]any)["release"].(map[string]any)
		of["digest"] = digest[:32]
		delete(of, "record")
		s.must(env.Client.Status().Update(ctx, welcome))
	}

	only.watches = watchesWithChart(t, "revisionHistoryLimit: 3", "revisionHistoryLimit: 7")
	operator = s.ownOperator(only)
	s.await("one is upgraded", func() error { return atLeast(len(s.upgraded(names)), 1) })
	s.await("the others wait, ready", func() error {
		waiting := 0
		for _, name := range names {
			if ready, err := kit.Condition(s.welcome(name), "Ready"); err == nil && ready.Status == "True" && says(ready.Message, []string{"waiting for the rollout"}) == nil {
				waiting++
			}
		}
		return atLeast(waiting, 3)
	})
	if got := s.plugin("status"); !strings.Contains(got.out, "wait for their turn in a rollout") || !strings.Contains(got.out, "waiting for the rollout of the new version to others") {
		t.Errorf("the table says:\n%s", got.out)
	}
	s.settled(operator)
	if done := s.upgraded(names); len(done) != 1 {
		t.Errorf("%v were upgraded at once", done)
	}
	s.await("all are upgraded and proven", func() error {
		done := s.upgraded(names)
		for _, name := range done {
			s.must(s.runs(name, 1))
		}
		proven := 0
		for _, name := range names {
			if digest, record := s.proofs(name); len(digest) == 64 && len(record) == 64 {
				proven++
			}
		}
		return errors.Join(atLeast(len(done), len(names)), atLeast(proven, len(names)))
	})
	for _, name := range names {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if !equality.Semantic.DeepEqual(deployment.Spec.Template, templates[name]) {
			t.Errorf("the pods of %s were changed", name)
		}
	}
}

// After the highest number there is no revision: a record that is forged with it would stop all upgrades.
func TestForgedRevisionStopsNothing(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello")
	real := s.records("hello")[0]
	for _, revision := range []int{math.MaxInt, math.MaxInt32, 2_000_000} {
		forged := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: fmt.Sprintf("sh.helm.release.v1.hello.v%d", revision), Labels: maps.Clone(real.Labels),
				Annotations: real.Annotations, OwnerReferences: real.OwnerReferences,
			},
			Data: real.Data,
		}
		forged.Labels["version"] = strconv.Itoa(revision)
		s.must(env.Client.Create(ctx, forged))
	}
	s.edit("hello", kit.Greet("somebody else"))
	s.await("the edit is applied as the second revision, and the forged ones are gone", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
}

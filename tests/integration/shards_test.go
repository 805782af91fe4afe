package integration

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// shardLabel is the label by which config/shards divides custom resources.
const shardLabel = kit.Group + "/shard"

func ofShard(name string) kit.Edit { return kit.Label(shardLabel, name) }

// shards are the operators of config/shards, with their arguments and watches, except for the namespaces of
// the lease and of the custom resources.
func (s *scene) shards() map[string]installation {
	s.Helper()
	built, err := s.kubectl("", "kustomize", kit.File("config/shards"))
	s.must(err)
	watches, deployments := map[string]string{}, map[string]appsv1.Deployment{}
	for text := range strings.SplitSeq(built, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Labels map[string]string }
		}
		s.must(yaml.Unmarshal([]byte(text), &object))
		switch shard := object.Metadata.Labels[shardLabel]; object.Kind {
		case "ConfigMap":
			config := corev1.ConfigMap{}
			s.must(yaml.UnmarshalStrict([]byte(text), &config))
			watches[shard] = config.Data["watches.yaml"]
		case "Deployment":
			deployment := appsv1.Deployment{}
			s.must(yaml.UnmarshalStrict([]byte(text), &deployment))
			deployments[shard] = deployment
		}
	}
	want := entriesButSelectors(s, s.read("watches.yaml"))
	for shard, text := range watches {
		if got := entriesButSelectors(s, text); !reflect.DeepEqual(got, want) {
			s.Errorf("config/shards/%s/watches.yaml has, but for the selector, %v, and watches.yaml %v", shard, got, want)
		}
	}
	base := s.installation("shards")
	shards := map[string]installation{}
	for shard, deployment := range deployments {
		one := installation{base.settings, base.name + "-" + shard}
		args := deployment.Spec.Template.Spec.Containers[0].Args
		one.args = append(slices.Clone(base.args), slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "--watches-file=") })...)
		if one.watches = watches[shard]; !slices.Contains(args, "--shard="+shard) || one.watches == "" {
			s.Fatalf("shard %q of config/shards has the arguments %q and the watches %q", shard, args, one.watches)
		}
		shards[shard] = one
	}
	if len(shards) != 2 {
		s.Fatalf("config/shards has the shards %v", shards)
	}
	return shards
}

func entriesButSelectors(s *scene, text string) (entries []map[string]any) {
	s.Helper()
	s.must(yaml.Unmarshal([]byte(text), &entries))
	for _, entry := range entries {
		delete(entry, "selector")
	}
	return entries
}

func (s *scene) read(file string) string {
	s.Helper()
	text, err := os.ReadFile(kit.File(file))
	s.must(err)
	return string(text)
}

// servedBy waits until an installation has claimed a Welcome, and its status is about the current spec.
func (s *scene) servedBy(by installation, name string) {
	s.Helper()
	s.afterTakeover(name+" is served by "+by.name, func() error {
		return errors.Join(s.claimed(by, name), kit.Seen(s.welcome(name)))
	})
}

// childrenWrites are the writes since then, except those to Welcomes.
func (s *scene) childrenWrites(since recording, operators ...*process) controlplane.Requests {
	s.Helper()
	var written controlplane.Requests
	for _, operator := range operators {
		for _, request := range since.of(operator) {
			if request.Writes() && request.ObjectRef.Resource != "welcomes" {
				written = append(written, request)
			}
		}
	}
	return written
}

// Two operators serve one kind, each its part. A Welcome whose label moves goes from one to the other as it is.
func TestShards(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shards := s.shards()
	a, b := s.ownOperator(shards["a"].settings), s.ownOperator(shards["b"].settings)
	s.create("unlabelled")
	s.create("moves", ofShard("a"))
	s.create("of-b", ofShard("b"))
	for name, shard := range map[string]string{"unlabelled": "a", "moves": "a", "of-b": "b"} {
		s.awaitDeployed(name)
		s.servedBy(shards[shard], name)
	}
	s.settled(a)
	s.settled(b)
	if labels := `shard="b"`; b.metric(t, "welcome_operator_resources", labels) == 0 || a.metric(t, "welcome_operator_namespace_resources", `namespace="`+s.namespace+`",shard="a"`) != 2 {
		t.Errorf("they don't count their parts")
	}

	// There and back, and nobody writes to what it has.
	deployment := &appsv1.Deployment{}
	s.get(deployment, "moves")
	quiet := s.record()
	slowest := time.Duration(0)
	for _, shard := range []string{"b", "a", "b"} {
		start := time.Now()
		s.edit("moves", ofShard(shard))
		s.servedBy(shards[shard], "moves")
		slowest = max(slowest, time.Since(start))
	}
	s.settled(a)
	s.settled(b)
	if written := s.childrenWrites(quiet, a, b); len(written) > 0 {
		t.Errorf("a handover wrote: %s", written)
	}
	s.unharmed(deployment)
	s.must(s.hasRecords("moves", 1))
	const headStart = 3 * time.Second // one that does not let go for so long is in the way
	if told := a.leftToOthers(t)+b.leftToOthers(t) > 0 || strings.Contains(a.Text()+b.Text(), "Standing back"); told && slowest < headStart {
		t.Error("one shard is in the way of the other")
	}

	// Drift and edits are the new one's, though both see what happens to the children.
	since := s.record()
	s.deleteService("moves")
	s.awaitExists(&corev1.Service{}, "moves")
	s.edit("moves", kit.Greet("b"))
	s.awaitGreeting("moves", "b")
	s.awaitDeployed("moves")
	s.settled(a)
	if written := since.of(a); slices.ContainsFunc(written, controlplane.Request.Writes) {
		t.Errorf("the old shard wrote: %s", written)
	}

	// With an edit and a drift in the same moment.
	s.deleteService("moves")
	s.edit("moves", ofShard("a"), kit.Greet("a"))
	s.servedBy(shards["a"], "moves")
	s.awaitGreeting("moves", "a")
	s.awaitExists(&corev1.Service{}, "moves")

	// Deleted in the moment in which it moves: the new one removes it.
	s.edit("moves", ofShard("b"))
	s.must(env.Client.Delete(ctx, s.welcome("moves")))
	s.afterTakeover("it is gone", func() error {
		return errors.Join(s.isGone(kit.Welcome(s.namespace, "moves"), "moves"), s.isGone(&appsv1.Deployment{}, "moves"), s.hasRecords("moves", 0))
	})
}

// What was handed to nobody is told, and waits. A deletion does, too.
func TestUnservedWelcomes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shards := s.shards()
	one := shards["b"] // which has a label of its own
	b := s.ownOperator(one.settings)
	unserved := func(reason string, count float64) {
		s.Helper()
		s.await(fmt.Sprintf("%v are %s", count, reason), func() error {
			if got := b.metric(t, "welcome_operator_unserved", fmt.Sprintf("reason=%q", reason)); got != count {
				return fmt.Errorf("%v are", got)
			}
			return nil
		})
	}
	s.deploy("hello", ofShard("b"))
	unserved("unclaimed", 0)
	s.edit("hello", ofShard("nobody"))
	unserved("unclaimed", 1)
	if operator := s.welcome("hello").Object["status"].(map[string]any)["operator"]; operator != "" {
		t.Errorf("it is claimed by %q", operator)
	}
	s.deleteService("hello")
	s.must(env.Client.Delete(ctx, s.welcome("hello")))
	unserved("deleted", 1)
	s.settled(b)
	s.get(&appsv1.Deployment{}, "hello")
	s.edit("hello", ofShard("b"))
	s.awaitGone(kit.Welcome(s.namespace, "hello"), "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
	unserved("deleted", 0)
}

// The old shard freezes, or dies, before it has let go: the new one waits, and then takes over.
func TestShardThatDoesNotLetGo(t *testing.T) {
	for name, end := range map[string]func(s *scene, old *process){
		"frozen": func(s *scene, old *process) { s.must(old.Freeze()) },
		"killed": func(_ *scene, old *process) { old.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			shards := s.shards()
			a := s.ownOperator(shards["a"].settings)
			s.ownOperator(shards["b"].settings)
			s.deploy("hello", ofShard("a"), kit.Greet("before"))
			s.settled(a)
			end(s, a)
			s.edit("hello", ofShard("b"), kit.Greet("after"))
			took := s.afterTakeover("the new shard serves it", func() error { return errors.Join(s.claimed(shards["b"], "hello"), s.greets("hello", "after")) })
			t.Logf("the new shard had taken over after %s", took)
			s.awaitDeployed("hello")
			if name == "frozen" {
				s.wakesUpTooLate(a)
			}
			s.ownOperator(shards["a"].settings)
			s.edit("hello", kit.Greet("still b"))
			s.awaitGreeting("hello", "still b")
			s.must(s.claimed(shards["b"], "hello"))
		})
	}
}

// An action that is under way when the label moves is brought to its end by the old shard, however long it
// takes. The new one waits for that.
func TestShardLetsGoWhenItIsDone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shards := s.shards()
	a, b := s.ownOperator(shards["a"].settings), s.ownOperator(shards["b"].settings)
	s.deploy("hello", ofShard("a"), kit.Greet("before"))
	s.settled(a)
	asked, letGo := s.holdDeployments()
	s.pause()
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.edit("hello", kit.Pause(false), kit.Greet("by a"))
	asked() // a makes the Deployment again
	since := s.record()
	s.edit("hello", ofShard("b"))
	s.await("b asks whether a lives", func() error { return atLeast(len(since.of(b).Statuses()), 1) })
	s.must(s.claimed(shards["a"], "hello"))
	letGo()
	s.servedBy(shards["b"], "hello")
	s.awaitGreeting("hello", "by a")
}

// So it does with an installation, whatever chance and hooks have a part in it: the next shard finds nothing
// that it would do once more.
func TestShardLetsGoWhenItIsInstalled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.grantJobs()
	chart := chartIn(watchesWithMore(t, withPassword+`
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}
  annotations: {helm.sh/hook: post-install}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: once, image: example.com/once:1}]`))
	shards, operators := s.shards(), map[string]*process{}
	for name, shard := range shards {
		shard.watches = strings.Replace(shard.watches, "helm-charts/welcome", chart, 1)
		operators[name] = s.ownOperator(shard.settings)
	}
	s.create("hello", ofShard("a"))
	job := &batchv1.Job{} // nobody runs it here
	s.awaitExists(job, "hello")
	password, since := s.generated("password"), s.record()
	s.edit("hello", ofShard("b"))
	s.settled(operators["b"])
	s.endHook(job)
	s.servedBy(shards["b"], "hello")
	s.settled(operators["b"])
	s.isRevision(1)
	if written := s.childrenWrites(since, operators["b"]); len(written) > 0 || s.generated("password") != password {
		t.Errorf("it was done once more: %s", written)
	}
}

// A new version of a shard, whose selector is gone by mistake, is rolled out. It waits until the old one has
// ended, leaves alone what the other shard serves, and says so; what is new, one of them installs.
func TestShardsThatSelectTheSame(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shards := s.shards()
	a, b := s.ownOperator(shards["a"].settings), s.ownOperator(shards["b"].settings)
	s.deploy("of-b", ofShard("b"))
	mistaken := shards["a"]
	mistaken.watches = s.read("watches.yaml")
	next := s.ownOperator(mistaken.settings)
	if strings.Contains(next.Text(), "Starting workers") {
		t.Errorf("two replicas of a shard work\n%s", s.dump())
	}
	a.Stop()
	s.await("it leaves to the other what that serves", func() error { return next.leavesToOthers(t, 1) })
	s.awaitEvent("of-b", "StandsBack", shards["a"].name, shards["b"].name)
	var welcomes []string
	for i := range 5 {
		welcomes = append(welcomes, fmt.Sprintf("new-%d", i))
		s.create(welcomes[i], ofShard("b"))
	}
	for _, name := range welcomes {
		s.awaitDeployed(name)
	}
	s.settled(next)
	s.settled(b)
	for _, name := range append(welcomes, "of-b") {
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		if err := s.hasRecords(name, 1); err != nil || deployment.Generation != 1 {
			t.Errorf("%s: the Deployment has generation %d, and %v", name, deployment.Generation, err)
		}
	}
	s.must(s.claimed(shards["b"], "of-b"))
}

package integration

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// watchesWithMore is watches.yaml with a chart that has an additional manifest.
func watchesWithMore(t *testing.T, manifest string) string {
	t.Helper()
	const before = "apiVersion: apps/v1"
	return watchesWithChart(t, before, manifest+"\n---\n"+before)
}

// Hooks that never end hold up the custom resources whose they are, and no other, although there are more of them than
// workers; nor do they keep the operator from stopping within the grace period of its pod.
func TestEndlessHooks(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
{{- if eq .Values.name "endless" }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: endless, image: example.com/endless:1}]
{{- end }}`)})
	held := []string{"held-1", "held-2", "held-3", "held-4", "held-5", "held-6", "held-7", "held-8"}
	for _, name := range held {
		cr := s.create(name, kit.Greet("endless"))
		job := &batchv1.Job{} // nobody runs it here
		s.awaitExists(job, name)
		if !metav1.IsControlledBy(job, cr) {
			t.Errorf("the Job is owned by %v", job.OwnerReferences)
		}
	}
	s.create("too-many", kit.Greet("endless")) // for one namespace: others have hooks, too
	s.awaitCondition("too-many", "Ready", "False", "not begun: at most 8 custom resources in a namespace")
	s.must(s.hasRecords("too-many", 0))
	ends := &batchv1.Job{}
	s.get(ends, held[7])
	s.endHook(ends)
	s.awaitExists(ends, "too-many")
	s.endHook(ends)
	held = held[:7]
	// Somebody else's Job has the name of a hook: nobody waits for its end.
	s.must(env.Client.Create(ctx, &batchv1.Job{ObjectMeta: objectMeta(s.namespace, "foreign"), Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}}))
	s.create("foreign", kit.Greet("endless"))
	s.awaitCondition("foreign", "Ready", "False", `Job "foreign"`, "exists and is not controlled by this custom resource")
	for _, name := range []string{"one", "two", "three"} {
		s.deploy(name)
	}
	for _, name := range held {
		if err := s.find(&appsv1.Deployment{}, name); !apierrors.IsNotFound(err) {
			t.Errorf("nobody waited for the hook of %s: %v", name, err)
		}
	}
	start := time.Now()
	operator.Stop() // kills it after 30 seconds
	if took := time.Since(start); took >= 30*time.Second {
		t.Errorf("it had to be killed\n%s", s.dump())
	}
}

// expiringJob is a Job that Kubernetes deletes when it is done.
const expiringJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}}
spec:
  ttlSecondsAfterFinished: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: once, image: "example.com/once:{{ .Values.replicas }}"}]`

// manyMore are more objects than the status of a release can list.
const manyMore = `
{{- range $i := until 300 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $.Release.Name }}-{{ $i }}}
{{- end }}`

// expire completes the Job of the Welcome hello, deletes it as Kubernetes does, and waits until the operator
// knows.
func (s *scene) expire(operator *process) *batchv1.Job {
	s.Helper()
	job := &batchv1.Job{}
	s.get(job, "hello")
	s.endHook(job)
	s.settled(operator)
	s.must(env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.await("it is known to have expired", func() error {
		expiring, _, _ := unstructured.NestedString(s.welcome("hello").Object, "status", "release", "expiring")
		return says(expiring, []string{`"expired":true`})
	})
	return job
}

// A Job that has run does not run again when the operator is started again, also where the release has more
// objects than its status can tell of.
func TestJobThatExpiresAmongMany(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	own := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, expiringJob+manyMore)}
	operator := s.ownOperator(own)
	s.deploy("hello")
	job := s.expire(operator)
	operator.Kill()
	s.must(env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))
	operator = s.ownOperator(own)
	s.awaitExists(&corev1.Service{}, "hello")
	s.settled(operator)
	s.must(s.isGone(job, "hello"))
}

// Of a release with more objects than its status can tell of, an operator that was started again tells what
// is broken, and repairs what it is to repair, as soon as of others. A Job that has run does not run again.
func TestManyObjectsAfterAStart(t *testing.T) {
	for _, mode := range []string{"enabled", "warn", "disabled"} {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			s.grantJobs()
			own := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, expiringJob+manyMore) + "  driftDetection: {mode: " + mode + "}\n"}
			operator := s.ownOperator(own)
			s.deploy("hello")
			job := s.expire(operator)
			s.bringUp("hello")
			operator.Kill()
			s.breaks("hello")
			service := &corev1.Service{}
			s.as("other", service, func() { service.Spec.Ports[0].Port = 9999 })
			operator = s.ownOperator(own)
			s.awaitReason("hello", "ProgressDeadlineExceeded")
			s.settled(operator)
			_, err := kit.Condition(s.welcome("hello"), "Drifted")
			if told := err == nil; told != (mode == "warn") {
				t.Errorf("that it has drifted: %t", told)
			}
			if mode == "enabled" {
				one := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-7")}
				s.must(env.Client.Delete(ctx, one))
				s.awaitExists(one, "hello-7")
			}
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.must(s.isGone(job, "hello"))
		})
	}
}

// Nor does such a release cost anything while nothing happens, but for a look at its objects after a start.
func TestManyObjectsCostNothing(t *testing.T) {
	s := newScene(t)
	own := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, manyMore)}
	operator := s.ownOperator(own)
	s.deploy("hello")
	for range 2 {
		s.await("it has looked at the objects", func() error { return atLeast(operator.reconciles(t), 1) })
		s.settled(operator)
		before := s.record()
		s.seen(operator)
		if requests := before.of(operator); len(requests) > 0 {
			t.Errorf("an idle reconcile asks the API server: %s", requests)
		}
		operator.Stop()
		operator = s.ownOperator(own)
	}
}

// A Job that has failed has not been run when Kubernetes has deleted it: that is said until somebody has it made again.
func TestJobThatFailsAndExpires(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, expiringJob)})
	s.deploy("hello")
	job := &batchv1.Job{}
	s.get(job, "hello")
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitReason("hello", "JobFailed", "failed: 0/1")
	s.await("it is known to have failed", func() error { return says(s.childrenInStatus(), []string{`"failed":true`}) })
	s.must(env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.awaitReason("hello", "JobFailed", "has deleted it since", "kubectl welcome reconcile --force welcome/hello -n "+s.namespace)
	s.settled(operator)
	if err := s.find(job, "hello"); !apierrors.IsNotFound(err) {
		t.Errorf("it is run again: %v", err)
	}
	s.edit("hello", kit.Annotate("webapp.demo.welcome.domain/reconcile", "force-1"))
	s.awaitExists(job, "hello")
	s.endHook(job)
	s.bringUp("hello")
	s.awaitEvent("hello", "Reconciled", `Job "hello" in namespace "`+s.namespace+`" is run again`)
	if told := s.putBack("Job"); len(told) > 0 {
		t.Errorf("somebody else is said to have deleted it: %s", told)
	}
}

// A Job that Kubernetes deletes some time after it is done has been run, whatever happens to the operator and
// to other objects, until the chart wants another one.
func TestJobThatExpires(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	own := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, expiringJob)}
	operator := s.publisher(own)
	own.namespaces, own.args = []string{s.namespace}, publishing
	s.deploy("hello", kit.Greet("before"))
	job := &batchv1.Job{}
	s.get(job, "hello")
	s.endHook(job)
	s.bringUp("hello")
	s.settled(operator)
	// Nobody deletes it here when it is done.
	s.must(env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.await("it is known to have expired", func() error { return says(s.childrenInStatus(), []string{`"expired":true`}) })
	s.awaitCondition("hello", "Ready", "True")
	s.settled(operator)
	before := s.record()
	s.seen(operator)
	if requests := before.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}
	s.must(env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.awaitExists(&corev1.Service{}, "hello")
	operator.Kill()
	s.must(env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}))
	operator = s.ownOperator(own)
	s.awaitExists(&corev1.Service{}, "hello")
	if got := s.plugin("diff", "--set", "name=after"); got.code != 1 || strings.Contains(got.out, "kind: Job") {
		t.Errorf("a diff says that it would be run again, or fails: %d\n%s%s", got.code, got.out, got.notes)
	}
	lift := s.refuse(admissionregistrationv1.Update, "apps", "deployments", "Deployments stay", func() error {
		deployment := &appsv1.Deployment{}
		s.get(deployment, "hello")
		deployment.Labels["example.com/probe"] = "yes"
		return env.Client.Update(ctx, deployment, client.DryRunAll)
	})
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "Deployments stay")
	s.await("it is tried again", func() error { return atLeast(len(s.records("hello")), 2) })
	reconciles := operator.reconciles(t)
	s.await("and again", func() error { return atLeast(operator.reconciles(t)-reconciles, 3) })
	lift()
	s.awaitGreeting("hello", "after")
	s.bringUp("hello")
	s.awaitCondition("hello", "Ready", "True")
	s.settled(operator)
	for _, request := range before.of(operator) {
		if request.Verb == "create" && request.ObjectRef.Resource == "jobs" {
			t.Errorf("it was run again: %s", request)
		}
	}
	s.edit("hello", kit.Set("replicas", 2))
	s.awaitExists(job, "hello")
	if image := job.Spec.Template.Spec.Containers[0].Image; image != "example.com/once:2" {
		t.Errorf("it is run with %s", image)
	}
}

// What a chart wraps in a List is looked after like everything else, and costs nothing when there is nothing to do.
func TestListInAChart(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: List
items:
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: {{ .Release.Name }}-listed}
  spec: {podSelector: {matchLabels: {welcome: {{ .Release.Name }}}}}
`)})
	cr := s.deploy("hello")
	s.settled(operator)
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "hello-listed")
	if !metav1.IsControlledBy(policy, cr) {
		t.Errorf("the NetworkPolicy is owned by %v", policy.OwnerReferences)
	}

	before, reconciles := s.record(), operator.reconciles(t)
	s.edit("hello", kit.Annotate("example.com/poke", "now"))
	s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
	s.settled(operator)
	if requests := before.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server, or adds a watch: %s", requests)
	}

	s.must(env.Client.Delete(ctx, policy))
	s.await("it is there again", func() error {
		again := &networkingv1.NetworkPolicy{}
		if err := s.find(again, "hello-listed"); err != nil {
			return err
		}
		return atLeast(len(again.OwnerReferences), 1)
	})
}

// A list says of what kind its items are that do not, and what is dropped of it goes; one without any has
// nothing. kubectl get -o yaml shows what the API server keeps in an object, and a chart may say it after
// that.
func TestListsInAChart(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMapList
items:
{{- range until (len .Values.name) }}
- metadata: {name: "{{ $.Release.Name }}-{{ . }}", resourceVersion: "1", uid: a, generation: 1, deletionGracePeriodSeconds: 1, deletionTimestamp: "2026-01-01T00:00:00Z"}
  data: {greets: {{ quote $.Values.name }}}
{{- end }}`)})
	s.deploy("hello", kit.Greet("ab"))
	for _, c := range []struct {
		name string
		want int
	}{{"abc", 3}, {"a", 1}, {"", 0}, {"xy", 2}} {
		s.edit("hello", kit.Greet(c.name))
		s.awaitDeployed("hello")
		for i := range 3 {
			listed := &corev1.ConfigMap{}
			switch err := s.find(listed, fmt.Sprintf("hello-%d", i)); {
			case i >= c.want && !apierrors.IsNotFound(err):
				t.Errorf("of %q, item %d is there: %v", c.name, i, err)
			case i < c.want && (err != nil || listed.Data["greets"] != c.name):
				t.Errorf("of %q, item %d has %v: %v", c.name, i, listed.Data, err)
			}
		}
	}
	if strings.Contains(operator.Text(), "Left alone what a release record names") {
		t.Error("the operator does not know its own objects")
	}
}

// What a List says of hooks and policies, it says of its items: hooks run at each upgrade, delete nothing of
// the release after a failed one, and what is kept stays.
func TestListOfHooks(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: List
metadata: {annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}}
{{- if eq .Values.name "nothing" }}
items: []
{{- else }}
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: {{ .Release.Name }}-migration}
  data: {{ dict .Values.name "migrated" | toJson }}
{{- end }}
---
apiVersion: v1
kind: List
metadata: {annotations: {helm.sh/resource-policy: keep}}
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}-kept}}
`)})
	migrated := func(to string) (uid types.UID) {
		t.Helper()
		hook := &corev1.ConfigMap{}
		s.await("it is migrated to "+to, func() error {
			if err := s.find(hook, "hello-migration"); err != nil {
				return err // it is being made anew
			}
			if hook.Data[to] == "" {
				return fmt.Errorf("it is to %v", hook.Data)
			}
			return nil
		})
		return hook.UID
	}
	cr := s.deploy("hello", kit.Greet("first"))
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	s.get(deployment, "hello")
	s.get(service, "hello")
	first := migrated("first")
	s.edit("hello", kit.Greet("second"))
	s.awaitDeployed("hello")
	if migrated("second") == first {
		t.Error("the hook was not made anew")
	}
	s.edit("hello", kit.Greet("no key of a ConfigMap"))
	s.awaitCondition("hello", "Ready", "False", "data[no key of a ConfigMap]")
	s.edit("hello", kit.Greet("nothing"))
	s.awaitCondition("hello", "Ready", "False", "no objects visited")
	s.edit("hello", kit.Greet("third"))
	s.awaitDeployed("hello")
	migrated("third")
	for name, before := range map[string]client.Object{"Deployment": deployment, "Service": service} {
		uid := before.GetUID()
		if s.get(before, "hello"); before.GetUID() != uid {
			t.Errorf("the %s was made anew", name)
		}
	}
	s.delete(cr)
	s.get(&corev1.ConfigMap{}, "hello-kept")
}

// What the operator has recorded itself of a large release, which failed or was superseded, is not told as somebody else's.
func TestLargeReleaseThatFails(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-large}
data: {text: {{ repeat 90000 "a" }}, {{ .Values.name | quote }}: x}`)})
	cr := s.deploy("hello", kit.Greet("before"))
	for _, name := range []string{"no key of a ConfigMap", "nor this"} {
		s.edit("hello", kit.Greet(name))
		s.awaitReason("hello", "Rejected", "data["+name+"]")
	}
	s.edit("hello", kit.Greet("after"))
	s.awaitDeployed("hello")
	s.edit("hello", kit.Greet("and once more"))
	s.awaitReason("hello", "Rejected", "data[and once more]")
	s.delete(cr)
	if strings.Contains(operator.Text(), "Left alone what a release record names") {
		t.Error("the operator does not know its own records")
	}
}

// What no release can be made of is said to be the chart's fault, and how it is mended.
func TestChartsOfWhichNothingComes(t *testing.T) {
	bulk := make([]byte, 900_000)
	_, _ = rand.Read(bulk) // which never fails
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-twice\n"
	for name, c := range map[string]struct {
		manifest, reason string
		says             []string
	}{
		"no name":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}", "ChartError", []string{"ConfigMap", "has no name", "generateName", "made-"}},
		"no name of a hook": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-, annotations: {helm.sh/hook: post-upgrade}}", "ChartError", []string{"ConfigMap", "has no name", "made-"}},
		"no kind":           {"apiVersion: v1\nkind: 1\nmetadata: {name: x}", "ChartError", []string{"welcome/templates/deployment.yaml makes an object without a kind", `"kind":1`}},
		"no kind of a hook": {"apiVersion: v1\nkind: 1\nmetadata: {name: x, annotations: {helm.sh/hook: test}}", "ChartError", []string{"welcome/templates/deployment.yaml makes an object without a kind"}},
		"braces":            {"{}", "ChartError", []string{"welcome/templates/deployment.yaml makes an object without a kind"}},
		"a text":            {"hello", "ChartError", []string{"welcome/templates/deployment.yaml makes no object, but: string"}},
		"a list of texts":   {"apiVersion: v1\nkind: List\nitems: [hello]", "ChartError", []string{"welcome/templates/deployment.yaml: ", "cannot unmarshal string"}},
		"a list in a list":  {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: x}}]}", "ChartError", []string{"ConfigMapList of the chart is in another list", "Write its items into that one"}},
		"a hook as well":    {config + "---\n" + config + "  annotations: {helm.sh/hook: post-upgrade}", "ChartError", []string{`ConfigMap "hello-twice"`, "twice", "as a hook"}},
		"an earlier hook":   {config + "data: {a: b}\n---\n" + config + "  annotations: {helm.sh/hook: pre-install}", "", nil},
		"a later hook":      {config + "data: {a: b}\n---\n" + config + "  annotations: {helm.sh/hook: post-delete}", "", nil},
		"a test":            {config + "data: {a: b}\n---\n" + config + "  annotations: {helm.sh/hook: test}", "", nil}, // which nobody may run here
		"no apiVersion":     {"kind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}", "ChartError", []string{`ConfigMap "hello" of the chart has no apiVersion`}},
		"twice":             {config + "data: {a: b}\n---\n" + config + "data: {c: d}", "ChartError", []string{`ConfigMap "hello-twice"`, "twice"}},
		"elsewhere":         {config + "  namespace: default", "ChartError", []string{`ConfigMap "hello-twice"`, `outside of namespace`}},
		"a hook elsewhere":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default, annotations: {helm.sh/hook: post-install}}", "ChartError", []string{`ConfigMap "x"`, `outside of namespace`}},
		"a record":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sh.helm.release.v1.{{ .Release.Name }}.v1}\ndata: {release: x}", "ChartError", []string{"v1.hello.v1", "with the name of a release record. Give it another name"}},
		"too much":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\nbinaryData: {bulk: " + base64.StdEncoding.EncodeToString(bulk) + "}", "TooLarge", []string{"release record", "1024 KiB"}},
		"the same, twice":   {config + "data: {a: b}\n---\n" + config + "data: {a: b}", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, c.manifest)})
			s.create("hello")
			if c.reason == "" {
				s.awaitDeployed("hello")
				s.delete(s.welcome("hello"))
				return
			}
			s.awaitReason("hello", c.reason, c.says...)
			s.awaitCondition("hello", "Stalled", "True")
			s.must(s.hasRecords("hello", 0))
			s.must(s.isGone(&corev1.Service{}, "hello"))
		})
	}
}

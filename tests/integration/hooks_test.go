package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	// migrateJob has what its metadata has besides put in.
	migrateJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-migrate
  %s
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: "example.com/migrate:1"}]`
	asPreUpgrade = "annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: hook-succeeded}"

	withoutHooks = "helm.sdk.operatorframework.io/uninstall-disable-hooks"

	hookJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-%[1]s
  annotations: {helm.sh/hook: %[1]s, helm.sh/hook-output-log-policy: "hook-succeeded,hook-failed", greets: {{ quote .Values.name }}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: hook, image: example.com/hook:1}]`
	hookNote = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-%[1]s
  annotations: {helm.sh/hook: %[1]s, greets: {{ quote .Values.name }}}`
)

// hooked returns the settings of an operator whose chart also has Jobs and ConfigMaps as hooks, named after
// their events.
func (s *scene) hooked(jobs, notes []string) settings {
	s.Helper()
	s.grantJobs()
	var more []string
	for _, event := range jobs {
		more = append(more, fmt.Sprintf(hookJob, event))
	}
	for _, event := range notes {
		more = append(more, fmt.Sprintf(hookNote, event))
	}
	return settings{namespaces: []string{s.namespace}, watches: watchesWithMore(s.T, strings.Join(more, "\n---"))}
}

// ran waits until a hook of the Welcome "hello" exists, and fails unless it was rendered when the Welcome
// greeted somebody.
func (s *scene) ran(hook client.Object, event, greeted string) {
	s.Helper()
	s.awaitExists(hook, "hello-"+event)
	if got := hook.GetAnnotations()["greets"]; got != greeted {
		s.Errorf("the %s hook greets %q, not %q", event, got, greeted)
	}
}

// another waits for a hook's Job that is not before, and returns it.
func (s *scene) another(name string, before *batchv1.Job) *batchv1.Job {
	s.Helper()
	job := &batchv1.Job{}
	s.await("the hook is made anew", func() error {
		if err := s.find(job, name); err != nil {
			return err
		}
		if job.UID == before.UID || job.DeletionTimestamp != nil {
			return errors.New("it is the one of before")
		}
		return nil
	})
	return job
}

// endHook ends the Job of a hook, in success unless how says otherwise. The Job had a pod, whose log the hook
// asks for.
func (s *scene) endHook(job *batchv1.Job, how ...batchv1.JobConditionType) {
	s.Helper()
	if len(how) == 0 {
		how = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	}
	s.must(client.IgnoreAlreadyExists(env.Client.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: job.Name, Labels: map[string]string{"job-name": job.Name}},
		Spec:       job.Spec.Template.Spec,
	})))
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, condition := range how {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, Reason: "Played"})
		if condition == batchv1.JobComplete {
			job.Status.CompletionTime = &now
		}
	}
	s.must(client.IgnoreNotFound(env.Client.Status().Update(ctx, job)))
}

// A deletion waits for its own hooks, and not for others that may not be where they are.
func TestDeletionWithAnotherHookElsewhere(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookJob, "pre-delete")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x, namespace: "{{ if eq .Values.name "after" }}default{{ else }}{{ .Release.Namespace }}{{ end }}", annotations: {helm.sh/hook: post-rollback}}`)})
	cr := s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitReason("hello", "ChartError", `ConfigMap "x"`, "outside of namespace")
	s.must(env.Client.Delete(ctx, cr))
	hook := &batchv1.Job{}
	s.awaitExists(hook, "hello-pre-delete")
	s.endHook(hook)
	s.awaitGone(cr, "hello")
}

// Helm leaves out what has a hook that it does not know, as one that is misspelt, and the log says so.
func TestUnknownHook(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookNote, "post-instal"))})
	s.deploy("hello")
	s.must(s.isGone(&corev1.ConfigMap{}, "hello-post-instal"))
	s.must(says(operator.Text(), []string{"Helm knows no such hook", "welcome/templates/deployment.yaml: helm.sh/hook: post-instal"}))
}

// A hook is one, too, where the custom resource says so, and no template does.
func TestHookThatAValueMakes(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	job := strings.ReplaceAll(hookJob, "%[1]s", "hook")
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, strings.Replace(job, "helm.sh/hook: hook,", "helm.sh/hook: {{ quote .Values.name }},", 1))})
	cr := s.deploy("hello", kit.Greet("pre-delete"))
	s.must(env.Client.Delete(ctx, cr))
	hook := &batchv1.Job{}
	s.awaitExists(hook, "hello-hook")
	s.get(&appsv1.Deployment{}, "hello")
	s.endHook(hook)
	s.awaitGone(cr, "hello")
}

// The hooks of a deletion are those of the chart, with what the Welcome says at its end: one before anything
// goes, one after all has gone.
func TestDeletionHooks(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"pre-delete"}, []string{"post-delete"}))
	cr := s.deploy("hello", kit.Greet("first"))
	s.edit("hello", kit.Greet("last"))
	s.awaitGreeting("hello", "last")
	s.awaitDeployed("hello")
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	before := &batchv1.Job{}
	s.ran(before, "pre-delete", "last")
	for _, child := range s.objectsOf("hello") {
		if child.GetDeletionTimestamp() != nil {
			t.Errorf("%T goes before the hook has ended", child)
		}
	}
	s.endHook(before)
	s.awaitGone(cr, "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.must(s.hasRecords("hello", 0))
	s.ran(&corev1.ConfigMap{}, "post-delete", "last") // nobody collects garbage here
}

// Where a hook of the deletion fails, nothing is deleted, and the Welcome says why and how to do without.
func TestFailingDeletionHook(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(s.hooked([]string{"pre-delete"}, []string{"post-delete"}))
	cr := s.deploy("hello", kit.Greet("all"))
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	job := &batchv1.Job{}
	s.ran(job, "pre-delete", "all")
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitReason("hello", "HookFailed", "pre-delete", `hook Job "hello-pre-delete"`, "logs job/hello-pre-delete", "annotate", withoutHooks)
	if operator.metric(t, "welcome_operator_release_actions_total", `action="uninstall",.*reason="HookFailed"`) == 0 {
		t.Error("the failure is not counted")
	}
	s.objectsOf("hello")

	s.edit("hello", kit.Annotate(withoutHooks, "true"))
	s.await("the Welcome is gone", func() error {
		if again := (&batchv1.Job{}); s.find(again, "hello-pre-delete") == nil && len(again.Status.Conditions) == 0 { // it was tried again meanwhile
			s.endHook(again, batchv1.JobFailureTarget, batchv1.JobFailed)
		}
		return s.isGone(cr, "hello")
	})
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.must(s.isGone(&corev1.ConfigMap{}, "hello-post-delete"))
}

// A deletion hook that may not be made, or of a kind that is gone, holds the deletion up, and says how to do without.
func TestRefusedDeletionHook(t *testing.T) {
	s := newScene(t)
	before := s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello")
	before.Stop()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, "apiVersion: example.com/v1\nkind: Backup\nmetadata: {name: '{{ .Release.Name }}', annotations: {helm.sh/hook: pre-delete}}")})
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	s.awaitCondition("hello", "Ready", "False", "Backup", "to delete without hooks, annotate with "+withoutHooks+"=true")
	s.get(&appsv1.Deployment{}, "hello")
	s.edit("hello", kit.Annotate(withoutHooks, "true"))
	s.awaitGone(cr, "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
}

// Hooks that could not do their work do not hold up what is deleted.
func TestDeletionHooksAreSkipped(t *testing.T) {
	for name, remove := range map[string]func(s *scene){
		"the namespace goes, too": func(s *scene) {
			s.must(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
			_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
			s.must(err)
		},
		"the namespace goes, too, and nothing can be rendered": func(s *scene) {
			s.edit("hello", kit.Greet("nobody"))
			s.awaitCondition("hello", "Ready", "False", "nobody is to be greeted")
			s.must(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
			_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
			s.must(err)
		},
		"in the foreground": func(s *scene) {
			s.collectGarbage()
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=foreground", "--wait=false")
			s.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			hooked := s.hooked([]string{"pre-delete"}, []string{"post-delete"})
			hooked.watches = watchesWithMore(t, fmt.Sprintf(hookJob, "pre-delete")+`
---
{{- if eq .Values.name "nobody" }}{{ fail "nobody is to be greeted" }}{{ end }}`)
			operator := s.ownOperator(hooked)
			cr := s.deploy("hello")
			remove(s)
			s.awaitGone(cr, "hello")
			s.awaitGone(&appsv1.Deployment{}, "hello")
			if log := operator.LastLines(100); !strings.Contains(log, "HooksSkipped") {
				t.Errorf("the log does not tell that hooks were skipped:\n%s", log)
			}
		})
	}
}

// An upgrade that fails after it has changed something is rolled back between the hooks for that.
func TestRollbackHooks(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"post-upgrade"}, []string{"pre-rollback", "post-rollback"}))
	s.deploy("hello", kit.Greet("good"))
	s.edit("hello", kit.Greet("bad"))
	job := &batchv1.Job{}
	s.ran(job, "post-upgrade", "bad")
	s.awaitGreeting("hello", "bad")
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitGreeting("hello", "good")
	s.ran(&corev1.ConfigMap{}, "pre-rollback", "bad")
	s.ran(&corev1.ConfigMap{}, "post-rollback", "bad")
}

// An upgrade that is done but for its records is not undone, or done again with its hooks: they are brought
// to their end when they can be.
func TestUpgradeWhoseRecordsCannotBeWritten(t *testing.T) {
	for name, status := range map[string]release.Status{"of before": release.StatusSuperseded, "its own": release.StatusDeployed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			operator := s.ownOperator(s.hooked([]string{"post-upgrade"}, []string{"pre-rollback", "post-rollback"}))
			s.deploy("hello", kit.Greet("before"))
			s.settled(operator)
			probe := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}
			s.must(env.Client.Create(ctx, probe))
			probe.Labels = map[string]string{"status": string(status)}
			lift := s.deny(admissionregistrationv1.Validation{Expression: fmt.Sprintf("object.metadata.?labels.status.orValue('') != %q", status), Message: "not now"},
				admissionregistrationv1.Update, "", "configmaps", func() error { return env.Client.Update(ctx, probe, client.DryRunAll) })
			s.edit("hello", kit.Greet("after"))
			job := &batchv1.Job{}
			s.ran(job, "post-upgrade", "after")
			deployment := &appsv1.Deployment{}
			s.get(deployment, "hello")
			s.endHook(job)
			s.await("the upgrade is done", func() error {
				if revision, _, _ := unstructured.NestedInt64(s.welcome("hello").Object, "status", "release", "revision"); revision != 2 {
					return fmt.Errorf("revision %d is applied", revision)
				}
				return nil
			})
			lift()
			s.await("the records are brought to their end", func() error {
				records := s.records("hello")
				if got := []string{records[0].Labels["status"], records[len(records)-1].Labels["status"]}; len(records) != 2 || got[0] != "superseded" || got[1] != "deployed" {
					return fmt.Errorf("%d records: %v", len(records), got)
				}
				return nil
			})
			s.settled(operator)
			now, again := &appsv1.Deployment{}, &batchv1.Job{}
			s.get(now, "hello")
			if got := kit.Greeting(now); got != "after" || now.Generation != deployment.Generation {
				t.Errorf("it greets %q, and has generation %d after %d", got, now.Generation, deployment.Generation)
			}
			if s.get(again, job.Name); again.UID != job.UID {
				t.Error("the hook has run again")
			}
			s.must(s.isGone(&corev1.ConfigMap{}, "hello-pre-rollback"))
		})
	}
}

// An operator that is told to stop while a hook of an upgrade runs leaves the upgrade to the next one:
// nothing is rolled back, and no hook of a rollback begins.
func TestStoppedInAHookOfAnUpgrade(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	hooked := s.hooked([]string{"post-upgrade"}, []string{"pre-rollback", "post-rollback"})
	first := s.ownOperator(hooked)
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	job := &batchv1.Job{}
	s.ran(job, "post-upgrade", "after")
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	first.Stop()
	s.must(s.isGone(&corev1.ConfigMap{}, "hello-pre-rollback"))

	s.ownOperator(hooked)
	s.await("the hook has run", func() error {
		if again := (&batchv1.Job{}); s.find(again, "hello-post-upgrade") == nil && len(again.Status.Conditions) == 0 {
			s.endHook(again)
		}
		if records := s.records("hello"); records[len(records)-1].Labels["status"] != string(release.StatusDeployed) {
			return fmt.Errorf("the records are %v", names(records))
		}
		return nil
	})
	s.awaitDeployed("hello")
	now := &appsv1.Deployment{}
	s.get(now, "hello")
	if got := kit.Greeting(now); got != "after" || now.Generation != deployment.Generation {
		t.Errorf("it greets %q, and has generation %d after %d", got, now.Generation, deployment.Generation)
	}
	s.must(s.isGone(&corev1.ConfigMap{}, "hello-pre-rollback"))
}

// A hook that comes before the first object of an installation runs until it has succeeded, though it has
// failed, or the operator was killed or told to stop meanwhile. It does not run again where there is an
// object.
func TestInstallHookUntilItSucceeds(t *testing.T) {
	s := newScene(t)
	hooked := s.hooked([]string{"pre-install"}, nil)
	operator := s.ownOperator(hooked)
	s.create("hello")
	const hook = "hello-pre-install"
	job := s.another(hook, &batchv1.Job{})
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	job = s.another(hook, job)
	operator.Kill()
	operator = s.ownOperator(hooked)
	job = s.another(hook, job)
	operator.Stop()
	operator = s.ownOperator(hooked)
	job = s.another(hook, job)
	s.must(s.isGone(&corev1.Service{}, "hello"))
	asked, letGo := s.holdDeployments()
	s.endHook(job)
	asked()
	s.killWaiting(operator)
	letGo()
	s.ownOperator(hooked)
	s.awaitDeployed("hello")
	last := &batchv1.Job{}
	if s.get(last, hook); last.UID != job.UID {
		t.Error("it runs again")
	}
	s.must(s.hasRecords("hello", 2))
}

// While an action waits for a hook, the status says so, and that this generation is not applied yet. A hook
// that somebody deletes has not succeeded.
func TestHookThatTakesLong(t *testing.T) {
	s := newScene(t)
	s.must(controlplane.RunDeployments(t.Context(), env.Admin))
	s.ownOperator(s.hooked([]string{"pre-install", "pre-upgrade", "pre-delete"}, nil))
	cr := s.create("hello", kit.Greet("before"))
	waits := func(hook string) *batchv1.Job {
		t.Helper()
		s.awaitCondition("hello", "Reconciling", "True", `waits for hook Job "`+hook+`"`)
		s.awaitReason("hello", "HookHasNoPods", hook)
		return s.another(hook, &batchv1.Job{})
	}
	job := waits("hello-pre-install")
	s.podOf(job.Spec.Template, "hello-pre-install-1", pending("hook", "ErrImagePull", "not found"))
	s.awaitReason("hello", "ImagePullFailed", `waits for hook Job "hello-pre-install"`, `Pod "hello-pre-install-1" cannot pull the image example.com/missing:v1: not found`)
	s.endHook(job)
	s.awaitReady("hello")
	s.edit("hello", kit.Greet("after"))
	job = waits("hello-pre-upgrade")
	if observed, _, _ := unstructured.NestedInt64(s.welcome("hello").Object, "status", "observedGeneration"); observed != 1 {
		t.Errorf("generation %d is said to be observed", observed)
	}
	s.must(env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.awaitReason("hello", "HookFailed", "somebody has deleted it")
	s.must(s.greets("hello", "before"))
	s.endHook(s.another("hello-pre-upgrade", job))
	s.awaitGreeting("hello", "after")
	s.awaitReady("hello")
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	job = s.another("hello-pre-delete", &batchv1.Job{})
	s.awaitReason("hello", "Uninstalling", `waits for hook Job "hello-pre-delete"`)
	s.endHook(job)
	s.awaitGone(cr, "hello")
}

// Of a hook that is a Pod itself it is told, too, why it does not end.
func TestHookThatIsAPod(t *testing.T) {
	s := newScene(t)
	s.grant("", "pods")
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}-ask, annotations: {helm.sh/hook: pre-install}}
spec: {restartPolicy: Never, containers: [{name: hook, image: example.com/missing:v1}]}`)})
	s.create("hello")
	pod := &corev1.Pod{}
	s.awaitExists(pod, "hello-ask")
	pod.Status = pending("hook", "ErrImagePull", "not found")
	s.must(env.Client.Status().Update(ctx, pod))
	s.awaitReason("hello", "ImagePullFailed", `waits for hook Pod "hello-ask"`, `Pod "hello-ask" cannot pull the image example.com/missing:v1: not found`)
}

// A hook without pods, for a policy refuses them or somebody holds it suspended, has no logs: it is said where to look.
func TestHookWithoutPods(t *testing.T) {
	s := newScene(t)
	hooked := s.hooked([]string{"pre-install"}, nil)
	hooked.watches += "  timeout: 10s\n"
	s.ownOperator(hooked)
	s.create("hello")
	job, look := s.another("hello-pre-install", &batchv1.Job{}), "kubectl -n "+s.namespace+" describe job/hello-pre-install, which "
	s.awaitReason("hello", "HookHasNoPods", `waits for hook Job "hello-pre-install"`, "which has no pods (kubectl -n "+s.namespace+" describe job/hello-pre-install), to end")
	s.awaitReason("hello", "HookFailed", `hook Job "hello-pre-install"`, look+"has no pods")
	s.await("it is told that a Job is suspended", func() error { // each attempt makes another one
		suspended := env.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)))
		ready, err := s.condition("hello", "Ready")
		return errors.Join(client.IgnoreNotFound(suspended), err, says(ready.Message, []string{look + "is suspended (spec.suspend: true)"}))
	})
	s.await("one that was suspended and gets no pods is told so", func() error {
		resumed := env.Client.Status().Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Suspended","status":"False"}]}}`)))
		ready, err := s.condition("hello", "Ready")
		return errors.Join(client.IgnoreNotFound(resumed), err, says(ready.Message, []string{look + "has no pods"}))
	})
}

// A custom resource can be deleted while a hook runs, which may have no end: of an installation or of an
// upgrade, of which nothing is taken back then.
func TestDeletedInAHook(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"pre-install", "post-upgrade", "pre-delete"}, nil))
	cr := s.create("hello", kit.Greet("before"))
	s.awaitCondition("hello", "Reconciling", "True", `waits for hook Job "hello-pre-install"`)
	s.must(env.Client.Delete(ctx, cr))
	s.endHook(s.another("hello-pre-delete", &batchv1.Job{}))
	s.awaitGone(cr, "hello")

	cr = s.create("again", kit.Greet("before"))
	s.endHook(s.another("again-pre-install", &batchv1.Job{}))
	s.awaitDeployed("again")
	s.edit("again", kit.Greet("after"))
	s.awaitCondition("again", "Reconciling", "True", `waits for hook Job "again-post-upgrade"`)
	s.must(env.Client.Delete(ctx, cr))
	job := s.another("again-pre-delete", &batchv1.Job{})
	if err := s.greets("again", "after"); err != nil {
		t.Errorf("it was rolled back: %v", err)
	}
	s.endHook(job)
	s.awaitGone(cr, "again")
	s.must(s.isGone(&appsv1.Deployment{}, "again"))
}

// Somebody takes the finalizer off a custom resource that a hook of its deletion holds up, and makes it anew: the
// new one does not wait for that hook.
func TestForcedOffInADeletionHook(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"pre-delete"}, nil))
	cr := s.deploy("hello", kit.Greet("before"))
	s.must(env.Client.Delete(ctx, cr))
	s.awaitReason("hello", "Uninstalling", `waits for hook Job "hello-pre-delete"`)
	s.must(env.Client.Patch(ctx, cr, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	s.awaitGone(cr, "hello")
	for _, child := range s.objectsOf("hello") { // as the garbage collector does
		s.must(client.IgnoreNotFound(env.Client.Delete(ctx, child)))
	}
	s.deploy("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
}

// The hooks before a deletion have run once they have succeeded, whoever refuses the deletion of an object
// afterwards, and whatever became of the last upgrade.
func TestDeletionHooksRunOnce(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookJob, "pre-delete")+`
{{- if eq .Values.name "nobody" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, labels: {no: name at all}}
{{- end }}`)})
	cr := s.deploy("hello")
	s.edit("hello", kit.Greet("nobody"))
	s.awaitCondition("hello", "ReleaseFailed", "True", "name at all")
	lift := s.refuse(admissionregistrationv1.Delete, "", "services", "Services stay", func() error {
		return env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}, client.DryRunAll)
	})
	s.must(env.Client.Delete(ctx, cr))
	job := s.another("hello-pre-delete", &batchv1.Job{})
	s.endHook(job)
	s.awaitCondition("hello", "ReleaseFailed", "True", "Services stay")
	before := operator.reconciles(t)
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-before, 5) })
	if again := (&batchv1.Job{}); s.find(again, job.Name) == nil && again.UID != job.UID {
		t.Error("the hook runs again")
	}
	lift()
	s.awaitGone(cr, "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello")
	if again := (&batchv1.Job{}); s.find(again, job.Name) == nil && again.UID != job.UID {
		t.Error("the hook has run again")
	}
}

// So have those after it, whoever refuses the deletion of a record, and though the operator is killed meanwhile.
func TestHooksAfterADeletionRunOnce(t *testing.T) {
	s := newScene(t)
	hooked := s.hooked([]string{"pre-delete", "post-delete"}, nil)
	operator := s.ownOperator(hooked)
	cr := s.deploy("hello")
	s.edit("hello", kit.Greet("two revisions"))
	s.awaitGreeting("hello", "two revisions")
	s.awaitDeployed("hello")
	lift := s.refuse(admissionregistrationv1.Delete, "", "configmaps", "ConfigMaps stay", func() error {
		return env.Client.Delete(ctx, &s.records("hello")[0], client.DryRunAll)
	})
	s.must(env.Client.Delete(ctx, cr))
	var ran []*batchv1.Job
	for _, event := range []string{"pre-delete", "post-delete"} {
		job := s.another("hello-"+event, &batchv1.Job{})
		s.endHook(job)
		ran = append(ran, job)
	}
	again := func() {
		t.Helper()
		for _, job := range ran {
			if again := (&batchv1.Job{}); s.find(again, job.Name) == nil && again.UID != job.UID {
				t.Errorf("%s runs again", job.Name)
			}
		}
	}
	s.awaitCondition("hello", "ReleaseFailed", "True", "ConfigMaps stay")
	operator.Kill()
	operator = s.ownOperator(hooked)
	before := operator.reconciles(t)
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-before, 5) })
	again()
	lift()
	s.awaitGone(cr, "hello")
	s.must(s.hasRecords("hello", 0))
	again()
}

// What failed at its hooks is recorded all the time, or nobody would know of those of the deletion: the next
// attempt makes no other record.
func TestInstallationAgainNeedsNoNewRecord(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"pre-install", "pre-delete"}, nil))
	cr := s.create("hello")
	job := s.another("hello-pre-install", &batchv1.Job{})
	lift := s.refuse(admissionregistrationv1.Create, "", "configmaps", "ConfigMaps stay away", func() error {
		return env.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
	})
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	again := s.another(job.Name, job)
	lift()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error { // which could not be written over
		record := &s.records("hello")[0]
		record.Immutable = new(true)
		return env.Client.Update(ctx, record)
	}))
	s.endHook(again, batchv1.JobFailureTarget, batchv1.JobFailed)
	again = s.another(job.Name, again)
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	s.endHook(again, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.endHook(s.another("hello-pre-delete", &batchv1.Job{}))
	s.awaitGone(cr, "hello")
	s.must(s.hasRecords("hello", 0))
}

// Where an installation failed at its hooks, which may have made something elsewhere, those of the deletion
// run. The preview tells meanwhile what the next attempt makes.
func TestDeletionHooksOfAFailedInstallation(t *testing.T) {
	s := newScene(t)
	s.publisher(s.hooked([]string{"pre-install", "pre-delete"}, nil))
	cr := s.create("hello")
	job := s.another("hello-pre-install", &batchv1.Job{})
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitReason("hello", "HookFailed")
	s.await("between two attempts, the diff says what the next one makes", func() error {
		got := s.plugin("diff", "hello")
		if got.code == 1 {
			return says(got.out, []string{"1 Deployment is made"})
		}
		job = s.another(job.Name, job)
		s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
		return errors.New(got.out)
	})
	job = s.another(job.Name, job)
	_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
	s.must(err)
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	job = s.another("hello-pre-delete", &batchv1.Job{})
	s.endHook(job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	s.awaitGone(cr, "hello")
	s.must(s.hasRecords("hello", 0))
}

// So it does where the chart keeps an object, of which nothing tells yet whose it is.
func TestInstallHookOfAChartThatKeeps(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookJob, "pre-install")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}`)})
	s.create("hello")
	job := s.another("hello-pre-install", &batchv1.Job{})
	s.endHook(job, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.endHook(s.another(job.Name, job))
	s.awaitDeployed("hello")
	s.must(s.hasRecords("hello", 1))
}

// No hook of an installation runs, let alone once a minute, where an object is in its way that bears Helm's marks.
func TestNoHookOfARefusedInstallation(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.hooked([]string{"pre-install"}, nil))
	theirs := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	theirs.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	theirs.Annotations = map[string]string{"meta.helm.sh/release-name": "hello", "meta.helm.sh/release-namespace": s.namespace}
	s.must(env.Client.Create(ctx, theirs))
	s.create("hello")
	s.awaitReason("hello", "ObjectInTheWay", "Service")
	s.must(s.isGone(&batchv1.Job{}, "hello-pre-install"))
	s.must(env.Client.Delete(ctx, theirs))
	hook := &batchv1.Job{}
	s.awaitExists(hook, "hello-pre-install")
	s.endHook(hook)
	s.awaitDeployed("hello")
}

// What else than Jobs hooks have made, and an attempt that failed has left, is in the way of none.
func TestHookThatIsLeft(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-migration
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-weight: "-5", helm.sh/hook-delete-policy: "hook-succeeded,hook-failed"}
---`+fmt.Sprintf(hookJob, "pre-upgrade"))})
	s.deploy("hello")
	job := &batchv1.Job{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}}
	lift := s.refuse(admissionregistrationv1.Create, "batch", "jobs", "no Jobs now", func() error { return env.Client.Create(ctx, job.DeepCopy(), client.DryRunAll) })
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "no Jobs now")
	lift()
	hook := &batchv1.Job{}
	s.ran(hook, "pre-upgrade", "after")
	s.endHook(hook)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// Whoever may delete the records of a release has no hook of its installation run again by that.
func TestHooksOfLostRecords(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(s.hooked(nil, []string{"pre-install", "post-install"}))
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	ran := map[string]types.UID{}
	for _, event := range []string{"pre-install", "post-install"} {
		note := &corev1.ConfigMap{}
		s.get(note, "hello-"+event)
		ran[note.Name] = note.UID
	}
	for _, record := range s.records("hello") {
		s.must(env.Client.Delete(ctx, &record))
	}
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitEvent("hello", "HooksSkipped", "records")
	for name, uid := range ran {
		note := &corev1.ConfigMap{}
		s.get(note, name)
		if note.UID != uid {
			t.Errorf("%s has run again", name)
		}
	}
}

// What a hook has left that failed, and whose policy does not delete it before it is made anew, is no reason
// why it never runs again.
func TestHookThatRanBefore(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(migrateJob, asPreUpgrade))})
	s.deploy("hello")
	s.edit("hello", kit.Greet("after"))
	failed := &batchv1.Job{}
	s.awaitExists(failed, "hello-migrate")
	s.endHook(failed, batchv1.JobFailureTarget, batchv1.JobFailed)
	s.awaitReason("hello", "HookFailed", `hook Job "hello-migrate"`, "job hello-migrate failed: Played", "kubectl -n "+s.namespace+" logs job/hello-migrate")
	again := s.another("hello-migrate", failed)
	s.endHook(again)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// No hook runs, let alone once a minute, for an upgrade that is refused because an object is in its way.
func TestNoHookOfARefusedUpgrade(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookJob, "pre-upgrade")+`
---
{{- if eq .Values.name "after" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-more}
{{- end }}`)})
	s.deploy("hello")
	theirs := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-more")}
	s.must(env.Client.Create(ctx, theirs))
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "Ready", "False", "hello-more")
	s.must(s.isGone(&batchv1.Job{}, "hello-pre-upgrade"))
	s.must(env.Client.Delete(ctx, theirs))
	hook := &batchv1.Job{}
	s.ran(hook, "pre-upgrade", "after")
	s.endHook(hook)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// Nor do they once a minute for one that the API server refuses: it is asked first by then.
func TestNoMoreHooksOfARefusedUpgrade(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(hookJob, "pre-upgrade")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-more}
data: {{ dict .Values.name "a" | toJson }}`)})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("no key of a ConfigMap"))
	hook := &batchv1.Job{}
	s.ran(hook, "pre-upgrade", "no key of a ConfigMap")
	s.endHook(hook)
	s.awaitCondition("hello", "Ready", "False", "data[no key of a ConfigMap]")
	s.await("it is tried again, and again", func() error {
		return atLeast(int(operator.metric(t, "welcome_operator_release_actions_total", `action="upgrade".*result="failure"`)), 3)
	})
	again := &batchv1.Job{}
	if s.get(again, "hello-pre-upgrade"); again.UID != hook.UID {
		t.Error("the hook runs again")
	}
	s.edit("hello", kit.Greet("after"))
	again = s.another("hello-pre-upgrade", hook)
	s.endHook(again)
	s.awaitGreeting("hello", "after")
}

// What was a hook and is an object of the release by now is kept if the chart says so, and no longer spared as a hook.
func TestHookThatBecomesAnObject(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kept
  annotations: {{ if eq .Values.name "before" }}{helm.sh/hook: pre-install}{{ else }}{helm.sh/resource-policy: keep}{{ end }}`)})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	kept := &corev1.ConfigMap{}
	s.get(kept, "hello-kept")
	if _, hooks := kept.Annotations["helm.sh/hook"]; hooks || len(kept.OwnerReferences) > 0 {
		t.Errorf("the garbage collector would delete it with its custom resource: %v", kept.ObjectMeta)
	}
}

// What is kept and becomes a hook is in the way of that: nobody deletes it, or waits for it to go.
func TestKeptObjectThatBecomesAHook(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-{{ if eq .Values.name "mended" }}hook{{ else }}kept{{ end }}
  annotations: {{ if eq .Values.name "before" }}{helm.sh/resource-policy: keep}{{ else }}{helm.sh/hook: pre-upgrade}{{ end }}`)})
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	before, now := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	s.get(before, "hello-kept")
	s.edit("hello", kit.Greet("after"))
	s.awaitReason("hello", "Rejected", `ConfigMap "hello-kept"`, "a hook", "another name")
	s.edit("hello", kit.Greet("mended"))
	s.awaitGreeting("hello", "mended")
	s.awaitDeployed("hello")
	s.get(&corev1.ConfigMap{}, "hello-hook")
	if s.get(now, "hello-kept"); now.UID != before.UID {
		t.Error("it was made anew")
	}
}

// Nor is what else becomes a hook deleted where the policy of the hook does not say so, and the status says what would.
func TestObjectThatBecomesAHook(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-more
  {{- if ne .Values.name "before" }}
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: "hook-succeeded{{ if eq .Values.name "mended" }},before-hook-creation{{ end }}"}
  {{- end }}`)})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitReason("hello", "Rejected", `ConfigMap "hello-more"`, "a hook", "before-hook-creation", "another name")
	s.get(&corev1.ConfigMap{}, "hello-more")
	s.edit("hello", kit.Greet("mended"))
	s.awaitGreeting("hello", "mended")
	s.awaitDeployed("hello")
	s.awaitGone(&corev1.ConfigMap{}, "hello-more")
}

// A Job that has run as an object of the chart makes way for the hook that it becomes, also where the hook does not say so.
func TestJobThatBecomesAHook(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, fmt.Sprintf(migrateJob, `{{ if eq .Values.name "after" }}`+asPreUpgrade+"{{ end }}"))})
	s.deploy("hello", kit.Greet("before"))
	job := &batchv1.Job{}
	s.get(job, "hello-migrate")
	s.edit("hello", kit.Greet("after"))
	s.endHook(s.another(job.Name, job))
	s.awaitGreeting("hello", "after")
	s.awaitGone(&batchv1.Job{}, job.Name)
	s.awaitDeployed("hello")
}

package integration

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// watchesWithMore is watches.yaml with a chart that has more in it.
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
	held := []string{"held-1", "held-2", "held-3", "held-4", "held-5", "held-6"}
	for _, name := range held {
		cr := s.create(name, kit.Greet("endless"))
		job := &batchv1.Job{} // nobody runs it here
		s.awaitExists(job, name)
		if !metav1.IsControlledBy(job, cr) {
			t.Errorf("the Job is owned by %v", job.OwnerReferences)
		}
	}
	// Somebody else's Job has the name of a hook: nobody waits for its end.
	s.must(env.Client.Create(ctx, &batchv1.Job{ObjectMeta: objectMeta(s.namespace, "foreign"), Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}}))
	s.create("foreign", kit.Greet("endless"))
	s.awaitCondition("foreign", "Ready", "False", "already exists")
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

package integration

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// What was applied is applied again when somebody asks for that: once for each value, and once a minute at
// most. Otherwise it is only looked at.
func TestReconcileThatSomebodyAsksFor(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {mode: warn}\n")})
	s.deploy("hello", kit.Greet("before"))
	s.bringUp("hello")
	drifts := func() {
		t.Helper()
		s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
		s.awaitCondition("hello", "Drifted", "True", "env[0].value")
	}
	drifts()
	s.expect(s.plugin("reconcile", "hello", "--force", "--wait"), 0, "Done: Deployment", "put back spec.template.spec.containers[0].env[0].value", "Next: kubectl welcome status hello")
	s.awaitGreeting("hello", "before")
	s.awaitEvent("hello", "Reconciled", "force-")

	drifts()
	s.settled(operator)
	before := s.record()
	early := s.plugin("reconcile", "hello", "--force", "--wait", "--timeout=3s")
	s.expect(early, 1, "once a minute at most", "not done after 3s")
	for range 10 { // somebody who can't leave it alone
		s.edit("hello", kit.Annotate("webapp.demo.welcome.domain/reconcile", early.out))
		s.edit("hello", kit.Annotate("webapp.demo.welcome.domain/reconcile", "force"))
	}
	s.seen(operator)
	if requests := before.of(operator); len(requests) > 0 {
		t.Errorf("to be asked twenty times within a minute costs %s", requests)
	}
	s.awaitGreeting("hello", "intruders")

	s.pause()
	s.expect(s.plugin("reconcile", "hello", "--wait", "--timeout=2s"), 1, "it is paused", "kubectl welcome resume hello")
}

// Who asks gets an answer from a failing release, too, which is tried again at once; what is not allowed stays so.
func TestReconcileOfWhatFails(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create("hello", asksFor("bank.example.com"))
	s.awaitReason("hello", "NotAllowed", "bank.example.com")
	s.expect(s.plugin("reconcile", "hello", "--force", "--wait"), 1, "NotAllowed", "bank.example.com")
	s.must(s.isGone(&appsv1.Deployment{}, "hello"))
}

// Where not even the rendering succeeds that tells whether there is something to do, that is the answer.
func TestReconcileThatCannotBeRendered(t *testing.T) {
	s := newScene(t)
	s.serveKind("Moody")
	chart := chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: moody, version: 0.1.0}",
		"templates/note.yaml": `{{- if lookup "v1" "ConfigMap" .Release.Namespace "mood" }}{{ fail "not in the mood" }}{{ end }}
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: '{{ .Release.Name }}'}, spec: {podSelector: {}}}
`,
	})
	s.launch(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Moody", chart, "")})
	s.createOf("Moody", "hello")
	s.awaitOf("Moody", "hello", "Ready")
	s.must(env.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "mood")}))
	s.expect(s.plugin("reconcile", "moody/hello", "--wait", "--timeout=20s"), 1, "not in the mood")
	s.delete(s.of("Moody", "hello"))
}

// A fight goes on at its pace, however often somebody asks.
func TestReconcileEndsNoPause(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.bringUp("hello")
	s.fight(theirPort)
	s.awaitCondition("hello", "DriftLoop", "True", "Service")
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 })
	s.await("all repairs are told", func() error { return atLeast(len(s.putBack("Service")), 3) })
	before := len(s.putBack("Service"))
	got := s.plugin("reconcile", "hello", "--force", "--wait")
	done, left, _ := strings.Cut(got.out, "Left as others have changed it, for they do so again each time (DriftLoop): ")
	if strings.Contains(done, "Service") || left != "Service hello\n" || got.code != 0 {
		t.Errorf("it did, or did not say that it did not, or failed (%d): %s%s", got.code, got.out, got.notes)
	}
	if after := len(s.putBack("Service")); after != before {
		t.Errorf("the Service was put back %d times, not %d", after, before)
	}
}

// putBack are the events of repairs of a kind.
func (s *scene) putBack(kind string) (messages []string) {
	s.Helper()
	events := &corev1.EventList{}
	s.must(env.Client.List(ctx, events))
	for _, event := range events.Items {
		if event.Namespace == s.namespace && event.Reason == "DriftCorrected" && strings.HasPrefix(event.Message, kind) {
			for range event.Count {
				messages = append(messages, event.Message)
			}
		}
	}
	return messages
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// The operator dies while Helm is at work. The next one goes on from there.
func TestKilledWhileInstalling(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	asked, letGo := s.holdDeployments()
	s.create("hello", kit.Greet("myfriends"))
	asked()
	s.killWaiting(first) // as the kernel does when memory runs out
	letGo()
	if records := s.records("hello"); len(records) != 1 || s.childrenInStatus() != "" {
		t.Fatalf("the operator was not in the middle of an install: %v", names(records))
	}

	s.ownOperator(only)
	s.awaitGreeting("hello", "myfriends")
	s.awaitDeployed("hello")
	s.must(s.hasRecords("hello", 1))
	if children := s.childrenInStatus(); !strings.Contains(children, "Deployment") {
		t.Errorf("its objects are %q", children)
	}
}

// The record of an installation is written once, before its objects, and the status when all are there.
// Wherever between these requests the operator is killed, the next one makes what is missing, or removes what
// nobody wants any more.
func TestKilledAfterTheRecord(t *testing.T) {
	places := map[string]func(s *scene) (asked, letGo func()){
		"before the first object": func(s *scene) (asked, letGo func()) {
			return s.hold(admissionregistrationv1.Create, "networking.k8s.io", "networkpolicies", func(probe context.Context) error {
				return env.Client.Create(probe, &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
			})
		},
		"between two objects": (*scene).holdDeployments,
		"before the status":   (*scene).holdStatuses,
	}
	ends := map[string]func(s *scene){
		"it stays as it was": func(s *scene) {
			s.awaitDeployed("hello")
			s.awaitGreeting("hello", "before")
			s.awaitExists(&networkingv1.NetworkPolicy{}, "hello")
			s.must(s.hasRecords("hello", 1))
		},
		"it is edited": func(s *scene) {
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
		},
		"it is deleted": func(s *scene) {
			s.delete(s.welcome("hello"))
			s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
			s.awaitGone(&corev1.Service{}, "hello")
			s.awaitGone(&appsv1.Deployment{}, "hello")
			s.must(s.hasRecords("hello", 0))
		},
	}
	for place, hold := range places {
		for what, end := range ends {
			t.Run(place+", "+what, func(t *testing.T) {
				s := newScene(t)
				only := settings{namespaces: []string{s.namespace}, watches: watchesWith("  driftDetection: {mode: warn}\n")} // as an installation, not as a drift
				s.create("hello", kit.Greet("before"), kit.Set("networkPolicy.enabled", true))
				asked, letGo := hold(s)
				first := s.ownOperator(only)
				asked()
				s.killWaiting(first)
				letGo()
				if records := s.records("hello"); len(records) != 1 || records[0].Labels["status"] != "deployed" {
					t.Fatalf("the operator was not in the middle of an install: %v", names(records))
				}
				if what == "it is edited" {
					s.edit("hello", kit.Greet("after"), kit.Set("networkPolicy.enabled", false))
				}
				s.ownOperator(only)
				end(s)
			})
		}
	}
}

// What an installation has written that did not complete goes with an edit that drops it, though nothing proves
// what that was; what others have written there stays.
func TestEditAfterABegunInstallation(t *testing.T) {
	const notes = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-notes
  labels: {for-{{ .Values.name }}: "yes"}
data:
  {{ .Values.name }}: greeted
  always: here`
	for how, stop := range map[string]func(s *scene, only settings) (goOn func()){
		"that was killed before its status": func(s *scene, only settings) func() {
			operator := s.ownOperator(only)
			s.killBeforeTheLastStatus(operator, func() { s.create("hello", kit.Greet("before")) })
			return func() { s.ownOperator(only) }
		},
		"that was refused": func(s *scene, only settings) func() {
			lift := s.refuse(admissionregistrationv1.Create, "apps", "deployments", "no more deployments", func() error {
				return env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll)
			})
			s.ownOperator(only)
			s.create("hello", kit.Greet("before"))
			s.awaitCondition("hello", "ReleaseFailed", "True", "no more deployments")
			return lift
		},
		"that was killed, and of which an upgrade was refused": func(s *scene, only settings) func() {
			asked, letGo := s.holdDeployments()
			operator := s.ownOperator(only)
			s.create("hello", kit.Greet("first"))
			asked()
			s.killWaiting(operator)
			letGo()
			lift := s.refuse(admissionregistrationv1.Create, "apps", "deployments", "no more deployments", func() error {
				return env.Client.Create(ctx, probeDeployment(s.namespace), client.DryRunAll)
			})
			s.edit("hello", kit.Greet("before"))
			s.ownOperator(only)
			s.awaitCondition("hello", "ReleaseFailed", "True", "no more deployments")
			return lift
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			goOn := stop(s, settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, notes)})
			s.changeConfigMap("hello-notes", func(data map[string]string) { data["theirs"] = "added" })
			s.edit("hello", kit.Greet("after"))
			goOn()
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			made := &corev1.ConfigMap{}
			s.get(made, "hello-notes")
			if want := map[string]string{"always": "here", "after": "greeted", "theirs": "added"}; !maps.Equal(made.Data, want) {
				t.Errorf("its data is %v, want %v", made.Data, want)
			}
			if _, is := made.Labels["for-before"]; is {
				t.Errorf("its labels are %v", made.Labels)
			}
		})
	}
}

// What is read of an installation that has failed, to find what an edit drops, hurts nobody: who may edit records can't
// make the operator calculate for ever, and what an autoscaler has set meanwhile stays.
func TestScaledAndForgedAfterAFailedInstallation(t *testing.T) {
	s := newScene(t)
	lift := s.refuseAutoscalers()
	only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: {{ .Release.Name }}-other}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}, maxReplicas: 1}`)}
	first := s.ownOperator(only)
	s.create("hello", kit.Greet("before"))
	s.awaitCondition("hello", "ReleaseFailed", "True", "nothing scales here")
	first.Stop()
	s.scale("autoscaler", 5)
	s.forge("hello", func(_ *corev1.ConfigMap, rel *release.Release) {
		forged := regexp.MustCompile(`cpu: .*`).ReplaceAllString(rel.Manifest, `cpu: "1e-999999999"`)
		if forged == rel.Manifest {
			t.Fatal("the case is broken: there is nothing to forge")
		}
		rel.Manifest = forged
	})
	s.edit("hello", kit.Greet("after"))
	s.ownOperator(only)
	s.awaitGreeting("hello", "after")
	lift()
	s.awaitDeployed("hello")
	s.awaitReplicas(5)
}

// What is in the way is found by making the objects. Killed before that, the next operator finds a record,
// and makes none of them either.
func TestKilledBeforeAForeignObjectIsFound(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	foreign := s.foreignService(s.namespace, "hello")
	asked, letGo := s.hold(admissionregistrationv1.Create, "", "services", func(probe context.Context) error {
		service := &corev1.Service{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
		return env.Client.Create(probe, service, client.DryRunAll)
	})
	first := s.ownOperator(only)
	s.create("hello")
	asked()
	s.killWaiting(first)
	letGo()

	s.ownOperator(only)
	s.awaitCondition("hello", "Ready", "False", `Service "hello"`, "exists")
	s.must(s.isGone(&appsv1.Deployment{}, "hello"))
	s.unharmed(foreign)
	s.must(env.Client.Delete(ctx, foreign))
	s.awaitDeployed("hello")
}

// Kinds go, and with them what was applied of them. That stops neither an upgrade nor the deletion where the
// records are lost, too.
func TestAppliedKindIsGone(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	operator := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	operator.Stop()
	welcome := s.welcome("hello")
	children := strings.Replace(s.childrenInStatus(), "[", `[{"apiVersion":"gone.example.com/v1","kind":"Gone","name":"hello"},`, 1)
	s.must(unstructured.SetNestedField(welcome.Object, children, "status", "release", "children"))
	s.must(env.Client.Status().Update(ctx, welcome))
	for _, lost := range s.records("hello") {
		s.must(env.Client.Delete(ctx, &lost))
	}
	s.ownOperator(only)
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.delete(s.welcome("hello"))
	s.awaitGone(&appsv1.Deployment{}, "hello")
}

// unserve deletes the CRD of a kind of serveKind, and waits until the cluster does not serve it.
func (s *scene) unserve(kind string) {
	s.Helper()
	plural := strings.ToLower(kind) + "s"
	_, err := s.kubectl("", "delete", "crd", plural+"."+kindsGroup)
	s.must(err)
	s.awaitUnknown(kind)
}

// awaitUnknown waits until the cluster does not serve v1 of a kind.
func (s *scene) awaitUnknown(kind string) {
	s.Helper()
	s.await(kind+" is unknown", func() error {
		known, err := s.kubectl("", "get", "--raw", "/apis/"+kindsGroup+"/v1")
		if err != nil && strings.Contains(err.Error(), "NotFound") { // there is no other kind
			return nil
		}
		if strings.Contains(known, `"kind":"`+kind+`"`) {
			err = errors.New("it is known")
		}
		return err
	})
}

// An object that carries no owner reference goes with its kind. An operator that has never known that looks
// for it no more where the custom resource is deleted: it would do so for ever. The records may be lost, too.
func TestKindOfAKeptObjectIsGone(t *testing.T) {
	s := newScene(t)
	s.serveKind("Keeper")
	s.serveKind("Keepsake")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":            "{apiVersion: v2, name: keeper, version: 0.1.0}",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n",
		"templates/kept.yaml":   "apiVersion: " + kindsGroup + "/v1\nkind: Keepsake\nmetadata: {name: '{{ .Release.Name }}', annotations: {" + policyOfHelm + ": keep}}\n",
	})
	only := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Keeper", chart, "")}
	operator := s.ownOperator(only)
	for _, name := range []string{"hello", "lost"} {
		s.createOf("Keeper", name)
		s.awaitOf("Keeper", name, "Ready")
	}
	s.settled(operator)
	operator.Stop()
	s.unserve("Keepsake")
	for _, lost := range s.records("lost") {
		s.must(env.Client.Delete(ctx, &lost))
	}
	for _, name := range []string{"hello", "lost"} {
		s.must(env.Client.Delete(ctx, s.of("Keeper", name)))
	}
	s.ownOperator(only)
	for _, name := range []string{"hello", "lost"} {
		s.awaitGone(s.of("Keeper", name), name)
	}
	s.awaitGone(&corev1.ConfigMap{}, "hello")
}

// Where the kind of one object is gone, as the CRD of a tool that somebody has taken out, the status says so,
// and all else of the release is served: also by an operator that has never known that kind. In a List, it
// keeps the others from being repaired until it is switched off.
func TestKindOfAnObjectIsGone(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		listed              bool
	}{
		{name: "Alone"},
		{name: "Listed", before: "apiVersion: v1\nkind: List\nitems:\n- ", listed: true},
		{name: "LookedUp", after: "# {{ lookup \"v1\" \"ConfigMap\" .Release.Namespace \"settings\" }}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			monitored, monitor := "Monitored"+c.name, "Monitor"+c.name
			s.serveKind(monitored)
			s.serveKind(monitor)
			chart := chartOf(t, map[string]string{
				"Chart.yaml":  "{apiVersion: v2, name: monitored, version: 0.1.0}",
				"values.yaml": "{monitored: true}",
				"templates/config.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {a: b{{ if .Values.monitored }}, monitored: "true"{{ end }}}`,
				"templates/monitor.yaml": "{{ if .Values.monitored }}\n" + c.before + "{apiVersion: " + kindsGroup + "/v1, kind: " + monitor + ", metadata: {name: '{{ .Release.Name }}'}}\n{{ end }}\n" + c.after,
			})
			only := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf(monitored, chart, "")}
			operator := s.ownOperator(only)
			s.createOf(monitored, "hello")
			s.awaitOf(monitored, "hello", "Ready")
			s.settled(operator)
			s.unserve(monitor)
			s.awaitOf(monitored, "hello", "Stalled", `no longer serves the kind of `+monitor+` "hello"`, "Install its CRD")
			operator.Stop()
			s.ownOperator(only)
			missing := fmt.Sprintf("does not know kind %q", monitor)
			s.awaitOf(monitored, "hello", "Stalled", missing, "Install its CRD")
			config := &corev1.ConfigMap{}
			s.get(config, "hello")
			if !c.listed {
				s.must(env.Client.Delete(ctx, config))
				s.awaitExists(config, "hello")
			}

			s.editOf(monitored, "hello", kit.Set("monitored", false))
			s.awaitOf(monitored, "hello", "Ready")
			if s.get(config, "hello"); !c.listed && !reflect.DeepEqual(config.Data, map[string]string{"a": "b"}) {
				t.Errorf("it has %v", config.Data)
			}
			s.editOf(monitored, "hello", kit.Set("monitored", true))
			s.awaitOf(monitored, "hello", "Stalled", missing)
			s.serveKind(monitor)
			s.awaitOf(monitored, "hello", "Ready")
			s.awaitExists(s.of(monitor, "hello"), "hello")
		})
	}
}

// An upgrade that was killed half done, and is refused then, is rolled back, also where drift is only told.
func TestInterruptedUpgradeThatIsRefused(t *testing.T) {
	for name, isRecorded := range map[string]bool{"as it was interrupted": false, "with a record that it has failed": true} {
		t.Run(name, func(t *testing.T) { interruptedAndRefused(t, isRecorded) })
	}
}

func interruptedAndRefused(t *testing.T, isRecorded bool) {
	s := newScene(t)
	s.grantJobs()
	only := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: once, image: "example.com/once:{{ .Values.name }}"}]`) + "  driftDetection: {mode: warn}\n"}
	operator := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	asked, letGo := s.hold(admissionregistrationv1.Create, "autoscaling", "horizontalpodautoscalers", func(probe context.Context) error {
		return env.Client.Create(probe, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 1, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "probe"},
		}}, client.DryRunAll)
	})
	s.edit("hello", kit.Greet("after"), kit.Set("autoscaling.enabled", true)) // the autoscaler comes after the Deployment, and the Job last
	asked()
	s.must(s.greets("hello", "after"))
	s.killWaiting(operator)
	letGo()
	if isRecorded { // by an operator that did not come as far as to roll it back
		s.forge("hello", func(record *corev1.ConfigMap, rel *release.Release) {
			record.Labels["status"], rel.Info.Status = release.StatusFailed.String(), release.StatusFailed
		})
	}
	s.ownOperator(only)
	s.awaitReason("hello", "Rejected", `Job "hello"`)
	s.awaitGreeting("hello", "before")
	s.awaitGone(&autoscalingv2.HorizontalPodAutoscaler{}, "hello")
}

func TestKilledWhileUpgrading(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	s.deploy("hello", kit.Greet("before"))
	s.settled(first)
	asked, letGo := s.holdDeployments()
	s.pause()
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.edit("hello", kit.Pause(false), kit.Greet("after"))
	asked() // Helm makes the Deployment again
	s.killWaiting(first)
	letGo()

	s.ownOperator(only)
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// An upgrade that cannot succeed leaves what there was, is tried again without a new revision for each attempt, and goes
// through when it can.
func TestUpgradeRefused(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  allow: {hosts: [example.com]}\n")})
	s.deploy("hello", kit.Greet("before"))
	lift := s.refuse(admissionregistrationv1.Create, "networking.k8s.io", "ingresses", "no more ingresses", func() error {
		return env.Client.Create(ctx, &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "probe"), Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		}}, client.DryRunAll)
	})

	before, reconciles := s.record(), operator.reconciles(t)
	s.edit("hello", kit.Greet("after"), kit.Set("ingress.enabled", true), kit.Set("ingress.host", "example.com")) // Helm makes it last
	s.awaitCondition("hello", "ReleaseFailed", "True", "no more ingresses")
	s.awaitCondition("hello", "Ready", "False", "no more ingresses")
	s.awaitDeployment("hello", "the Deployment is rolled back", greets("before"))
	rolledBack := &appsv1.Deployment{}
	s.get(rolledBack, "hello")
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-reconciles, 5) })
	if written := before.of(operator).Statuses(); len(written) > 3 {
		t.Errorf("%d reconciles wrote %d statuses", operator.reconciles(t)-reconciles, len(written))
	}
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if got := kit.Greeting(deployment); got != "before" || deployment.Generation != rolledBack.Generation {
		t.Errorf("half an upgrade stayed, or every attempt rolls the pods: it greets %q, and has generation %d after %d", got, deployment.Generation, rolledBack.Generation)
	}
	if records := s.records("hello"); len(records) > 2 {
		t.Errorf("every attempt left a revision: %v", names(records))
	}

	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitCondition("hello", "ReleaseFailed", "False")
}

// A rehearsal stores nothing, so that what the API server adds by default is missing again at the next look:
// that must not pass for somebody's work, and the upgrade succeeds with the first rehearsal after its
// obstacle is gone.
func TestUpgradeRefusedWithNewDefaults(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithChart(t,
		"type: RollingUpdate\n    rollingUpdate:\n      maxSurge: 1\n      maxUnavailable: 0\n", "type: {{ if eq .Values.name \"after\" }}RollingUpdate{{ else }}Recreate{{ end }}\n")})
	s.deploy("hello", kit.Greet("before"))
	lift := s.refuse(admissionregistrationv1.Create, "networking.k8s.io", "networkpolicies", "no more policies", func() error {
		return env.Client.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
	})
	reconciles := operator.reconciles(t)
	s.edit("hello", kit.Greet("after"), kit.Set("networkPolicy.enabled", true))
	s.awaitCondition("hello", "ReleaseFailed", "True", "no more policies")
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-reconciles, 3) })
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
}

// An object that the spec no longer wants, and that cannot be deleted, is not forgotten.
func TestDeletionRefused(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"), kit.Set("networkPolicy.enabled", true))
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "hello")
	lift := s.refuse(admissionregistrationv1.Delete, "networking.k8s.io", "networkpolicies", "no fewer policies", func() error {
		return env.Client.Delete(ctx, policy, client.DryRunAll)
	})
	s.edit("hello", kit.Greet("after"), kit.Set("networkPolicy.enabled", false))
	s.awaitCondition("hello", "Ready", "False", "no fewer policies")
	s.awaitDeployment("hello", "the Deployment is rolled back", greets("before"))
	lift()
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitGone(policy, "hello")
}

// A restart finds everything as it should be, and so changes nothing.
func TestRestart(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	for _, name := range []string{"one", "two", "three"} {
		s.create(name)
	}
	for _, name := range []string{"one", "two", "three"} {
		s.awaitDeployed(name)
	}
	s.settled(first)
	before := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"one", "two", "three"} {
		before[name] = s.welcome(name)
	}
	first.Stop()
	if first.Err != nil {
		t.Errorf("the first ended with %v\n%s", first.Err, s.dump())
	}

	from := s.record()
	second := s.ownOperator(only)
	s.await("all are reconciled", func() error { return atLeast(second.reconciles(t), 3) })
	s.settled(second)
	requests := from.of(second)
	t.Logf("a start with three releases costs %s", requests)
	for _, request := range requests {
		if request.Writes() {
			t.Errorf("a restart writes: %s", request)
		}
	}
	for name, welcome := range before {
		if now := s.welcome(name); now.GetResourceVersion() != welcome.GetResourceVersion() {
			t.Errorf("Welcome %s was changed: %v", name, now.Object["status"])
		}
	}
}

// What has failed is tried again when its time has come, whatever happens to the Welcome meanwhile: each time
// that something did, the controller's queue would wait longer for the next try, up to 17 minutes.
func TestRetriesWhileOthersAreBusy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	service := s.foreignService(s.namespace, "hello")
	s.create("hello")
	s.awaitCondition("hello", "Ready", "False", "not controlled by this custom resource")
	for i := range 30 {
		reconciles := operator.reconciles(t)
		s.edit("hello", kit.Annotate("example.com/poke", fmt.Sprint(i)))
		s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
	}
	s.must(env.Client.Delete(ctx, service))
	s.awaitDeployed("hello")
}

// serveInTwoVersions creates a CRD with v1 and v2. drop removes v1, as an upgrade of Kubernetes does.
func (s *scene) serveInTwoVersions(kind string) (drop func()) {
	s.Helper()
	s.serveKind(kind)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: strings.ToLower(kind) + "s." + kindsGroup}, crd))
	versions := crd.Spec.Versions
	second := *versions[0].DeepCopy()
	second.Name, versions[0].Storage = "v2", false
	crd.Spec.Versions = append(versions, second)
	s.must(env.Client.Update(ctx, crd))
	s.awaitServed(kindsGroup+"/v2", kind)
	return func() {
		s.Helper()
		crd.Status.StoredVersions = []string{"v2"}
		s.must(env.Client.Status().Update(ctx, crd))
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{second}
		s.must(env.Client.Update(ctx, crd))
		s.awaitUnknown(kind)
	}
}

// An object whose version the cluster no longer serves, as after an upgrade of Kubernetes, is the same in
// another one: it goes with its template, or with its custom resource.
func TestVersionOfAnObjectIsGone(t *testing.T) {
	s := newScene(t)
	s.serveKind("Mover")
	drop := s.serveInTwoVersions("Aged")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":            "{apiVersion: v2, name: mover, version: 0.1.0}",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n",
		"templates/aged.yaml":   "{{ if not .Values.without }}\napiVersion: " + kindsGroup + "/v1\nkind: Aged\nmetadata: {name: '{{ .Release.Name }}'}\n{{ end }}",
	})
	only := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Mover", chart, "")}
	operator := s.ownOperator(only)
	for _, name := range []string{"edited", "first", "hello", "going"} {
		s.createOf("Mover", name)
		s.awaitOf("Mover", name, "Ready")
	}
	s.settled(operator)
	drop()
	aged := kit.Object(kindsGroup+"/v2", "Aged")

	// An operator that knows the version from before is told that it is not found.
	s.editOf("Mover", "edited", kit.Set("without", true))
	s.awaitOf("Mover", "edited", "Ready")
	s.must(s.isGone(aged, "edited"))
	s.delete(s.of("Mover", "first"))
	s.must(s.isGone(aged, "first"))

	operator.Stop()
	s.must(os.Remove(filepath.Join(chart, "templates/aged.yaml")))
	operator = s.ownOperator(only)
	s.awaitGone(aged, "hello")
	s.awaitOf("Mover", "hello", "Ready")
	s.settled(operator)
	s.delete(s.of("Mover", "going"))
	s.awaitGone(aged, "going")
}

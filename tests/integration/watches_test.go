package integration

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// watchesWith is the repository's watches.yaml with more settings, indented by two.
func watchesWith(settings string) string {
	return `- group: webapp.demo.welcome.domain
  version: v1
  kind: Welcome
  chart: helm-charts/welcome
  overrideValues: {image: "${RELATED_IMAGE_WELCOME}", imagePullPolicy: IfNotPresent}
` + settings
}

// untouched fails if an operator has written to the custom resource.
func (s *scene) untouched(name string) {
	s.Helper()
	got := s.welcome(name)
	if _, found, _ := unstructured.NestedSlice(got.Object, "status", "conditions"); found || len(got.GetFinalizers()) > 0 {
		s.Errorf("an operator touched Welcome %s: finalizers %v, status %v", name, got.GetFinalizers(), got.Object["status"])
	}
}

func TestWatchNamespaces(t *testing.T) {
	s := newScene(t)
	second, other := &scene{T: t}, &scene{T: t}
	second.namespace, other.namespace = s.newNamespace("second-"), s.newNamespace("other-")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace, second.namespace}})
	second.operators = s.operators
	other.create("hello")
	s.deploy("hello")
	second.deploy("hello")
	other.untouched("hello")
	s.settled(operator)
}

// OLM grants the rights of the operator in the watched namespaces, and nowhere else.
func TestWatchNamespacesWithRightsOnlyThere(t *testing.T) {
	s := newScene(t)
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, "narrow")}))
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(s.namespace, "narrow"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager-role"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: "narrow"}},
	}))
	before := s.record()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: "narrow"})
	cr := s.deploy("hello")
	s.delete(cr)
	requests := before.anywhere(operator)
	if len(requests) == 0 {
		t.Error("no request was counted")
	}
	for _, request := range requests {
		if request.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("it asks for what it has no right to: %s %s", request, request.RequestURI)
		}
		if request.ObjectRef.Namespace != "" && request.ObjectRef.Namespace != s.namespace {
			t.Errorf("it asks in another namespace: %s %s", request, request.RequestURI)
		}
	}
}

func TestWatchSelector(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  selector: {matchLabels: {tier: front}}\n")})
	s.create("without")
	s.deploy("with", kit.Label("tier", "front"))
	s.untouched("without")
	s.edit("without", kit.Label("tier", "front"))
	s.awaitDeployed("without")
}

func TestWatchPeriodAndConcurrency(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  reconcilePeriod: 500ms\n  maxConcurrentReconciles: 3\n")})
	s.deploy("hello")
	if got := operator.metric(t, "controller_runtime_max_concurrent_reconciles", ""); got != 3+32 { // 32 for hooks
		t.Errorf("%v reconciles at once, not the 3 of the watches entry, and 32 that may wait for hooks", got)
	}
	reconciles := operator.reconciles(t)
	s.await("it is reconciled again and again", func() error { return atLeast(operator.reconciles(t)-reconciles, 4) })
	s.must(s.hasRecords("hello", 1))
}

func TestWatchDependentResourcesOff(t *testing.T) {
	s := newScene(t)
	before := s.record()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  watchDependentResources: false\n")})
	s.deploy("hello")
	s.settled(operator)
	s.deleteService("hello")
	s.deploy("later")
	s.settled(operator)
	if err := s.find(&corev1.Service{}, "hello"); !apierrors.IsNotFound(err) {
		t.Errorf("the Service is back, although nobody watches it: %v", err)
	}
	for _, request := range before.of(operator) {
		if request.Verb == "watch" && slices.Contains([]string{"deployments", "services"}, request.ObjectRef.Resource) {
			t.Errorf("children are watched: %s", request)
		}
	}
	// The next reconcile repairs it all the same.
	s.edit("hello", kit.Annotate("example.com/poke", "1"))
	s.awaitExists(&corev1.Service{}, "hello")
}

// What watches.yaml pins, no custom resource changes.
func TestOverrideValues(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("image", "example.com/evil:1")) // pruned by the CRD
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
		t.Errorf("the image is %q", got)
	}
	if _, stored := s.welcome("hello").Object["spec"].(map[string]any)["image"]; stored {
		t.Error("spec.image was stored")
	}
}

// The admin of a namespace can give the operator a right there, and only there. A kind that it may see
// nowhere else is not watched where it watches all namespaces: it would wait for ever, with all that it
// serves.
func TestRightInOneNamespaceHoldsUpNobody(t *testing.T) {
	s := newScene(t)
	s.grantJobs()
	operator := s.ownOperator(settings{watches: watchesWithMore(t, `
{{- if .Values.podLabels.job }}
apiVersion: batch/v1
kind: CronJob
metadata: {name: {{ .Release.Name }}-more}
spec: {schedule: "@yearly", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a:1}]}}}}}
{{- end }}
`)})
	s.deploy("job", kit.Set("podLabels", map[string]any{"job": "yes"}))
	s.get(&batchv1.CronJob{}, "job-more")
	s.deploy("other")
	s.must(operator.ready())
}

// An operator whose right to see a kind is taken away while it runs is ready, and goes on with the others.
// That it no longer sees anything of that kind, a metric tells.
func TestRightThatIsTakenAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.serveKind("Overlooked")
	operator := s.ownOperator(settings{account: s.accountForKinds(), namespaces: []string{s.namespace}, watches: watchesWith("") + entryOf("Overlooked", noteChart(t), "")})
	s.createOf("Overlooked", "seen")
	s.awaitOf("Overlooked", "seen", "Ready")
	const failures = "welcome_operator_watch_errors_total"
	if before := operator.metric(t, failures, ""); before != 0 {
		t.Errorf("%v watches have failed", before)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: objectMeta("", s.namespace+"-"+s.namespace)}
	s.get(binding, binding.Name)
	s.must(env.Client.Delete(ctx, binding))
	s.awaitNoRight(s.namespace, kindsGroup, "overlookeds")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.get(crd, "overlookeds."+kindsGroup)
	crd.Spec.Names.ShortNames = []string{"over"}
	s.must(env.Client.Update(ctx, crd)) // which ends the watch, that would go on for minutes
	s.await("the operator tells that it sees nothing", func() error {
		if operator.metric(t, failures, `kind="Overlooked"`) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.must(operator.ready())
	s.deploy("hello")
	if others := operator.metric(t, failures, `kind="(Welcome|ConfigMap)"`); others != 0 {
		t.Errorf("%v watches of others have failed", others)
	}
	binding.ResourceVersion = ""
	s.must(env.Client.Create(ctx, binding))
	s.delete(s.of("Overlooked", "seen"))
}

package integration

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// asksFor is a Welcome with an Ingress for a host.
func asksFor(host string) kit.Edit {
	return func(welcome *unstructured.Unstructured) {
		kit.Set("ingress.enabled", true)(welcome)
		kit.Set("ingress.host", host)(welcome)
	}
}

// editor logs in as somebody who is bound to welcome-editor-role in the namespace of the test, and to nothing else.
func (s *scene) editor() client.Client {
	s.Helper()
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "editor")}))
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(s.namespace, "editor"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "welcome-editor-role"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "editor"}},
	}))
	token, err := env.Token(ctx, s.namespace, "editor")
	s.must(err)
	editor, err := client.New(env.As(token), client.Options{Scheme: env.Client.Scheme()})
	s.must(err)
	return editor
}

// Who may write Welcomes and nothing else gets no host and no annotation that a controller obeys, in the operator as it is
// deployed. They are told why, and nothing is made.
func TestNoHostAndNoPrefixedAnnotationByDefault(t *testing.T) {
	s := newScene(t)
	editor := s.editor()
	s.await("the editor may write Welcomes", func() error { return editor.List(ctx, kit.Welcomes(), client.InNamespace(s.namespace)) })
	ingress := &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "mine"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "bank.example.com"}}}}
	if err := editor.Create(ctx, ingress); !apierrors.IsForbidden(err) {
		t.Fatalf("the editor may make an Ingress: %v", err)
	}
	operator := s.operator()
	refused := map[string]struct {
		edit kit.Edit
		says string
	}{
		"host":     {asksFor("bank.example.com"), `host "bank.example.com" (Ingress "host")`},
		"wildcard": {asksFor("*.example.com"), `host "*.example.com"`},
		"eip":      {kit.Set("service.annotations", map[string]any{"service.beta.kubernetes.io/aws-load-balancer-eip-allocations": "eipalloc-1"}), `annotation "service.beta.kubernetes.io/aws-load-balancer-eip-allocations" (Service "eip")`},
		"metallb":  {kit.Set("service.annotations", map[string]any{"metallb.io/loadBalancerIPs": "192.0.2.1", "team": "a"}), `annotation "metallb.io/loadBalancerIPs"`},
	}
	before := s.record()
	for name, c := range refused {
		s.must(editor.Create(ctx, kit.Welcome(s.namespace, name, c.edit)))
	}
	for name, c := range refused {
		s.awaitReason(name, "NotAllowed", c.says, "hosts: none", "annotations with a prefix: none", "platform team", "watches.yaml")
		s.awaitCondition(name, "Stalled", "True", c.says)
		s.awaitEvent(name, "NotAllowed", c.says)
		for _, kind := range childKinds[:6] {
			list := kind.DeepCopy()
			s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace)))
			for _, object := range list.Items {
				t.Errorf("there is a %s %s", object.GetKind(), object.GetName())
			}
		}
		s.must(s.hasRecords(name, 0))
	}
	for _, request := range before.of(operator) {
		if request.Writes() && request.ObjectRef.Resource != "welcomes" {
			t.Errorf("a refused Welcome costs %s", request)
		}
	}

	// The way out is in the author's hands, too.
	for name := range refused {
		s.edit(name, kit.Set("ingress", map[string]any{}), kit.Set("service.annotations", map[string]any{"team": "a"}))
		s.awaitDeployed(name)
	}
}

// The platform allows hosts of a tenant's own and annotations in watches.yaml. What asks for more changes
// nothing of what is there.
func TestAllowedHostsAndAnnotations(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith(
		"  allow: {hosts: ['*.{namespace}.apps.example.com'], annotations: [cert-manager.io/cluster-issuer, 'nginx.ingress.kubernetes.io/rewrite-*']}\n")})
	mine := "hello." + s.namespace + ".apps.example.com"
	s.deploy("hello", kit.Greet("before"), asksFor(mine), kit.Set("ingress.tlsSecretName", "cert"),
		kit.Set("ingress.annotations", map[string]any{"cert-manager.io/cluster-issuer": "letsencrypt", "nginx.ingress.kubernetes.io/rewrite-target": "/", "note": "x"}))
	ingress := &networkingv1.Ingress{}
	s.get(ingress, "hello")
	if ingress.Spec.Rules[0].Host != mine || ingress.Annotations["cert-manager.io/cluster-issuer"] != "letsencrypt" {
		t.Errorf("the Ingress is %+v", ingress)
	}
	s.settled(operator)

	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	records := names(s.records("hello"))
	for _, c := range []struct {
		edit kit.Edit
		says string
	}{
		{kit.Set("ingress.host", "hello.another.apps.example.com"), "*." + s.namespace + ".apps.example.com"},
		{kit.Set("ingress.host", "*.apps.example.com"), `host "*.apps.example.com"`},
		{kit.Set("ingress.annotations", map[string]any{"nginx.ingress.kubernetes.io/auth-url": "https://example.com"}), `annotation "nginx.ingress.kubernetes.io/auth-url"`},
	} {
		spec := s.welcome("hello").Object["spec"]
		s.edit("hello", kit.Greet("after"), c.edit)
		s.awaitReason("hello", "NotAllowed", c.says)
		left, now := &networkingv1.Ingress{}, &appsv1.Deployment{}
		s.get(left, "hello")
		s.get(now, "hello")
		if left.ResourceVersion != ingress.ResourceVersion || now.ResourceVersion != deployment.ResourceVersion {
			t.Errorf("%s: what was there has changed: %+v, it greets %q", c.says, left.Spec, kit.Greeting(now))
		}
		if now := names(s.records("hello")); fmt.Sprint(now) != fmt.Sprint(records) {
			t.Errorf("%s: there were records %v, and are %v", c.says, records, now)
		}
		s.edit("hello", func(welcome *unstructured.Unstructured) { welcome.Object["spec"] = spec })
		s.awaitDeployed("hello")
		s.awaitCondition("hello", "Stalled", "False")
	}
}

// A platform that allows less than before, or a new version of the operator, meets Welcomes with hosts that
// nobody allows: their objects stay as they are, their Welcomes say so, and they stop no rollout to others.
func TestHostsThatNobodyAllowsAnyLonger(t *testing.T) {
	s := newScene(t)
	watches := watchesWithMore(t, `{{ if eq .Values.name "broken" }}{{ fail "out of order" }}{{ end }}`)
	allowing := settings{namespaces: []string{s.namespace}, watches: watches + "  allow: {hosts: ['*.example.com']}\n"}
	first := s.ownOperator(allowing)
	for i := range 3 {
		s.deploy(fmt.Sprintf("with-%d", i), asksFor("hello.example.com"))
	}
	s.deploy("without")
	s.bringUp("without") // or it would be underway for ever
	s.settled(first)
	read := func() map[string]string {
		all := map[string]string{}
		for _, kind := range childKinds[:3] {
			list := kind.DeepCopy()
			s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace)))
			for _, object := range list.Items {
				all[object.GetKind()+" "+object.GetName()] = object.GetResourceVersion()
			}
		}
		return all
	}
	before := read()
	first.Stop()

	second := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watches, args: []string{"--rollout-max-concurrent=1", "--rollout-max-failures=1"}})
	for i := range 3 {
		s.awaitReason(fmt.Sprintf("with-%d", i), "NotAllowed", `host "hello.example.com"`)
	}
	s.awaitDeployed("without")
	s.settled(second)
	s.must(s.hasRecords("without", 1)) // it asks for nothing
	if after := read(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("there were %v, and are %v", before, after)
	}
	if url, _, _ := unstructured.NestedString(s.welcome("with-0").Object, "status", "url"); !strings.Contains(url, "hello.example.com") {
		t.Errorf("its page, which is still there, has the URL %q", url)
	}
	// An Ingress that the platform takes away does not come back.
	ingress := &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "with-0")}
	reconciles := second.reconciles(t)
	s.must(env.Client.Delete(ctx, ingress))
	s.edit("with-0", kit.Annotate("example.com/poke", "1"))
	s.await("its deletion is seen", func() error { return atLeast(second.reconciles(t)-reconciles, 2) })
	s.settled(second)
	if err := s.find(ingress, "with-0"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there again: %v", err)
	}
	// Nor one of a Welcome that fails for another reason, while what it had otherwise is kept.
	s.edit("with-1", kit.Greet("broken"))
	s.awaitReason("with-1", "InvalidValues", "out of order")
	s.must(env.Client.Delete(ctx, &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "with-1")}))
	reconciles = second.reconciles(t)
	s.edit("with-1", kit.Annotate("example.com/poke", "1"))
	s.await("its deletion is seen", func() error { return atLeast(second.reconciles(t)-reconciles, 2) })
	s.settled(second)
	if err := s.find(ingress, "with-1"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there again: %v", err)
	}
	// Nor by the rollback of an edit that asks for no host, and fails.
	mine := &policyv1.PodDisruptionBudget{ObjectMeta: objectMeta(s.namespace, "with-0"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}}
	s.must(env.Client.Create(ctx, mine))
	s.edit("with-0", kit.Set("ingress.enabled", false), kit.Set("podDisruptionBudget", map[string]any{"enabled": true, "maxUnavailable": int64(1)}))
	s.awaitReason("with-0", "ObjectInTheWay", `PodDisruptionBudget "with-0"`)
	s.await("it is tried again", func() error {
		return atLeast(int(second.metric(t, "welcome_operator_release_actions_total", `action="upgrade".*reason="ObjectInTheWay".*result="failure"`)), 3)
	})
	if err := s.find(ingress, "with-0"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there again: %v", err)
	}
	s.must(env.Client.Delete(ctx, mine))
	s.edit("with-0", kit.Set("podDisruptionBudget", map[string]any{}))
	s.awaitDeployed("with-0")
	second.Stop()
	s.edit("with-1", kit.Greet("mended"))
	s.edit("with-0", kit.Set("ingress.enabled", true))

	s.ownOperator(allowing)
	for i := range 3 {
		s.awaitDeployed(fmt.Sprintf("with-%d", i))
		s.awaitExists(&networkingv1.Ingress{}, fmt.Sprintf("with-%d", i))
	}
}

// A chart that looks something up is repaired before an upgrade, but not to what the platform no longer allows.
func TestHostThatNobodyAllowsAnyLongerWithLookup(t *testing.T) {
	s := newScene(t)
	watches := watchesWithMore(t, `{{ $found := lookup "v1" "ConfigMap" .Release.Namespace "settings" }}`)
	first := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watches + "  allow: {hosts: ['*.example.com']}\n"})
	s.deploy("hello", asksFor("hello.example.com"))
	s.bringUp("hello")
	s.settled(first)
	first.Stop()

	second := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watches})
	s.awaitReason("hello", "NotAllowed", `host "hello.example.com"`)
	ingress := &networkingv1.Ingress{ObjectMeta: objectMeta(s.namespace, "hello")}
	s.must(env.Client.Delete(ctx, ingress))
	failed := func() int {
		return int(second.metric(t, "welcome_operator_release_actions_total", `action="upgrade".*result="failure"`))
	}
	before := failed()
	s.edit("hello", kit.Greet("after"))
	s.await("the edit is refused, too", func() error { return atLeast(failed()-before, 1) })
	s.awaitReason("hello", "NotAllowed", `host "hello.example.com"`)
	if err := s.find(ingress, "hello"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there again: %v", err)
	}
	s.edit("hello", kit.Set("ingress.enabled", false))
	s.awaitDeployed("hello")
}

// What the chart asks for itself, the same for everybody, is the platform's. What becomes of an author's text
// is not, wherever a template puts it, and whatever it looks like.
func TestOnlyTheChartAsksForWhatItLikes(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-more
  annotations:
    example.com/own: {{ .Release.Name }}
    checksum/name: {{ .Values.name | sha256sum | quote }}
    {{- with .Values.podLabels.key }}
    {{ . }}.example.com/key: x
    {{- end }}
    {{- tpl (.Values.podLabels.tpl | default "") . | nindent 4 }}
spec:
  ports: [{port: 80}]
  {{- with .Values.podLabels.address }}
  externalIPs: [{{ . | quote }}]
  {{- end }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: {{ .Release.Name }}-more}
spec:
  rules:
  - host: {{ .Release.Name }}.{{ .Values.podLabels.domain | default "example.com" }}
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: {{ .Release.Name }}, port: {name: http}}}}]}
  {{- if .Values.podLabels.every }}
  defaultBackend: {service: {name: {{ .Release.Name }}, port: {name: http}}}
  {{- end }}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: {{ .Release.Name }}-more}
spec:
  schedule: "@yearly"
  jobTemplate:
    spec:
      template:
        {{- with .Values.podLabels.inner }}
        metadata: {annotations: {example.com/inner: {{ . | quote }}}}
        {{- end }}
        spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a:1}]}
`)})
	s.grantJobs()
	s.deploy("plain", kit.Greet("myfriends"), kit.Set("podLabels", map[string]any{"team": "a"}))
	ingress := &networkingv1.Ingress{}
	s.get(ingress, "plain-more")
	service := &corev1.Service{}
	s.get(service, "plain-more")
	if ingress.Spec.Rules[0].Host != "plain.example.com" || service.Annotations["example.com/own"] != "plain" {
		t.Errorf("hosts %+v, annotations %v", ingress.Spec.Rules, service.Annotations)
	}
	for name, c := range map[string]struct{ key, value, says string }{
		"key":     {"key", "evil", `annotation "evil.example.com/key" (Service "key-more")`},
		"tpl":     {"tpl", "x", ""}, // no annotation, and no YAML
		"address": {"address", "192.0.2.1", `host "192.0.2.1" (Service "address-more")`},
		"domain":  {"domain", "bank.com", `host "domain.bank.com" (Ingress "domain-more")`},
		"every":   {"every", "yes", `every host (Ingress "every-more")`},
		"inner":   {"inner", "x", `annotation "example.com/inner" (CronJob "inner-more")`},
	} {
		s.create(name, kit.Set("podLabels", map[string]any{c.key: c.value}))
		if c.says == "" {
			s.awaitCondition(name, "Ready", "False", "YAML")
		} else {
			s.awaitReason(name, "NotAllowed", c.says)
		}
		if err := s.find(&appsv1.Deployment{}, name); !apierrors.IsNotFound(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// revisedChart is a chart that asks for something else by itself at each revision, at an upgrade and at each time. It makes a
// ClusterRole, a Role at an upgrade only, and a ConfigMap with annotations, of which an author may set one.
func revisedChart(t *testing.T) string {
	t.Helper()
	return chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: revised, version: 0.1.0}",
		"values.yaml": "{note: hello, key: \"\", extraRules: []}",
		"templates/all.yaml": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .Release.Namespace }}.{{ .Release.Name }}
  labels: {helm.sh/revision: {{ .Release.Revision | quote }}}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
{{- if .Release.IsUpgrade }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [r{{ .Release.Revision }}], verbs: [get]}
{{- range .Values.extraRules }}
- {{ toJson . }}
{{- end }}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  annotations:
    deployment.kubernetes.io/revision: {{ .Values.key | default .Release.Revision | quote }}
    kubectl.kubernetes.io/restartedAt: {{ now | quote }}
data: {note: {{ .Values.note }}}
`,
	})
}

// What a chart asks for by itself stays its own at an upgrade, whatever it says of the revision and the time there, and
// what an author adds then does not become so.
func TestChartAsksByRevisionAndTime(t *testing.T) {
	s := newScene(t)
	s.serveKind("Revised")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Revised", revisedChart(t), `
  allow:
    kinds: [Role.rbac.authorization.k8s.io]
    cluster: [{kind: ClusterRole.rbac.authorization.k8s.io, name: "{namespace}.{name}"}]
`)})
	s.createOf("Revised", "hello")
	s.awaitOf("Revised", "hello", "Ready")
	for _, note := range []string{"second", "third"} {
		s.editOf("Revised", "hello", kit.Set("note", note))
		s.awaitOf("Revised", "hello", "Ready")
	}
	role, inCluster := &rbacv1.Role{}, &rbacv1.ClusterRole{}
	s.get(role, "hello")
	s.get(inCluster, s.namespace+".hello")
	if role.Rules[0].ResourceNames[0] != "r3" || inCluster.Labels["helm.sh/revision"] != "3" {
		t.Errorf("the Role has %+v, the ClusterRole %v", role.Rules, inCluster.Labels)
	}
	s.costsNothing(operator, "Revised")
	s.comesBack(role)
	s.comesBack(inCluster)
	for name, edit := range map[string]kit.Edit{
		"rules":              kit.Set("extraRules", []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}),
		"an annotation":      kit.Set("key", "evil"),
		"more than a number": kit.Set("key", "4; evil"),
	} {
		spec := s.of("Revised", "hello").Object["spec"]
		s.editOf("Revised", "hello", edit, kit.Set("note", name))
		s.awaitOf("Revised", "hello", "Stalled", "NotAllowed")
		now := &rbacv1.Role{}
		if s.get(now, "hello"); now.ResourceVersion != role.ResourceVersion {
			t.Errorf("%s: the Role is %+v", name, now)
		}
		s.editOf("Revised", "hello", func(cr *unstructured.Unstructured) { cr.Object["spec"] = spec })
		s.awaitOf("Revised", "hello", "Ready")
		s.get(role, "hello") // the former spec may be another revision
	}
	s.delete(s.of("Revised", "hello"))
}

// Where a chart can't be rendered without what its author sets, nothing can be its own. Who is refused is told why, and what
// helps does.
func TestChartThatNeedsAValueAsksForNothingByItself(t *testing.T) {
	s := newScene(t)
	s.serveKind("Needy")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: needy, version: 0.1.0}",
		"templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: {{ .Release.Name }}, labels: {domain: {{ required \"say a domain\" .Values.domain }}}}\nrules: []\n",
	})
	account, watches := s.accountForCharts(), entryOf("Needy", chart, "  allow: {kinds: [Role.rbac.authorization.k8s.io]}\n")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: watches})
	s.createOf("Needy", "hello", kit.Set("domain", "mine"))
	s.awaitOf("Needy", "hello", "Stalled", "NotAllowed", `Role "hello"`, "Nothing counts as the chart's own", "say a domain", "pin that (overrideValues)", "platform team")
	operator.Stop()
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: watches + "  overrideValues: {domain: ours}\n"})
	s.awaitOf("Needy", "hello", "Ready")
	s.delete(s.of("Needy", "hello"))
}

// Hooks are judged before the first of them runs.
func TestHooksAskForNothing(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-first
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "1", helm.sh/hook-delete-policy: before-hook-creation}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-second
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "2"
    helm.sh/hook-delete-policy: before-hook-creation
    {{- with .Values.podLabels.text }}
    example.com/text: {{ . | quote }}
    {{- end }}
`)})
	s.deploy("plain")
	s.get(&corev1.ConfigMap{}, "plain-second")
	s.create("asks", kit.Set("podLabels", map[string]any{"text": "x"}))
	s.awaitReason("asks", "NotAllowed", `annotation "example.com/text" (ConfigMap "asks-second")`)
	if err := s.find(&corev1.ConfigMap{}, "asks-first"); !apierrors.IsNotFound(err) {
		t.Errorf("the first hook ran: %v", err)
	}
	s.must(s.hasRecords("asks", 0))
}

// What the author of a Welcome may ask for without leave, a quota of the namespace bounds, and the Welcome says so.
func TestQuotaBoundsWhatAWelcomeAsksFor(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.none("count/poddisruptionbudgets.policy", &policyv1.PodDisruptionBudget{ObjectMeta: objectMeta(s.namespace, "probe")})
	s.create("budget", kit.Set("podDisruptionBudget", map[string]any{"enabled": true, "maxUnavailable": int64(0)}))
	s.awaitReason("budget", "QuotaExceeded", "poddisruptionbudgets")
	s.deploy("plain")
}

// grantJobs gives the operator rights on Jobs and CronJobs in the namespace of the test.
func (s *scene) grantJobs() {
	s.Helper()
	s.grant(batchv1.GroupName, "jobs", "cronjobs")
}

// grant gives the operator all rights on resources of a group in the namespace of the test.
func (s *scene) grant(group string, resources ...string) {
	s.Helper()
	s.grantTo(operatorAccount, group, resources...)
}

// grantTo is grant for another account of the operator's namespace.
func (s *scene) grantTo(account, group string, resources ...string) {
	s.Helper()
	s.must(env.Client.Create(ctx, &rbacv1.Role{
		ObjectMeta: objectMeta(s.namespace, resources[0]),
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}},
	}))
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(s.namespace, resources[0]),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: resources[0]},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: account}},
	}))
}

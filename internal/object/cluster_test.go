package object

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var clusterRole = schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}

func TestInNoNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		pattern, object string
		want            bool
	}{
		"the name":               {"{namespace}.{name}", "team-a.hello", true},
		"the name, and more":     {"{namespace}.{name}", "team-a.hello-x", false},
		"any end":                {"{namespace}.{name}-*", "team-a.hello-reader", true},
		"another custom one's":   {"{namespace}.{name}-*", "team-a.hell-reader", false},
		"of another namespace":   {"{namespace}.{name}-*", "team-b.hello-reader", false},
		"between":                {"x:{name}:*:{namespace}", "x:hello:a:b:team-a", true},
		"a system's":             {"{namespace}.{name}-*", "system:admin", false},
		"a pattern for patterns": {"{namespace}.{name}-*", "team-a.hello-[a]", true},
	} {
		allow := Allow{Cluster: []ClusterKind{{Kind: clusterRole.String(), Name: c.pattern}}}
		if err := allow.InNoNamespace(greeting(), clusterRole, c.object); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err := allow.InNoNamespace(greeting(), schema.GroupKind{Group: clusterRole.Group, Kind: "ClusterRoleBinding"}, c.object); err == nil {
			t.Errorf("%s: another kind may have it", name)
		}
	}
}

// What a refusal says to write allows what it is about, and nothing of anybody else.
func TestPatternOf(t *testing.T) {
	for _, c := range []struct{ namespace, name, object, want string }{
		{"team-a", "hello", "team-a.hello-reader", "{namespace}.{name}-reader"},
		{"app", "app-x", "app-x.app", "{name}.{namespace}"},
		{"app-x", "app", "app-x.app", "{namespace}.{name}"},
		{"name", "namespace", "name-namespace", "{namespace}-{name}"},
		{"team-a", "hello", "hello-reader", ""},
		{"a", "a", "a-a", "{namespace}-{name}"},
		{"team-a", "hello", "team-a.hello-team-a.hello:team-a", "{namespace}.{name}-{namespace}.{name}:{namespace}"},
		{"team", "a", "a-data-team", "{name}-data-{namespace}"},
		{"team", "a", "team-a-a", "{namespace}-{name}-{name}"},
		{"app-x", "app", "app-x-app-x-app", "{namespace}-{namespace}-{name}"},
		{"team", "app", "myapp-team-teams", "my{name}-{namespace}-teams"},
	} {
		owner := &metav1.ObjectMeta{Namespace: c.namespace, Name: c.name}
		pattern, ok := patternOf(owner, c.object)
		if pattern != c.want || ok != (c.want != "") {
			t.Errorf("%v: %q, %t", c, pattern, ok)
		}
		if !ok {
			continue
		}
		kind := ClusterKind{Kind: clusterRole.String(), Name: pattern}
		if err := kind.validate(); err != nil {
			t.Error(err)
		}
		if err := (Allow{Cluster: []ClusterKind{kind}}).InNoNamespace(owner, clusterRole, c.object); err != nil {
			t.Error(err)
		}
	}
}

// What a refusal says to do helps.
func TestRemedies(t *testing.T) {
	const pin = "overrideValues: {fullnameOverride"
	for _, c := range []struct{ group, kind, name, want, without string }{
		{"rbac.authorization.k8s.io", "ClusterRole", "hello", pin, "not at all"},
		{"rbac.authorization.k8s.io", "ClusterRole", "hello", "turn the object off", "not at all"},
		{"apiextensions.k8s.io", "CustomResourceDefinition", "things.example.com", "install it before", pin},
		{"apiregistration.k8s.io", "APIService", "v1.example.com", "install it before", pin},
		{"example.com", "APIService", "v1.example.com", pin, "install it before"},
		{"admissionregistration.k8s.io", "MutatingWebhookConfiguration", "team-a-hello", "namespaceSelector", pin},
		{"rbac.authorization.k8s.io", "ClusterRole", "team-a-hello", "{namespace}-{name}", "namespaceSelector"},
	} {
		if err := (Allow{}).InNoNamespace(greeting(), schema.GroupKind{Group: c.group, Kind: c.kind}, c.name); !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.without) {
			t.Errorf("it does not say %q, or says %q: %v", c.want, c.without, err)
		}
	}
}

func TestValidateClusterKind(t *testing.T) {
	for pattern, want := range map[string]bool{
		"{namespace}.{name}": true, "{name}:x:{namespace}-*": true, "*": false, "{namespace}-*": false, "{name}": false, "{namespace}/{name}": false, "{namespace}[{name}]": false, "": false,
	} {
		if err := (Allow{Cluster: []ClusterKind{{clusterRole.String(), pattern}}}).Validate(); (err == nil) != want {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if err := (Allow{Cluster: []ClusterKind{{"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io", "{namespace}-{name}"}}}).Validate(); err == nil {
		t.Error("an admission policy is allowed")
	}
	if err := (Allow{Cluster: []ClusterKind{{"Namespace", "{namespace}-{name}"}}}).Validate(); err == nil || !strings.Contains(err.Error(), "with its group") {
		t.Error(err)
	}
}

func TestCheckReach(t *testing.T) {
	isNamespaced := func(r schema.GroupResource) bool { return r.String() == "pods" || r.String() == "deployments.apps" }
	const (
		here = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}"
		pods = "rules: [{apiGroups: [''], resources: [pods]}]"
	)
	webhook := func(kind string, parts ...string) string {
		return "kind: " + kind + "WebhookConfiguration\nwebhooks: [{name: ok, " + here + ", " + pods + "}, {" + strings.Join(parts, ", ") + "}]"
	}
	for name, c := range map[string]struct {
		object string
		want   string
	}{
		"its namespace":                {webhook("Validating", here, pods), ""},
		"in words":                     {webhook("Mutating", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a]}]}", pods), ""},
		"all":                          {webhook("Mutating", pods), "other namespaces"},
		"another one":                  {webhook("Mutating", "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-b}}", pods), "other namespaces"},
		"one of two":                   {webhook("Mutating", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a, team-b]}]}", pods), "other namespaces"},
		"all but one":                  {webhook("Mutating", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-a]}]}", pods), "other namespaces"},
		"a label that anybody may set": {webhook("Mutating", "namespaceSelector: {matchLabels: {team: a}}", pods), "other namespaces"},
		"an object selector alone":     {webhook("Mutating", "objectSelector: {matchLabels: {team: a}}", pods), "other namespaces"},
		"nodes":                        {webhook("Mutating", here, "rules: [{apiGroups: [''], resources: [pods, nodes]}]"), "cluster-scoped"},
		"everything":                   {webhook("Mutating", here, "rules: [{apiGroups: ['*'], resources: ['*']}]"), "cluster-scoped"},
		"everything in namespaces":     {webhook("Mutating", here, "rules: [{apiGroups: ['*'], resources: ['*'], scope: Namespaced}]"), ""},
		"a subresource":                {webhook("Mutating", here, "rules: [{apiGroups: [apps], resources: [deployments/scale]}]"), ""},
		"what asks nobody":             {"kind: ClusterRole\nrules: []", ""},
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &o.Object); err != nil {
			t.Fatal(err)
		}
		err := CheckReach(o, "team-a", isNamespaced)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What rights there are is the chart's to say, whatever the platform allows: but not its version, and what a chart makes up.
func TestAskForContent(t *testing.T) {
	of := func(text string) []Ask {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return Asks(o)
	}
	everything := Allow{Hosts: []string{"*"}, Annotations: []string{"*"}, Kinds: []string{clusterRole.String(), "Role.rbac.authorization.k8s.io"}, Cluster: []ClusterKind{{clusterRole.String(), "{namespace}.{name}"}}}
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: team-a.hello, labels: {helm.sh/chart: x-1, team: a}}\nrules: []"
	asks := of(role)
	if refused := everything.Refused("team-a", asks); len(refused) != 1 || !strings.Contains(refused[0].String(), "as the chart makes it") {
		t.Errorf("a ClusterRole asks for %v", refused)
	}
	for change, same := range map[string]bool{"x-1=x-2": true, "team: a=team: b": false, "rules: []=rules: [{}]": false, "name: team-a.hello=name: team-a.other": false} {
		from, to, _ := strings.Cut(change, "=")
		if got := of(strings.Replace(role, from, to, 1)); got[0].Same(asks[0]) != same {
			t.Errorf("%s: the same is %t", change, !same)
		}
	}
	if asks := of("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x, namespace: team-a}"); len(everything.Refused("team-a", asks)) != 1 {
		t.Errorf("a Role asks for %v", asks)
	} else if refused := (Allow{}).Refused("team-a", asks); len(refused) != 1 {
		t.Errorf("a Role of an author's, whose kind may have none, is refused only if the operator may make none for another kind: %v", refused)
	}
	const webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: x}\nwebhooks: [{name: a, clientConfig: {caBundle: YQ==}}]"
	if !of(webhook)[0].Same(of(strings.Replace(webhook, "YQ==", "Yg==", 1))[0]) {
		t.Error("a certificate that a chart makes is its author's")
	}
}

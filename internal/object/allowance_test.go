package object

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What is told of what is refused, pasted into the entry, allows it.
func TestAllowing(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"host":               {ingressOf + "{rules: [{host: a.b}]}", "allow: {hosts: ['a.b']}"},
		"hosts":              {ingressOf + "{rules: [{host: '*.a.b'}, {host: c.d}, {host: c.d}]}", "allow: {hosts: ['*.a.b', 'c.d']}"},
		"address":            {serviceOf + "{externalIPs: ['2001:db8::1']}", "allow: {hosts: ['2001:db8::1']}"},
		"every host":         {ingressOf + "{rules: [{http: {}}]}", "allow: {}"},
		"a host that is not": {ingressOf + "{rules: [{host: \"a'], kinds: ['X.y\"}, {host: a_b.c}]}", "allow: {}"},
		"annotation":         {podsOf + "{a.b/c: d}}}}", "allow: {annotations: ['a.b/c']}"},
		"pattern":            {podsOf + "{a.b/*: d}}}}", "allow: {}"},
		"kind":               {"apiVersion: traefik.io/v1\nkind: IngressRoute", "allow: {kinds: ['IngressRoute.traefik.io']}"},
		"several": {"apiVersion: traefik.io/v1\nkind: IngressRoute\nmetadata: {annotations: {a.b/c: d}}",
			"allow: {annotations: ['a.b/c'], kinds: ['IngressRoute.traefik.io']}"},
	} {
		t.Run(name, func(t *testing.T) {
			asks := asksOf(t, c.object)
			got := Allow{}.allowing(asks)
			if got.String() != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
			var pasted struct{ Allow Allow }
			if err := yaml.UnmarshalStrict([]byte(got.String()), &pasted); err != nil || pasted.Allow.Validate() != nil {
				t.Fatal(err, pasted.Allow.Validate())
			}
			if refused := pasted.Allow.Refused("any", asks); c.want != "allow: {}" && len(refused) > 0 {
				t.Errorf("pasted, it does not allow %v", refused)
			}
		})
	}
}

// What a chart makes by itself takes a word for kinds and for pods, beside what is allowed already.
func TestAllowForChart(t *testing.T) {
	owner := &metav1.ObjectMeta{Namespace: "team-a", Name: "hello"}
	objects := []*unstructured.Unstructured{
		parse(t, ingressOf+"{rules: [{host: a.b}]}"),
		parse(t, podsOf+"{a.b/c: d}}, spec: {serviceAccountName: x, imagePullSecrets: [{name: x}]}}}"),
		parse(t, "apiVersion: traefik.io/v1\nkind: IngressRoute"), parse(t, "apiVersion: traefik.io/v1\nkind: IngressRoute"),
		parse(t, "apiVersion: istio.io/v1\nkind: Gateway"),
		parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role"),
	}
	for _, o := range objects {
		o.SetNamespace(owner.Namespace)
	}
	for _, name := range []string{"team-a-hello-view", "team-a-hello-view", "team-a-hello-edit"} {
		objects = append(objects, parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "+name+"}"))
	}
	before := Allow{Hosts: []string{"*.{namespace}.example.com"}, Kinds: []string{"Gateway.istio.io"}, Values: []string{"image.tag"}}
	const cluster = "cluster: [{kind: 'ClusterRole.rbac.authorization.k8s.io', name: '{namespace}-{name}-view'}, {kind: 'ClusterRole.rbac.authorization.k8s.io', name: '{namespace}-{name}-edit'}]"
	for secrets, want := range map[bool]string{
		false: "allow: {" + cluster + ", hosts: ['*.{namespace}.example.com'], kinds: ['Gateway.istio.io', 'IngressRoute.traefik.io', 'Role.rbac.authorization.k8s.io'], pods: ['serviceAccounts', 'secrets'], values: ['image.tag']}",
		true:  "allow: {" + cluster + ", hosts: ['*.{namespace}.example.com'], kinds: ['Gateway.istio.io', 'IngressRoute.traefik.io', 'Role.rbac.authorization.k8s.io'], pods: ['serviceAccounts'], values: ['image.tag']}",
	} {
		got, more := before.ForChart(owner, objects, secrets)
		if more != nil || got.String() != want || len(before.Kinds) != 1 {
			t.Errorf("with secrets: %v, it is %s, not %s", secrets, got, want)
		}
		if again, _ := got.ForChart(owner, objects, secrets); again.String() != want {
			t.Errorf("then, it takes %s", again)
		}
	}

	if _, more := before.ForChart(owner, []*unstructured.Unstructured{
		parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: one}"), parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: two}"),
	}, false); strings.Count(more.Error(), "\n") != 1 || !strings.Contains(more.Error(), `"one"`) || !strings.Contains(more.Error(), `"two"`) {
		t.Errorf("of two, it says: %v", more)
	}

	// A name that others have, too, is not allowed by its pattern, nor is a kind without a group.
	for text, want := range map[string]string{
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: hello}": `ClusterRole "hello"`,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a-hello}":                      `Namespace "team-a-hello"`,
	} {
		got, more := before.ForChart(owner, []*unstructured.Unstructured{parse(t, text)}, false)
		if more == nil || !strings.Contains(more.Error(), want) || got.String() != before.String() {
			t.Errorf("%s: %v, %s", text, more, got)
		}
	}
}

package object

import (
	"testing"

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
			got := Allow{}.Allowing(asks)
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
	objects := []*unstructured.Unstructured{
		parse(t, ingressOf+"{rules: [{host: a.b}]}"),
		parse(t, podsOf+"{a.b/c: d}}, spec: {serviceAccountName: x, imagePullSecrets: [{name: x}]}}}"),
		parse(t, "apiVersion: traefik.io/v1\nkind: IngressRoute"), parse(t, "apiVersion: traefik.io/v1\nkind: IngressRoute"),
		parse(t, "apiVersion: istio.io/v1\nkind: Gateway"),
	}
	before := Allow{Hosts: []string{"*.{namespace}.example.com"}, Kinds: []string{"Gateway.istio.io"}, Values: []string{"image.tag"}}
	for secrets, want := range map[bool]string{
		false: "allow: {hosts: ['*.{namespace}.example.com'], kinds: ['Gateway.istio.io', 'IngressRoute.traefik.io'], pods: ['serviceAccounts', 'secrets'], values: ['image.tag']}",
		true:  "allow: {hosts: ['*.{namespace}.example.com'], kinds: ['Gateway.istio.io', 'IngressRoute.traefik.io'], pods: ['serviceAccounts'], values: ['image.tag']}",
	} {
		got := before.ForChart(objects, secrets)
		if got.String() != want || len(before.Kinds) != 1 {
			t.Errorf("with secrets: %v, it is %s, not %s", secrets, got, want)
		}
		if again := got.ForChart(objects, secrets); again.String() != want {
			t.Errorf("then, it takes %s", again)
		}
	}
}

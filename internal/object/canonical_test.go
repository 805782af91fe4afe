package object

import (
	"reflect"
	"testing"
)

func TestCanonical(t *testing.T) {
	for name, c := range map[string]struct{ rendered, want string }{
		"rules that the cluster collects": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}, rules: []}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}",
		},
		"a quantity": {
			"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, resources: {requests: {cpu: 0.1}}}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}",
		},
		"a CA that a controller is to write": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: x}, webhooks: [{name: a, clientConfig: {caBundle: ''}, sideEffects: None, admissionReviewVersions: [v1]}]}",
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: x}, webhooks: [{name: a, clientConfig: {}, sideEffects: None, admissionReviewVersions: [v1]}]}",
		},
		"what a controller is to fill": {
			"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x}, addressType: IPv4, endpoints: []}",
			"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x}, addressType: IPv4}",
		},
		"but no rules, which somebody else could give": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: null}",
		},
		"a field of the future": {
			"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {future: 1, containers: [{name: a}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {future: 1, containers: [{name: a}]}}",
		},
		"what the API server keeps": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, uid: a, resourceVersion: '1', generation: 2, creationTimestamp: null}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}",
		},
		"an unknown kind, without its status": {
			"{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}, spec: {a: 0.1}, status: {b: 1}}",
			"{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}, spec: {a: 0.1}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := Canonical(parse(t, c.rendered)).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestRepeats(t *testing.T) {
	sent := parse(t, "{spec: {default: null, list: [1], deep: {a: 1}}}").Object
	for text, want := range map[string]bool{
		"{}":                              true,
		"{spec: {default: null}}":         true,
		"{spec: {deep: {a: 1}}}":          true,
		"{spec: {deep: {a: 2}}}":          false,
		"{spec: {list: [1, 2]}}":          false,
		"{spec: {added: null}}":           false,
		"{metadata: {labels: {a: null}}}": false,
	} {
		if got := Repeats(parse(t, text).Object, sent); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

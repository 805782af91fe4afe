package release

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestRestore(t *testing.T) {
	for name, c := range map[string]struct{ live, desired, want string }{
		"a changed field comes back": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, template: {a: drifted}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {a: wanted}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {a: wanted}}}",
		},
		"replicas of an autoscaler stay": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: false}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4, paused: false}}",
		},
		"replicas of the chart come back": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}",
		},
		"what the cluster gave a Service stays": {
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 1, nodePort: 30000}], externalIPs: [10.9.9.9]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{name: http, port: 80}]}}",
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80, nodePort: 30000}]}}",
		},
		"labels, annotations and owners of others stay": {
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: drifted, theirs: x}, annotations: {theirs: x}, ownerReferences: [{apiVersion: v1, kind: Thing, name: it, uid: '1'}]}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: wanted}}}",
			"{apiVersion: v1, kind: Service, metadata: {labels: {a: wanted, theirs: x}, annotations: {theirs: x}, ownerReferences: [{apiVersion: v1, kind: Thing, name: it, uid: '1'}]}}",
		},
		"fields of an unknown kind stay": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {filled: in, a: drifted}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {a: wanted}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {filled: in, a: wanted}}",
		},
		"elements of a list are matched by name": {
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: b, default: 1}, {name: added}, {name: a, default: 2}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a}, {name: b}]}}",
			"{apiVersion: example.com/v1, kind: Thing, spec: {list: [{name: a, default: 2}, {name: b, default: 1}]}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, desired := parse(t, c.live), parse(t, c.desired)
			if got, want := restore(live, desired).Object, parse(t, c.want).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if !reflect.DeepEqual(live, parse(t, c.live)) || !reflect.DeepEqual(desired, parse(t, c.desired)) {
				t.Error("the arguments were changed")
			}
		})
	}
}

func TestChanges(t *testing.T) {
	before := parse(t, "{metadata: {labels: {a: '1'}, resourceVersion: '1'}, spec: {a: 1, deep: {b: 1, c: 1}, list: [{n: x, v: 1}], other: [1]}, status: {x: 1}}").Object
	after := parse(t, "{metadata: {labels: {a: '2'}, resourceVersion: '2'}, spec: {a: 1, deep: {b: 2, d: 1}, list: [{n: x, v: 2}], other: [1, 2]}, status: {x: 2}}").Object
	want := []string{"metadata.labels.a", "spec.deep.b", "spec.deep.c", "spec.deep.d", "spec.list[0].v", "spec.other"}
	if got := changes(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

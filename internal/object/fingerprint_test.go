package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: x
  namespace: team-a
  resourceVersion: "1"
  generation: 1
  labels: {app: x}
  annotations: {a: b, theirs: x}
  ownerReferences: [{apiVersion: webapp.demo.welcome.domain/v1, kind: Welcome, name: x, uid: u, controller: true}]
spec:
  replicas: 2
  template: {spec: {containers: [{name: welcome, image: i}]}}
status: {replicas: 2}
`

func TestChildIsIntact(t *testing.T) {
	desired := parse(t, deploymentYAML)
	unstructured.RemoveNestedField(desired.Object, "metadata", "annotations", "theirs")
	child := ChildOf(parse(t, deploymentYAML), desired, nil, nil, "")
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, path...) }
	}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		intact bool
	}{
		"status":                       {set(int64(1), "status", "replicas"), true},
		"resource version":             {set("2", "metadata", "resourceVersion"), true},
		"generation":                   {set(int64(2), "metadata", "generation"), true},
		"the controller's counter":     {set("7", "metadata", "annotations", "deployment.kubernetes.io/revision"), true},
		"an annotation of others":      {set("new", "metadata", "annotations", "theirs"), true},
		"an annotation of others goes": {remove("metadata", "annotations", "theirs"), true},
		"a label of others":            {set("new", "metadata", "labels", "theirs"), true},
		"restarted":                    {set("now", "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"), true},
		"restarted by Rancher":         {set("now", "spec", "template", "metadata", "annotations", "cattle.io/timestamp"), true},
		"restarted by Reloader":        {set([]any{map[string]any{"name": "welcome", "image": "i", "env": []any{map[string]any{"name": "STAKATER_A_SECRET", "value": "x"}}}}, "spec", "template", "spec", "containers"), true},
		"paused":                       {set(true, "spec", "paused"), true},
		"another annotation of pods":   {set("now", "spec", "template", "metadata", "annotations", "sidecar.istio.io/inject"), false},
		"replicas":                     {set(int64(3), "spec", "replicas"), false},
		"a field that was added":       {set(true, "spec", "template", "spec", "hostNetwork"), false},
		"label":                        {set("y", "metadata", "labels", "app"), false},
		"label goes":                   {remove("metadata", "labels", "app"), false},
		"annotation":                   {set("c", "metadata", "annotations", "a"), false},
		"annotation goes":              {remove("metadata", "annotations", "a"), false},
		"annotation becomes a label": {func(u *unstructured.Unstructured) {
			remove("metadata", "annotations", "a")(u)
			set("b", "metadata", "labels", "a")(u)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := parse(t, deploymentYAML)
			c.change(changed)
			if got := has(Fingerprint(changed, nil), child.Fingerprint); got != c.intact {
				t.Errorf("intact: %v, want %v", got, c.intact)
			}
		})
	}
	for name, c := range map[string]struct {
		desired string
		intact  bool
	}{
		"a node port of the cluster's": {"{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}, {port: 2}]}}", true},
		"a node port of the chart's":   {"{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}, {port: 2, nodePort: 30002}]}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			child := ChildOf(parse(t, "{apiVersion: v1, kind: Service, spec: {ports: [{port: 1, nodePort: 30001}, {port: 2, nodePort: 30002}]}}"), parse(t, c.desired), nil, nil, "")
			if got := has(Fingerprint(parse(t, "{apiVersion: v1, kind: Service, spec: {ports: [{port: 1, nodePort: 30001}, {port: 2, nodePort: 30009}]}}"), nil), child.Fingerprint); got != c.intact {
				t.Errorf("intact: %v, want %v", got, c.intact)
			}
		})
	}
	for _, broken := range []string{"", "short", child.Fingerprint[:40], "c38db3113a2dd0d4f30da813ed58ca94"} {
		if has(broken, child.Fingerprint) {
			t.Errorf("%q passes for the object", broken)
		}
	}
	if has(Fingerprint(desired, nil), child.Fingerprint+"x") || has(Fingerprint(desired, nil), "") {
		t.Error("a record that nobody understands passes")
	}
}

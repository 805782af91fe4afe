package release

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: x
  namespace: n
  resourceVersion: "1"
  generation: 1
  labels: {app: x}
  annotations: {a: b}
spec:
  replicas: 2
  template: {spec: {containers: [{name: welcome, image: i}]}}
status: {replicas: 2}
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFingerprint(t *testing.T) {
	want := fingerprint(object(t, deploymentYAML))
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		same   bool
	}{
		"status":                   {set(int64(1), "status", "replicas"), true},
		"resource version":         {set("2", "metadata", "resourceVersion"), true},
		"generation":               {set(int64(2), "metadata", "generation"), true},
		"the controller's counter": {set("7", "metadata", "annotations", "deployment.kubernetes.io/revision"), true},
		"replicas":                 {set(int64(3), "spec", "replicas"), false},
		"a field that was added":   {set(true, "spec", "template", "spec", "hostNetwork"), false},
		"label":                    {set("y", "metadata", "labels", "app"), false},
		"annotation":               {set("c", "metadata", "annotations", "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := object(t, deploymentYAML)
			c.change(changed)
			if got := fingerprint(changed) == want; got != c.same {
				t.Errorf("same fingerprint: %v, want %v", got, c.same)
			}
		})
	}
}

// Who could write the fingerprint into the cluster would hide a drift, and what its pods request.
func TestSlimBelievesNoAnnotationOfTheCluster(t *testing.T) {
	forged := object(t, deploymentYAML)
	forged.SetAnnotations(map[string]string{fingerprintAnnotation: "forged"})
	if _, err := Slim(forged); err != nil {
		t.Fatal(err)
	}
	if got := forged.GetAnnotations()[fingerprintAnnotation]; got == "forged" {
		t.Error("the fingerprint is what the object says")
	}
}

func TestSlimKeepsWhatAPodRequests(t *testing.T) {
	for name, c := range map[string]struct {
		containers  string
		cpu, memory float64
	}{
		"no requests":             {"[{name: a}]", 0, 0},
		"the sum":                 {"[{resources: {requests: {cpu: 100m, memory: 32Mi}}}, {resources: {requests: {cpu: '1'}}}]", 1.1, 32 << 20},
		"a limit without request": {"[{resources: {limits: {cpu: '2', memory: 1Gi}, requests: {cpu: 500m}}}]", 0.5, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			workload := object(t, strings.Replace(deploymentYAML, "[{name: welcome, image: i}]", c.containers, 1))
			for range 2 { // a resync does it again
				if _, err := Slim(workload); err != nil {
					t.Fatal(err)
				}
				if cpu, memory := Requested(workload, "cpu"), Requested(workload, "memory"); cpu != c.cpu || memory != c.memory {
					t.Errorf("%v cores and %v bytes, want %v and %v", cpu, memory, c.cpu, c.memory)
				}
			}
		})
	}
	service := object(t, "{apiVersion: v1, kind: Service, metadata: {name: x, labels: {app: x}}, spec: {}}")
	if _, err := Slim(service); err != nil || len(service.GetAnnotations()) != 1 {
		t.Errorf("a Service is kept with %v: %v", service.GetAnnotations(), err)
	}
}

func TestSlimKeepsTheFingerprintAndDropsTheBulk(t *testing.T) {
	whole := object(t, deploymentYAML)
	want := fingerprint(whole)
	for range 2 { // a resync does it again
		if _, err := Slim(whole); err != nil {
			t.Fatal(err)
		}
		if got := whole.GetAnnotations()[fingerprintAnnotation]; got != want {
			t.Errorf("fingerprint %q, want %q", got, want)
		}
	}
	if _, found, _ := unstructured.NestedMap(whole.Object, "spec", "template"); found {
		t.Error("the pod template is still in memory")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(whole.Object, "status", "replicas"); !found {
		t.Error("the status is gone")
	}
	record := &corev1.ConfigMap{Data: map[string]string{"release": "bulk"}}
	if _, err := Slim(record); err != nil || record.Data != nil {
		t.Errorf("a release record keeps its data: %v %v", record.Data, err)
	}
}

package object

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCheck(t *testing.T) {
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {b: "
	for text, want := range map[string]string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}":                                                                             `ConfigMap of the chart has no name (generateName: "a-")`,
		"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-, annotations: {helm.sh/hook: pre-install}}}":                                   `ConfigMap of the chart has no name (generateName: "a-")`,
		"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-, annotations: {helm.sh/hook: test, helm.sh/hook-delete-policy: hook-failed}}}": "",
		"{apiVersion: v1, kind: List, items: null}":                                                                                                   `List of the chart is in another list`,
		"{kind: ConfigMap, metadata: {name: a}}":                                                                                                      `ConfigMap "a" of the chart has no apiVersion`,
		deployment + "'1.10'}}}":                                                                                                                      "",
		deployment + "1, a: 2, c: 3, d: 4}}}":                                                                                                         `Deployment "a": the value 2 of the label a is not a string`,
		deployment + "null}}}":                                                                                                                        "",
		"{kind: ConfigMap, metadata: {name: 1}}":                                                                                                      `ConfigMap "1": its name is not a string`,
		deployment + "1.10}}}":                                                                                                                        `Deployment "a": the value 1.1 of the label b is not a string`,
		deployment + "true}}}":                                                                                                                        `Deployment "a": the value true of the label b is not a string`,
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, annotations: {helm.sh/resource-policy: keep, b: 3}}}":       `PersistentVolumeClaim "a": the value 3 of the annotation b is not a string`,
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, annotations: {helm.sh/resource-policy: keep, b: null}}}":    "",
		deployment + "c}}, spec: {template: {spec: {containers: [{resources: {requests: {cpu: 123456789012345678901e300000000}}}]}}}}": `Deployment "a": 123456789012345678901e300000000 is not a valid number`,
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {b: '1e-300000000'}}":                                         "",
		deployment + "c}}, spec: {a: '1e-300000000'}}":                                                                                 `Deployment "a": 1e-300000000 is not a valid number`,
		deployment + "c}}, spec: " + strings.Repeat("[", 1021) + "x" + strings.Repeat("]", 1021) + "}":                                 "",
		deployment + "c}}, spec: " + strings.Repeat("[", 1022) + "x" + strings.Repeat("]", 1022) + "}":                                 `Deployment "a": a field has a path (as .a.b[]) of 2049 characters, and may have one of 2048`,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {? " + strings.Repeat("a", 2048) + " : b}}":                      `ConfigMap "a": a field has a path (as .a.b[]) of 2054 characters`,
		deployment + "c}}, spec: {image: 'a:1234567e89', b: 1e-10, c: e-1234567}}":                                                     "",
	} {
		err := Check(parse(t, text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What a tenant writes into an object of the operator's costs no more than it is long.
func TestQuantities(t *testing.T) {
	start := time.Now()
	for text, want := range map[string]float64{"100m": 0.1, "1Gi": 1 << 30, "1e3": 1000, "": 0, "1e300000000": 0, "1e-300000000": 0, "123456789012345678901e300000000": 0, strings.Repeat("9", 1<<20): 0} {
		if got, _ := quantityOf(text); got != want {
			t.Errorf("%.40s is %v, want %v", text, got, want)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it takes %s", took)
	}
}

// Nor does it take long to find who has written what, or what others have set, in lists of ten thousands.
func TestLongLists(t *testing.T) {
	finalizers, owned, tolerations, others := make([]any, 50_000), strings.Builder{}, make([]any, 30_000), make([]any, 30_000)
	for i := range finalizers {
		name := "a.b/" + strings.Repeat("x", 5) + string(rune('a'+i%26)) + time.Duration(i).String()
		finalizers[i] = name
		owned.WriteString(`,"v:\"` + name + `\"":{}`)
	}
	for i := range tolerations {
		tolerations[i] = map[string]any{"key": time.Duration(i).String()}
		others[i] = map[string]any{"key": time.Duration(i).String(), "operator": "Exists"}
	}
	live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"finalizers": finalizers}, "spec": map[string]any{"replicas": int64(7), "tolerations": others}}}
	wanted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"finalizers": finalizers[1:]}, "spec": map[string]any{"replicas": int64(1), "tolerations": tolerations}}}
	live.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "theirs", "operation": "Update", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:finalizers": parse(t, "{"+owned.String()[1:]+"}").Object}}}}
	start := time.Now()
	if writer := Writer(live, wanted); writer != "theirs" {
		t.Errorf("it was %q", writer)
	}
	merged := dropsEmpty(true).mergeList(tolerations, others, tolerations)
	if first, _ := merged[0].(map[string]any); first["operator"] != "Exists" {
		t.Errorf("what others have set is lost: %v", first)
	}
	merged = dropsEmpty(true).mergeList(tolerations, append([]any{map[string]any{"key": "theirs"}}, others...), tolerations)
	if first, _ := merged[0].(map[string]any); first["key"] != tolerations[0].(map[string]any)["key"] {
		t.Errorf("an element that somebody has put before stays: %v", first)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it takes %s", took)
	}
}

// Of several numbers, each attempt tells of the same one.
func TestCheckTellsOfTheSameNumber(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"a": "1e-10000", "b": "1e-20000", "c": "1e-30000"},
	}}
	for range 50 {
		if err := Check(o); err == nil || !strings.Contains(err.Error(), "1e-10000") {
			t.Fatal(err)
		}
	}
}

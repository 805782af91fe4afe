package object

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWriter(t *testing.T) {
	const wanted = `{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: b}, list: [x]}, metadata: {annotations: {ours: "1"}}}`
	entry := func(manager, time, fields string) string {
		return `{manager: ` + manager + `, operation: Update, fieldsType: FieldsV1, time: "2026-01-01T00:00:` + time + `Z", fieldsV1: ` + fields + `}`
	}
	for name, c := range map[string]struct{ managers, live, want string }{
		"a field": {
			entry("ours", "01", `{"f:spec": {"f:list": {}}}`) + "," + entry("theirs", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x]}`, "theirs",
		},
		"a field of an element": {
			entry("theirs", "00", `{"f:spec": {"f:ports": {".": {}, "k:{\"port\":9999,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}`) + "," + entry("another", "01", `{"f:spec": {"f:selector": {"f:a": {}}}}`),
			`{spec: {ports: [{name: http, port: 9999, protocol: TCP}], selector: {a: b}, list: [x]}`, "theirs",
		},
		"the last of two": {
			entry("first", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`) + "," + entry("last", "01", `{"f:spec": {"f:list": {"v:\"z\"": {}}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x, z]}`, "last",
		},
		"in the same second as the operator": {
			entry("theirs", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`) + "," + entry(Manager, "00", `{"f:spec": {"f:selector": {}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x]}`, "theirs",
		},
		"the operator, before them": {
			entry(Manager, "00", `{"f:spec": {"f:selector": {}}}`) + "," + entry("theirs", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x]}`, "theirs",
		},
		"the operator, after them": {
			entry("theirs", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`) + "," + entry(Manager, "05", `{"f:spec": {"f:selector": {}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x]}`, "theirs",
		},
		"another installation of the operator": {
			entry(Manager, "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: drifted}, list: [x]}`, Manager,
		},
		"a field is gone": {
			entry("theirs", "00", `{"f:spec": {"f:selector": {"f:a": {}}}}`),
			`{spec: {ports: [{name: http, port: 80, protocol: TCP}], selector: {a: b}}`, "",
		},
		"nonsense": {
			entry("theirs", "00", `{"f:spec": {"f:ports": {"k:[1]": {}, "k:{": {}, "v:": {}, "": {"f:x": {}}}}}`),
			`{spec: {ports: [{name: http, port: 81, protocol: TCP}], selector: {a: b}, list: [x]}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := parse(t, c.live+`, metadata: {annotations: {ours: "1"}, managedFields: [`+c.managers+`]}}`)
			if got := Writer(live, parse(t, wanted)); got != c.want {
				t.Errorf("it was %q, want %q", got, c.want)
			}
		})
	}
}

// What of an object the operator has written, the API server knows.
func TestWritten(t *testing.T) {
	const wanted = `{apiVersion: v1, kind: ConfigMap, metadata: {name: it, labels: {a: x, b: x}}, data: {a: "1", b: "2"}, list: [{name: p, a: 1, b: 2}, {name: q}], set: [c, d], whole: {a: [1]}}`
	const other = `{apiVersion: v1, kind: ConfigMap, metadata: {name: it}, data: {b: "0", d: "4", e: "5"}}`
	for name, c := range map[string]struct{ managers, want string }{
		"a part": {
			`{manager: welcome-operator, fieldsV1: {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:data": {"f:b": {}, "f:c": {}, "f:d": {}}, "f:whole": {}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: x}}, data: {b: "2", d: "4"}, whole: {a: [1]}}`,
		},
		"of lists": {
			`{manager: welcome-operator, fieldsV1: {"f:list": {"k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:b": {}}, "k:{\"name\":\"r\"}": {}}, "f:set": {"v:\"d\"": {}}}}`,
			`{apiVersion: v1, kind: ConfigMap, list: [{name: p, b: 2}], set: [d]}`,
		},
		"of others":   {`{manager: kubectl, fieldsV1: {"f:data": {"f:a": {}}}}`, ""},
		"of a status": {`{manager: welcome-operator, subresource: status, fieldsV1: {"f:data": {"f:a": {}}}}`, ""},
		"nonsense":    {`{manager: welcome-operator, fieldsV1: {"f:data": {"f:a": {"f:b": {}}}, "f:list": {"k:{": {}, "v:": {}, "": {}}, "f:metadata": []}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := parse(t, `{metadata: {managedFields: [`+c.managers+`]}}`)
			got := Written(live, []*unstructured.Unstructured{parse(t, other), parse(t, wanted)})
			if c.want == "" {
				if got != nil {
					t.Errorf("got %v, want nothing", got)
				}
				return
			}
			if want := parse(t, c.want); got == nil || !reflect.DeepEqual(got.Object, want.Object) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

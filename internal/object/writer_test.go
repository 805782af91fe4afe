package object

import "testing"

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

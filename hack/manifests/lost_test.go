package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// What a field may become without losing what is in it is not told, all else is.
func TestLostFields(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"the same":                {"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string, maxLength: 3}, b: {type: string}}}", nil},
		"gone":                    {"{type: object, properties: {a: {type: string}, b: {type: string}}}", "{type: object, properties: {b: {type: string}}}", []string{"spec.a: gone"}},
		"gone deeper":             {"{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}", "{type: object, properties: {a: {type: object}}}", []string{"spec.a.b: gone"}},
		"gone in a list":          {"{type: array, items: {type: object, properties: {a: {type: string}}}}", "{type: array, items: {type: object}}", []string{"spec[].a: gone"}},
		"gone in a map":           {"{type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}", "{type: object, additionalProperties: {type: object}}", []string{"spec.*.a: gone"}},
		"another type":            {"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: integer}}}", []string{"spec.a: string before, integer now"}},
		"a wider type":            {"{type: object, properties: {a: {type: integer}, b: {type: integer}, c: {type: string}}}", "{type: object, properties: {a: {type: number}, b: {x-kubernetes-int-or-string: true}, c: {x-kubernetes-int-or-string: true}}}", nil},
		"a narrower type":         {"{x-kubernetes-int-or-string: true}", "{type: string}", []string{"spec: integer or string before, string now"}},
		"anything":                {"{type: object, properties: {a: {type: string}}}", "{x-kubernetes-preserve-unknown-fields: true}", nil},
		"no longer anything":      {"{x-kubernetes-preserve-unknown-fields: true}", "{type: string}", []string{"spec: anything before, string now"}},
		"no longer all keys":      {"{type: object, additionalProperties: {type: string}}", "{type: object, properties: {a: {type: string}}}", []string{"spec: any key before, only some now"}},
		"no longer more keys":     {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, properties: {a: {type: string}}}", []string{"spec: any key before, only some now"}},
		"no longer any values":    {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, additionalProperties: {type: string}}", []string{"spec.*: anything before, string now"}},
		"any values":              {"{type: object, additionalProperties: {type: string}}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", nil},
		"all keys instead of one": {"{type: object, properties: {a: {type: string}}}", "{type: object, additionalProperties: {type: string}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after apiextensionsv1.JSONSchemaProps
			if err := errors.Join(yaml.UnmarshalStrict([]byte(c.before), &before), yaml.UnmarshalStrict([]byte(c.after), &after)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lostFieldsOf(before, after, "spec")); diff != "" {
				t.Errorf("told is (-want +got):\n%s", diff)
			}
		})
	}
}

// The rights that count are those of the operator to make what charts make, and not those that it hands out,
// or that are for people.
func TestOfferedRights(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "operator.yaml"), `kind: ClusterRole
metadata: {name: notes-manager-role}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [policy], resources: [poddisruptionbudgets], resourceNames: [hello], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, update, patch, delete]}
---
kind: ClusterRole
metadata: {name: notes-memo-editor-role}
rules:
- {apiGroups: [example.com], resources: [memos], verbs: [get, list, watch, create, update, patch, delete]}
`)
	found, err := offeredBy(dir)
	if want := map[string]bool{"deployments.apps": true, "secrets": true}; err != nil || !maps.Equal(found.resources, want) {
		t.Errorf("%v, %v", found.resources, err)
	}
}

// Who takes a field or an object out of a chart is told what custom resources lose by that, also by a run
// that fails after the CRD was written: the next one finds the CRD as it is to be.
func TestLossesAreTold(t *testing.T) {
	inCopy(t)
	edit := func(file, before, after string) {
		t.Helper()
		text := read(t, file)
		if !strings.Contains(text, before) {
			t.Fatalf("%s has no %q", file, before)
		}
		write(t, file, strings.ReplaceAll(text, before, after))
	}
	said := func(into string, do func() error) (string, error) {
		var out strings.Builder
		err := telling(&out, into, do)
		return out.String(), err
	}
	if told, err := said("", run); err != nil || told != "" {
		t.Fatalf("nothing has changed: %v, %q", err, told)
	}

	edit("helm-charts/welcome/values.schema.json", `"logLevel"`, `"verbosity"`)
	edit("helm-charts/welcome/values.yaml", "logLevel:", "verbosity:")
	edit("helm-charts/welcome/templates/deployment.yaml", ".Values.logLevel", ".Values.verbosity")
	if err := os.Remove("helm-charts/welcome/templates/pdb.yaml"); err != nil {
		t.Fatal(err)
	}
	edit("helm-charts/welcome/Chart.yaml", "version: 0.1.1\n", "version: 0.1.0\n") // which release 0.1.0 has
	told, err := said("", run)
	if err == nil {
		t.Fatal("the case is broken: the chart has its old version, and the run does not fail")
	}
	for _, want := range []string{"spec.logLevel: gone", "kubectl get welcomes.webapp.demo.welcome.domain --all-namespaces", "poddisruptionbudgets.policy", "docs/upgrade.md#what-a-chart-no-longer-has"} {
		if !strings.Contains(told, want) {
			t.Errorf("it does not say %q:\n%s", want, told)
		}
	}

	edit("watches.yaml", "version: v1\n", "version: v2\n")
	if told, _ := said("", run); !strings.Contains(told, "WARNING: the CRD welcomes.webapp.demo.welcome.domain has the version v2, and no longer v1.\n") || !strings.Contains(told, "as v1 refuses") {
		t.Errorf("of another version, it says:\n%s", told)
	}

	// An operator of its own has all in one file.
	dir := filepath.Join(t.TempDir(), "notes-operator")
	chart := map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "text: hello\nmore: hello\n",
		"templates/x.yaml": "{apiVersion: v1, kind: Service, metadata: {name: x, labels: {a: {{ .Values.text | quote }}, b: {{ .Values.more | quote }}}}}"}
	w := wanted{chart: chartAt(t, chart), gvk: memos, into: dir}
	if told, err := said(dir, w.make); err != nil || told != "" {
		t.Fatalf("there was nothing before: %v, %q", err, told)
	}
	write(t, filepath.Join(dir, "helm-charts/memo/values.yaml"), "text: hello\n")
	write(t, filepath.Join(dir, "helm-charts/memo/templates/x.yaml"), "{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {a: {{ .Values.text | quote }}}}}")
	told, err = said(dir, func() error { return inOwn(dir, run) })
	if err != nil || !strings.Contains(told, "spec.more: gone") || !strings.Contains(told, "services") {
		t.Errorf("it says: %v, %q", err, told)
	}
}

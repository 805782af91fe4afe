package infer

import (
	"slices"
	"testing"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

// A chart makes what it would on a cluster on which this operator runs, not what it would have on one of before.
func TestChartsAreTriedAsOfToday(t *testing.T) {
	trial, err := New(operator.Entry{}, chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\n",
		"templates/x.yaml": `{{ if semverCompare "<1.23-0" .Capabilities.KubeVersion.Version }}{{ fail "too old" }}{{ end }}
{apiVersion: {{ if .Capabilities.APIVersions.Has "policy/v1beta1" }}policy/v1beta1{{ else }}policy/v1{{ end }}, kind: PodDisruptionBudget, metadata: {name: x}}
---
{apiVersion: {{ if .Capabilities.APIVersions.Has "networking.k8s.io/v1/Ingress" }}networking.k8s.io/v1{{ else }}extensions/v1beta1{{ end }}, kind: Ingress, metadata: {name: x}}
---
{apiVersion: {{ if .Capabilities.APIVersions.Has "autoscaling/v2" }}autoscaling/v2{{ else }}autoscaling/v2beta1{{ end }}, kind: HorizontalPodAutoscaler, metadata: {name: x}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}
---
{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: x}}
{{- end }}`}), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := trial.ByDefault()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range objects {
		got = append(got, r.Object.GetAPIVersion())
	}
	if want := []string{"policy/v1", "networking.k8s.io/v1", "autoscaling/v2"}; !slices.Equal(got, want) {
		t.Errorf("it makes objects of %q, not of %q", got, want)
	}
}

// What it makes only on a later Kubernetes counts as well: no manifests are made anew when a cluster is upgraded.
func TestChartsAreTriedAsOfLater(t *testing.T) {
	schema, left := infer(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "text: hello\nlater: true\nword: hello\n",
		"templates/x.yaml": `{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {text: {{ .Values.text | quote }}, word: {{ .Values.word | quote }}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: nginx
{{- if semverCompare ">=1.50-0" .Capabilities.KubeVersion.Version }}, args: [{{ .Values.text | quote }}]
{{- if .Values.later }}, ports: [{containerPort: 80}]{{ end }}{{ end }}}]}}
`})
	if left["text"] != "reaches a command" || schema.Properties["word"].Type != "string" || schema.Properties["later"].Type != "boolean" {
		t.Errorf("the fields are %v, and not %v", schema.Properties, left)
	}
}

// What a template writes is several objects where Helm takes it for several: right behind the line that parts
// them, too, as a trimmed line leaves it.
func TestObjectsArePartedAsHelmDoes(t *testing.T) {
	trial, err := New(operator.Entry{}, chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\n",
		"templates/x.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x}\n---\n{{- if .Values.a -}}\napiVersion: v1\nkind: Service\nmetadata: {name: x}\n{{- end }}\n",
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := trial.ByDefault()
	if err != nil || len(objects) != 2 || objects[1].Object.GetKind() != "Service" {
		t.Errorf("it makes %d objects, and the error is %v", len(objects), err)
	}
}

// Of a chart that makes keys, trials make none, whatever has the name of a function that does.
func TestTrialsMakeNoCertificates(t *testing.T) {
	trial, err := New(operator.Entry{}, chartOf(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "genCA: a\n",
		"templates/x.yaml": `{{ define "x.genCA" }}{{ .Values.genCA }} says "genCA"{{ end }}{{ $genCA := genCA "ca" 365 }}
{{ $cert := genSignedCert (include "x.genCA" .) nil (list "x") 365 $genCA }}
{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {cert: {{ $cert.Cert | quote }}, key: {{ (genSelfSignedCert "x" nil nil 1).Key | quote }},
name: {{ include "x.genCA" . | quote }}}}`,
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := trial.ByDefault()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Compact(objects[0].Object.Object["stringData"]), `{"cert":"certificate","key":"key","name":"a says \"genCA\""}`; got != want {
		t.Errorf("it makes %s, not %s", got, want)
	}
}

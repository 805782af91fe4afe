package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// What a chart brings in crds/ somebody else installs, who is told how; then it is served, and nothing is
// done about the CRDs.
func TestChartWithCRDs(t *testing.T) {
	s := newScene(t)
	s.serveKind("Gadgetry")
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.charts.example.com}
spec:
  group: charts.example.com
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	chart := chartOf(t, map[string]string{
		"Chart.yaml":                    "{apiVersion: v2, name: gadgetry, version: 0.1.0, dependencies: [{name: spare, version: 0.1.0, condition: spare.enabled}]}",
		"values.yaml":                   "spare: {enabled: false}",
		"crds/gadgets.yaml":             "# of the chart\n---" + crd,
		"templates/gadget.yaml":         "apiVersion: charts.example.com/v1\nkind: Gadget\nmetadata: {name: '{{ .Release.Name }}'}\n",
		"charts/spare/Chart.yaml":       "{apiVersion: v2, name: spare, version: 0.1.0}",
		"charts/spare/crds/spares.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: charts.example.com, names: {kind: Spare}}\n",
	})
	own := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: watchesWith("") + entryOf("Gadgetry", chart, "")}
	operator := s.ownOperator(own)
	s.await("it tells what to do", func() error {
		return says(operator.Text(), []string{`entry 2 (kind \"Gadgetry\")`, "Gadget.charts.example.com", "helm show crds " + chart + " | kubectl create -f -, or set crds: true"})
	})
	s.createOf("Gadgetry", "hello")

	_, err := s.kubectl("", "create", "-f", filepath.Join(chart, "crds"))
	s.must(err)
	t.Cleanup(func() {
		_, err := s.kubectl("", "delete", "-f", filepath.Join(chart, "crds"))
		s.must(err)
	})
	s.awaitEnd(operator, `entry 2 (kind "Gadgetry")`, "what it lacked is there now")
	operator = s.ownOperator(own)
	s.awaitOf("Gadgetry", "hello", "Ready")
	gadget := kit.List("charts.example.com/v1", "Gadget")
	s.must(env.Client.List(ctx, gadget, client.InNamespace(s.namespace)))
	if len(gadget.Items) != 1 {
		t.Errorf("there are %d Gadgets", len(gadget.Items))
	}
	s.delete(s.of("Gadgetry", "hello"))
	operator.Stop()

	// Or the operator, where the platform allows it. It changes none that is there.
	_, err = s.kubectl("", "delete", "-f", filepath.Join(chart, "crds"))
	s.must(err)
	own.watches = entryOf("Gadgetry", chart, "  crds: true\n")
	operator = s.ownOperator(own)
	s.createOf("Gadgetry", "hello")
	s.awaitOf("Gadgetry", "hello", "Ready")
	made := kit.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	s.get(made, "gadgets.charts.example.com")
	operator.Stop()
	kit.Annotate("example.com/note", "theirs")(made)
	s.must(env.Client.Update(ctx, made))
	version := made.GetGeneration()
	operator = s.ownOperator(own)
	s.awaitOf("Gadgetry", "hello", "Ready")
	s.get(made, "gadgets.charts.example.com")
	if made.GetGeneration() != version || made.GetAnnotations()["example.com/note"] == "" {
		t.Errorf("the CRD was changed: %v", made.Object)
	}
	s.delete(s.of("Gadgetry", "hello"))
	s.get(made, "gadgets.charts.example.com")
	operator.Stop()

	// One that serves other versions than the chart has objects of is not what it needs.
	_, err = s.kubectl("", "delete", "-f", filepath.Join(chart, "crds"))
	s.must(err)
	_, err = s.kubectl(strings.Replace(crd, "name: v1,", "name: v1beta1,", 1), "create", "-f", "-")
	s.must(err)
	own.watches = watchesWith("") + own.watches
	operator = s.ownOperator(own)
	s.await("it tells what to do", func() error {
		return says(operator.Text(), []string{"Gadget.charts.example.com, and none of the versions v1", "helm show crds " + chart + " | kubectl replace -f -"})
	})
}

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// restrict has the CRD of a kind of serveKind take only such a spec, and waits until it refuses one.
func (s *scene) restrict(kind, spec string, refused kit.Edit) {
	s.Helper()
	var schema apiextensionsv1.JSONSchemaProps
	s.must(yaml.UnmarshalStrict([]byte(spec), &schema))
	schema.Type, schema.Default = "object", &apiextensionsv1.JSON{Raw: []byte("{}")}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: strings.ToLower(kind) + "s." + kindsGroup}, crd))
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = schema
	s.must(env.Client.Update(ctx, crd))
	s.await("the new CRD counts", func() error {
		if err := env.Client.Create(ctx, s.of(kind, "probe", refused), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the API server says %w", err)
		}
		return nil
	})
}

// A new version of a chart has less fields, and bounds that custom resources are beyond: what these have set
// keeps nobody from looking after them, they say what to change, and what is lost can be found.
func TestCRDThatTakesLess(t *testing.T) {
	s := newScene(t)
	s.serveKind("Slip")
	files := map[string]string{
		"Chart.yaml":           "{apiVersion: v2, name: slip, version: 0.1.0}",
		"values.yaml":          "{name: '', mode: a, size: x, note: '', low: 0, high: 9}",
		"values.schema.json":   `{"additionalProperties": false, "properties": {"name": {}, "mode": {"enum": ["a", "b"]}, "size": {"type": "string"}, "note": {}, "low": {}, "high": {}, "global": {}}}`,
		"templates/named.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}-{{ .Values.name }}-named'}}",
		"templates/fixed.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}'}, data: {mode: '{{ .Values.mode }}'}}",
	}
	former := chartOf(t, files)
	files = maps.Clone(files)
	files["Chart.yaml"] = strings.Replace(files["Chart.yaml"], "0.1.0", "0.2.0", 1)
	files["values.yaml"] = strings.NewReplacer("name: '', ", "", "size: x", "size: 1").Replace(files["values.yaml"])
	files["values.schema.json"] = strings.NewReplacer(`"name": {}, `, "", `, "b"`, "", `"string"`, `"integer"`).Replace(files["values.schema.json"])
	files["templates/named.yaml"] = strings.Replace(files["templates/named.yaml"], "{{ .Values.name }}", "one", 1)
	served, newer := filepath.Join(t.TempDir(), "chart"), chartOf(t, files)
	s.must(os.CopyFS(served, os.DirFS(former)))
	s.restrict("Slip", `properties: {name: {type: string}, mode: {type: string, enum: [a, b]}, size: {type: string}, note: {type: string}, low: {type: integer}, high: {type: integer}}`, kit.Set("mode", "c"))
	own := settings{account: s.accountForCharts(), watches: entryOf("Slip", served, "")}
	operator := s.publisher(own)
	s.createOf("Slip", "named", kit.Set("name", "hello"))
	for _, name := range []string{"mended", "deleted"} {
		s.createOf("Slip", name, kit.Set("mode", "b"))
	}
	s.createOf("Slip", "ruled", kit.Set("low", int64(5)), kit.Set("high", int64(1)))
	s.createOf("Slip", "typed", kit.Set("size", "large"))
	all := []string{"named", "mended", "deleted", "ruled", "typed"}
	for _, name := range all {
		s.awaitOf("Slip", name, "Ready")
	}
	s.expect(s.plugin("diff", "slip/named", "--chart="+newer), 1, "would be refused", "additional properties 'name' not allowed")
	operator.Stop()

	s.restrict("Slip", `{properties: {mode: {type: string, enum: [a]}, size: {type: integer}, note: {type: string}, low: {type: integer}, high: {type: integer}},
		x-kubernetes-validations: [{rule: "!has(self.low) || !has(self.high) || self.low <= self.high", message: low is more than high}]}`, kit.Set("mode", "b"))
	s.must(os.RemoveAll(served))
	s.must(os.CopyFS(served, os.DirFS(newer)))
	s.publisher(own)
	s.awaitOf("Slip", "named", "Ready")
	s.awaitGone(&corev1.ConfigMap{}, "named-hello-named")
	s.awaitEvent("named", "Upgraded", "Revision 2", "deleted: ConfigMap named-hello-named")
	s.expect(s.plugin("history", "slip/named"), 0, `values.name: "hello" → unset`)

	for _, name := range []string{"mended", "deleted"} {
		s.awaitOf("Slip", name, "Stalled", "InvalidValues", "at '/mode': value must be", "Correct the spec")
	}
	s.editOf("Slip", "mended", kit.Set("note", "another field"))
	s.awaitOf("Slip", "mended", "Stalled", "at '/mode'")
	s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "mended")}))
	s.awaitExists(&corev1.ConfigMap{}, "mended")
	s.editOf("Slip", "mended", kit.Set("mode", "a"))
	s.awaitOf("Slip", "mended", "Ready")

	s.awaitOf("Slip", "typed", "Stalled", "InvalidValues", "at '/size': got string, want integer")
	mended := "{apiVersion: " + kindsGroup + "/v1, kind: Slip, metadata: {name: typed}, spec: {size: 3}}"
	if _, err := s.kubectl(mended, "apply", "--server-side", "-f", "-"); err == nil || !strings.Contains(err.Error(), "failed to create typed live object") {
		t.Errorf("server-side apply over another type: %v", err)
	}
	_, err := s.kubectl("", "patch", "slip", "typed", "--type", "merge", "--patch", `{"spec": {"size": 3}}`)
	s.must(err)
	s.awaitOf("Slip", "typed", "Ready")

	s.awaitOf("Slip", "ruled", "Ready") // rules are the CRD's alone
	if err := env.Client.Update(ctx, s.of("Slip", "ruled", kit.Set("note", "another field"))); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "low is more than high") {
		t.Errorf("an edit beside a rule: %v", err)
	}
	for _, name := range all {
		s.delete(s.of("Slip", name))
	}
}

// What the API server refuses of a custom resource whatever is written, since it cannot tell which element of a
// list was there before, holds up its deletion, and its author is told what to mend.
func TestSpecThatItsCRDNoLongerTakes(t *testing.T) {
	s := newScene(t)
	s.serveKind("Slat")
	const list = `properties: {list: {type: array, %s items: {type: object, properties: {name: {type: string}, more: {type: string, enum: [a, b]}}}}}`
	element := func(content map[string]any) kit.Edit { return kit.Set("list", []any{content}) }
	s.restrict("Slat", fmt.Sprintf(list, ""), element(map[string]any{"more": "c"}))
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Slat", noteChart(t), "")})
	slat := s.createOf("Slat", "hello", element(map[string]any{"more": "a"}))
	s.awaitOf("Slat", "hello", "Ready")
	s.restrict("Slat", strings.Replace(fmt.Sprintf(list, "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name],"), "{type: object,", "{type: object, required: [name],", 1), element(map[string]any{"more": "a"}))
	s.must(env.Client.Delete(ctx, slat))
	s.awaitEvent("hello", "WriteRefused", "the finalizers", "spec.list[0].name: Required value", "Correct the spec")
	_, err := s.kubectl("", "patch", "slat", "hello", "--type", "merge", "--patch", `{"spec": {"list": []}}`)
	s.must(err)
	s.awaitGone(slat, "hello")
}

// A CRD that loses its status while the operator runs holds up no deletion.
func TestDeletionUnderACRDWithoutStatus(t *testing.T) {
	s := newScene(t)
	s.serveKind("Shim")
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Shim", noteChart(t), "")})
	shim := s.createOf("Shim", "hello")
	s.awaitOf("Shim", "hello", "Ready")
	_, err := s.kubectl("", "patch", "crd", "shims."+kindsGroup, "--type", "json", "--patch", `[{"op": "remove", "path": "/spec/versions/0/subresources"}]`)
	s.must(err)
	s.await("there is no status", func() error {
		if err := env.Client.Status().Update(ctx, s.of("Shim", "hello"), client.DryRunAll); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the API server says %w", err)
		}
		return nil
	})
	s.delete(shim)
}

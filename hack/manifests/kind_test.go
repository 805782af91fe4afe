package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

var goodbyes = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Goodbye"}

func chartAt(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// A value that is a whole image becomes a variable, others are what they are; what was there stays.
func TestPins(t *testing.T) {
	inCopy(t)
	before := read(t, watchesFile)
	dir := chartAt(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: goodbye, version: 0.1.0}",
		"values.yaml": "image: old\ntext: hello\nquiet: false\n",
		"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {automountServiceAccountToken: {{ .Values.quiet }}, " +
			"containers: [{name: x, image: {{ .Values.image | quote }}, env: [{name: TEXT, value: {{ .Values.text | quote }}}]}]}}",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes, pins: []string{"image=example.com/goodbye:v1", "quiet=true"}}); err != nil {
		t.Fatal(err)
	}
	after, kept := strings.CutPrefix(read(t, watchesFile), before)
	if !kept || !strings.Contains(after, "image: \"${RELATED_IMAGE_GOODBYE}\"\n") || !strings.Contains(after, "quiet: \"true\"\n") || strings.Contains(after, "allow:") {
		t.Errorf("watches.yaml goes on with:\n%s", after)
	}
	if manager := read(t, managerFile); !strings.Contains(manager, "        - name: RELATED_IMAGE_GOODBYE\n          value: example.com/goodbye:v1\n") {
		t.Errorf("no variable in:\n%s", manager)
	}
	crd := read(t, "config/crd/bases/example.com_goodbyes.yaml")
	if strings.Contains(crd, "jsonPath: .status.url") || !strings.Contains(read(t, "config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml"), "jsonPath: .status.url") {
		t.Error("kubectl get shows an URL of what has none, or none of what has one")
	}
	if csv := read(t, csvFile); !strings.Contains(csv, "Ingresses, NetworkPolicies, PodDisruptionBudgets, Pods and Services.\n    It has no right on any Secret.\n") {
		t.Errorf("the rights that people are told of are:\n%s", csv)
	}
	if strings.Contains(crd, "image:") || !strings.Contains(crd, "text:\n") {
		t.Errorf("the CRD is:\n%s", crd)
	}
}

// A chart of a registry is not fetched, and no path is made of its address.
func TestChartElsewhere(t *testing.T) {
	_, err := parseWanted([]string{"-chart=oci://registry.example.com/charts/goodbye", "-group=example.com", "-version=v1", "-kind=Goodbye"})
	if err == nil || !strings.Contains(err.Error(), "CHART is oci://registry.example.com/charts/goodbye: fetch it first (helm pull)") {
		t.Errorf("error is %v", err)
	}
}

// A chart without values is one, too.
func TestChartWithoutValues(t *testing.T) {
	var entry operator.Entry
	entry.ChartPath = chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "templates/x.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n"})
	if _, err := loadAPI(entry, nil); err != nil {
		t.Error(err)
	}
}

// No two images have one variable: the second would take the place of the first.
func TestVariablesDiffer(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: goodbye, version: 0.1.0}",
		"values.yaml": "web: {image: old}\nweb-image: old\n",
		"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, image: {{ .Values.web.image | quote }}}, " +
			"{name: b, image: {{ index .Values \"web-image\" | quote }}}, {name: c, image: example.com/other/web:v3}]}}",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes, pins: []string{"web.image=example.com/web:v1", "web-image=example.com/web:v2"}}); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		watchesFile: {"web.image: \"${RELATED_IMAGE_GOODBYE_WEB}\"\n", "web-image: \"${RELATED_IMAGE_GOODBYE_WEB_2}\"\n"},
		managerFile: {"RELATED_IMAGE_GOODBYE_WEB\n          value: example.com/web:v1\n", "RELATED_IMAGE_GOODBYE_WEB_2\n          value: example.com/web:v2\n"},
		imagesFile:  {"env:\n        - name: RELATED_IMAGE_GOODBYE_WEB_3\n          value: example.com/other/web:v3\n"},
	} {
		for _, want := range wants {
			if text := read(t, file); !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", file, want, text)
			}
		}
	}
}

// Who mirrors images gets those of the chart, with what an option or a text turns on, and none that has a text of a trial.
func TestImagesOfTrials(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: goodbye, version: 0.1.0, appVersion: '1.27'}",
		"values.yaml": "image: {tag: ''}\nsidecar: ''\nbackup: {schedule: ''}\n",
		"templates/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, image: 'nginx:v{{ .Values.image.tag | default .Chart.AppVersion }}'}" +
			"{{ with .Values.sidecar }}, {name: b, image: {{ . | quote }}}{{ end }}{{ if .Values.backup.schedule }}, {name: c, image: 'backup:v1'}{{ end }}]}}",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	const want = "env:\n        - name: RELATED_IMAGE_GOODBYE_BACKUP\n          value: backup:v1\n        - name: RELATED_IMAGE_GOODBYE_NGINX\n          value: nginx:v1.27\n"
	if text := read(t, imagesFile); !strings.HasSuffix(text, want) {
		t.Errorf("the images are:\n%s", text)
	}
}

// What a chart asks for can be given, and be made a field, although values.yaml does not have it.
func TestValuesThatOnlyTemplatesName(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "page: {text: a}\n",
		"templates/x.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: {{ required "set passcode" .Values.monitoring.passcode | quote }}, b: {{ .Values.page.color | quote }}}}`,
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes, pins: []string{"monitoring.passcode=x"}, allow: []string{"page.color"}}); err != nil {
		t.Fatal(err)
	}
	if crd := read(t, "config/crd/bases/example.com_goodbyes.yaml"); strings.Contains(crd, "passcode") || !strings.Contains(crd, "color:\n") {
		t.Errorf("the CRD is:\n%s", crd)
	}
}

// A key of a map that the chart hands on can be pinned, although neither values.yaml nor a template names it.
func TestPinsOfWhatAChartHandsOn(t *testing.T) {
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "text: a\nselector: {}\nlabels: {a: b}\nmore: {enabled: false, labels: {}}\n",
		"templates/x.yaml": `
apiVersion: v1
kind: Pod
metadata:
  name: x
  labels: {{ toJson .Values.labels }}
  annotations: {text: {{ .Values.text | quote }}}
spec:
  nodeSelector: {{ toJson .Values.selector }}
  containers: [{name: x, image: x}]
{{- if .Values.more.enabled }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {{ toJson .Values.more.labels }}}}
{{- end }}`,
	})
	for pin, may := range map[string]bool{
		`selector.kubernetes\.io/arch`: true, "labels.tier": true, "more.labels.tier": true,
		"selektor.tier": false, "text.tier": false, "more.labls.tier": false,
	} {
		var entry operator.Entry
		entry.ChartPath, entry.OverrideValues = dir, map[string]string{pin: "pinned"}
		api, err := loadAPI(entry, nil)
		if !may && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has no value %q", pin))) || may && (err != nil || !slices.Equal(api.unlisted, []string{pin})) {
			t.Errorf("%s may be pinned: %t, %v", pin, err == nil, err)
		}
	}
}

// So can what only Chart.yaml names, and turns a subchart off by.
func TestPinsOfWhatTurnsASubchartOff(t *testing.T) {
	dir := chartAt(t, map[string]string{
		"Chart.yaml":                  "{apiVersion: v2, name: x, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, condition: 'sub.install,global.install', tags: [backend, late]}]}",
		"charts/sub/Chart.yaml":       "{apiVersion: v2, name: sub, version: 0.1.0}",
		"charts/sub/templates/x.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n",
	})
	for pin, may := range map[string]bool{"tags.backend": true, "tags.late": true, "sub.install": true, "global.install": true, "tags.frontend": false} {
		var entry operator.Entry
		entry.ChartPath, entry.OverrideValues = dir, map[string]string{pin: "false"}
		api, err := loadAPI(entry, nil)
		if !may && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has no value %q", pin))) || may && (err != nil || len(api.kinds) > 0) {
			t.Errorf("%s may be pinned: %t, %v", pin, err == nil, err)
		}
	}
}

// What only a text turns on is tried: there are rights to make it, and what is said beside that text is a field.
func TestWhatATextTurnsOn(t *testing.T) {
	var entry operator.Entry
	entry.ChartPath = chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "mail: {server: '', from: '', port: 25}\nowner:\nlimits: {apiVersions: {quota: ''}, zone: '', cpu: 1}\n",
		"templates/x.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {
{{- if and .Values.mail.server .Values.mail.from }}server: {{ .Values.mail.server | quote }}, from: {{ .Values.mail.from | quote }}, port: "{{ .Values.mail.port }}"{{ end }}}}
{{- with .Values.owner }}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: x, labels: {owner: {{ . | quote }}}}}
{{- end }}
{{- if .Values.limits.zone }}
---
{apiVersion: {{ .Values.limits.apiVersions.quota | default "v1" }}, kind: ResourceQuota, metadata: {name: x}, spec: {hard: {cpu: {{ .Values.limits.cpu }}}}}
{{- end }}
`,
	})
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []infer.LeftOut{{Path: "limits.apiVersions.quota", Why: "reaches an extra object", Powerful: true}}; !slices.Equal(api.left, want) {
		t.Errorf("these are no fields: %v", api.left)
	}
	var made []string
	for _, m := range api.kinds {
		made = append(made, m.Kind+": "+m.When)
	}
	if want := []string{"ConfigMap: ", "LimitRange: texts for what is empty", "ResourceQuota: texts for what is empty"}; !slices.Equal(made, want) {
		t.Errorf("it makes %q, not %q", made, want)
	}
}

// What people are told of a kind is no place for a chart to write into: a version may be any text.
func TestVersionThatIsNone(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{
		"Chart.yaml":       "{apiVersion: v2, name: goodbye, version: 0.1.0}",
		"templates/x.yaml": "apiVersion: \"v1}\\n  cleanup: {enabled: true}\"\nkind: Service\nmetadata: {name: x}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	if csv := read(t, csvFile); strings.Contains(csv, "cleanup") || !strings.Contains(csv, "- {kind: Pod, version: v1}\n") {
		t.Errorf("the ClusterServiceVersion is:\n%s", csv)
	}
}

// Nor does it take an option or a text for what authors turn on by a number, a list or a map that is a field:
// there are rights to make it, too, and who mirrors images gets those that it runs.
func TestWhatAFieldTurnsOn(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: goodbye, version: 0.1.0}", "values.yaml": "replicaCount: 1\nstandby: 2\nhosts: []\nbackup: {}\nextra: []\nkept: []\n",
		"templates/x.yaml": `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x, annotations: {standby: {{ .Values.standby | quote }}}}, spec: {replicas: {{ .Values.replicaCount }}}}
{{- if gt (int .Values.replicaCount) 1 }}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: x}}
{{- end }}
{{- range .Values.hosts }}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x}, spec: {rules: [{host: {{ . | quote }}}]}}
{{- end }}
{{- with .Values.backup }}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}, spec: {resources: {requests: {storage: {{ .size | quote }}}}}}
{{- end }}
{{- range .Values.kept }}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {containers: [{name: x, image: {{ .image | quote }}}]}}}}
{{- end }}
{{- range .Values.extra }}
---
{{ toYaml . }}
{{- end }}
{{- if not .Values.standby }}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: x}}
{{- end }}
`,
		"templates/proxy.yaml": "{{ if gt (int .Values.replicaCount) 1 }}{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: proxy}, spec: {template: {spec: {containers: [{name: x, image: 'proxy:v1'}]}}}}{{ end }}",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes, allow: []string{"extra"}}); err != nil {
		t.Fatal(err)
	}
	role := read(t, "config/rbac/role.yaml")
	for what, may := range map[string]bool{
		"# - Goodbye: x.yaml, with another replicaCount\n": true, "# - Goodbye: x.yaml, with another hosts\n": true, "# - Goodbye: x.yaml, with another backup\n": true,
		"# - Goodbye: x.yaml, with values that are 0\n": true,
		"with another kept":                             false, "with another extra": false, "zq": false,
	} {
		if strings.Contains(role, what) != may {
			t.Errorf("%q is in the role: %t\n%s", what, !may, role)
		}
	}
	if images := read(t, imagesFile); !strings.HasSuffix(images, "env:\n        - name: RELATED_IMAGE_GOODBYE_PROXY\n          value: proxy:v1\n") {
		t.Errorf("the images are:\n%s", images)
	}
}

// What a chart makes only at an upgrade counts as what it makes at an installation does: there are rights to it,
// and who may write a value that its pods run then has a say in that.
func TestWhatAnUpgradeMakes(t *testing.T) {
	var entry operator.Entry
	entry.ChartPath = chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "text: hello\nquiet: word\nmigrate: false\nfrom: a\n",
		"templates/x.yaml": `{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {text: {{ .Values.text | quote }}, quiet: {{ .Values.quiet | quote }}, from: {{ .Values.from | quote }}, password: {{ randAlphaNum 9 }}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: nginx, args: [{{ if .Release.IsUpgrade }}{{ .Values.text | quote }}{{ end }}]}]}}
{{- if gt .Release.Revision 1 }}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: x}}
{{- end }}
{{- if and .Values.migrate .Release.IsUpgrade }}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {containers: [{name: x, image: nginx, args: [{{ .Values.from | quote }}]}]}}}}
{{- end }}
`,
	})
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []infer.LeftOut{{Path: "from", Why: "reaches a command", Powerful: true}, {Path: "text", Why: "reaches a command", Powerful: true}}; !slices.Equal(api.left, want) {
		t.Errorf("these are no fields: %v", api.left)
	}
	var made []string
	for _, m := range api.kinds {
		made = append(made, m.Kind+": "+m.When)
	}
	if want := []string{"Job: an upgrade and migrate: true", "LimitRange: an upgrade", "Pod: ", "Service: "}; !slices.Equal(made, want) {
		t.Errorf("it makes %q, not %q", made, want)
	}
}

// What neither an option nor a text turns on, a sample may, or a pin.
func TestWhatASampleTurnsOn(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "groups: []\ntext: hello\n",
		"templates/x.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b{{ if .Values.groups }}, text: {{ .Values.text | quote }}{{ end }}}}`,
	}
	for name, c := range map[string]struct {
		samples []map[string]any
		pins    map[string]string
		left    bool
	}{
		"neither":  {left: true},
		"a sample": {samples: []map[string]any{{"groups": []any{"a"}}}},
		"a pin":    {pins: map[string]string{"groups[0]": "a"}},
	} {
		var entry operator.Entry
		entry.ChartPath, entry.OverrideValues = chartAt(t, files), c.pins
		api, err := loadAPI(entry, c.samples)
		if err != nil {
			t.Fatal(err)
		}
		if left := slices.ContainsFunc(api.left, func(l infer.LeftOut) bool { return l.Path == "text" }); left != c.left {
			t.Errorf("with %s, these are no fields: %v", name, api.left)
		}
	}
}

// A template that forgets a kind makes nothing that a cluster takes: that is said of the option with which it
// does, and nobody is asked to allow what has no name.
func TestObjectWithoutKind(t *testing.T) {
	var entry operator.Entry
	entry.Kind = "Goodbye"
	entry.ChartPath = chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "create: true\nmount: true\n",
		"templates/x.yaml": "{{ if .Values.create }}\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x}\n{{ end }}\n{{ if not .Values.mount }}\nautomountServiceAccountToken: false\n{{ end }}",
		"templates/y.yaml": "{{ if not .Values.create }}\nmetadata: {name: y}\n{{ end }}",
	})
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := kind{entry, api, nil}.report("")
	if !strings.Contains(report, "can't be rendered with create: false and nothing else: x/templates/y.yaml makes an object without apiVersion or kind\n") || strings.Contains(report, "no right to make  ") {
		t.Errorf("the report is:\n%s", report)
	}
}

// A chart from a git checkout comes without its repository: git would take the copy for another one, and commit none of
// its files.
func TestChartFromAGitCheckout(t *testing.T) {
	inCopy(t)
	const config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n"
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "templates/x.yaml": config, ".git/config": "url = https://user:password@example.com/x\n", ".gitattributes": "* text\n",
		"charts/db/Chart.yaml": "{apiVersion: v2, name: db, version: 0.1.0}", "charts/db/.git": "gitdir: ../../.git/modules/db\n",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"templates/x.yaml": true, ".gitattributes": true, "charts/db/Chart.yaml": true, ".git": false, "charts/db/.git": false} {
		if _, err := os.Stat(filepath.Join("helm-charts/goodbye", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What can't be made leaves nothing behind.
func TestMakeKindLeavesNothing(t *testing.T) {
	created, err := chartutil.Create("created", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\n", "templates/x.yaml": ""}
	for name, c := range map[string]struct {
		wanted wanted
		want   string
	}{
		"a kind that is there":              {wanted{chart: created, gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WELCOME"}}, "has a kind Welcome"},
		"no chart":                          {wanted{chart: t.TempDir(), gvk: goodbyes}, "Chart.yaml"},
		"a pin of what is not there":        {wanted{chart: created, gvk: goodbyes, pins: []string{"imag.tag=1"}}, `no value "imag.tag"`},
		"a pin of a part that is not there": {wanted{chart: created, gvk: goodbyes, pins: []string{"image.tga=1"}}, `no value "image.tga"`},
		"a field in what is not there":      {wanted{chart: created, gvk: goodbyes, allow: []string{"labels.name"}}, `no value "labels.name"`},
		"a chart without its subchart":      {wanted{chart: chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0, dependencies: [{name: db, version: 1.0.0}]}", "values.yaml": "a: \"\"\n", "templates/x.yaml": `a: {{ required "set a" .Values.a }}`}), gvk: goodbyes}, "charts/ lacks db"},
		"a schema that refers to a file":    {wanted{chart: chartAt(t, map[string]string{"Chart.yaml": plain["Chart.yaml"], "values.schema.json": `{"x-crd": {}, "$ref": "file:///dev/zero"}`}), gvk: goodbyes}, "refers to file:///dev/zero"},
		"a template that is no YAML":        {wanted{chart: chartAt(t, map[string]string{"Chart.yaml": plain["Chart.yaml"], "values.yaml": "a: 1\n", "templates/x.yaml": "a:\n\tb: 1\n"}), gvk: goodbyes}, "with its defaults: correct it or"},
		"a chart that asks for something":   {wanted{chart: chartAt(t, map[string]string{"Chart.yaml": plain["Chart.yaml"], "values.yaml": "a: \"\"\n", "templates/x.yaml": `a: {{ required "set a" .Values.a }}`}), gvk: goodbyes}, "PIN=path=value"},
	} {
		t.Run(name, func(t *testing.T) {
			inCopy(t)
			before := files(t)
			if err := makeKind(c.wanted); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, without %q", err, c.want)
			}
			if diff := cmp.Diff(before, files(t)); diff != "" {
				t.Errorf("it left something:\n%s", diff)
			}
		})
	}
}

// A sample has a name that its CRD lets it have; a kind that leaves too few letters for names is refused.
func TestKindWithALongName(t *testing.T) {
	inCopy(t)
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\n", "templates/x.yaml": ""})
	long := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "PrometheusBlackboxExporter"}
	if err := makeKind(wanted{chart: dir, gvk: long}); err != nil {
		t.Fatal(err)
	}
	if sample := read(t, filepath.Join(samplesDir, "example_v1_prometheusblackboxexporter.yaml")); !strings.Contains(sample, "  name: sample\n") {
		t.Errorf("the sample is\n%s", sample)
	}
	if _, err := parseWanted([]string{"-chart=" + dir, "-group=example.com", "-version=v1", "-kind=" + strings.Repeat("Long", 11)}); err == nil || !strings.Contains(err.Error(), "KIND has 44 letters") {
		t.Errorf("error is %v", err)
	}
}

// ctrl-C leaves nothing behind either, of a new kind as of another version of a chart.
func TestMakeKindIsInterrupted(t *testing.T) {
	inCopy(t)
	version := func(number string) string {
		return chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: goodbye, version: " + number + "}", "values.yaml": "text: hello\n", "templates/" + number + ".yaml": ""})
	}
	for _, number := range []string{"1.0.0", "2.0.0"} {
		w, before, ended := wanted{chart: version(number), gvk: goodbyes}, files(t), make(chan struct{})
		close(ended)
		infer.Ended = ended
		if err := makeKind(w); !errors.Is(err, infer.ErrInterrupted) {
			t.Errorf("error is %v", err)
		}
		if diff := cmp.Diff(before, files(t)); diff != "" {
			t.Errorf("%s left something:\n%s", number, diff)
		}
		if err := makeKind(w); err != nil { // so that 2.0.0 is another version
			t.Fatal(err)
		}
	}
}

// A kind that is there gets another version of its chart by the same command: what people have written stays,
// what the version no longer has is not rendered, and one of which nothing can be made changes nothing.
func TestAnotherVersionOfAChart(t *testing.T) {
	inCopy(t)
	version := func(number, name, template string) string {
		return chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: " + name + ", version: " + number + "}", "values.yaml": "text: hello\n", "templates/" + number + ".yaml": template})
	}
	const config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}'}, data: {a: {{ .Values.text | quote }}}}"
	w := wanted{gvk: goodbyes}
	take := func(chart string) error {
		w.chart = chart
		return makeKind(w)
	}
	if err := take(version("1.0.0", "goodbye", config)); err != nil {
		t.Fatal(err)
	}
	write(t, watchesFile, read(t, watchesFile)+"  # people's\n  driftDetection: {mode: warn}\n")
	sample := filepath.Join(samplesDir, "example_v1_goodbye.yaml")
	write(t, sample, read(t, sample)+"# people's\n")
	before := files(t)
	if err := take(version("2.0.0", "goodbye", "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {a: {{ .Values.text | quote }}}}}")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS("helm-charts/goodbye/next", os.DirFS(version("3.0.0", "goodbye", config))); err != nil {
		t.Fatal(err)
	}
	after := files(t)
	for _, file := range []string{watchesFile, sample} {
		if after[file] != before[file] {
			t.Errorf("%s is now:\n%s", file, after[file])
		}
	}
	if _, err := os.Stat("helm-charts/goodbye/templates/1.0.0.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what 1.0.0 made is rendered still: %v", err)
	}
	if rights := after[filepath.Join(rightsDir, roleFile)]; !strings.Contains(rights, "Goodbye: 2.0.0.yaml") || strings.Contains(rights, "Goodbye: 1.0.0.yaml") {
		t.Errorf("the rights are:\n%s", rights)
	}
	elsewhere, later := goodbyes, goodbyes
	elsewhere.Group, later.Version = "example.org", "v2"
	for _, c := range []struct {
		w    wanted
		says string
	}{
		{wanted{chart: version("3.0.0", "goodbye", config+"{{ fail \"no\" }}"), gvk: goodbyes}, "no"},
		{wanted{chart: version("3.0.0", "other", config), gvk: goodbyes}, "Goodbye is served by chart goodbye, not other"},
		{wanted{chart: version("3.0.0", "goodbye", config), gvk: goodbyes, pins: []string{"text=a"}}, "leave out PIN and ALLOW"},
		{wanted{chart: version("3.0.0", "goodbye", config), gvk: elsewhere}, "an operator serves kinds of different names"},
		{wanted{chart: version("3.0.0", "goodbye", config), gvk: later}, "VERSION is v2, and Goodbye is served as v1: docs/upgrade.md"},
		{wanted{chart: "helm-charts/goodbye/next", gvk: goodbyes}, "in the chart that it is to replace"},
	} {
		if err := makeKind(c.w); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error is %v, not %q", err, c.says)
		}
		if diff := cmp.Diff(after, files(t)); diff != "" {
			t.Errorf("it has changed something (-want +got):\n%s", diff)
		}
	}
	// A value that the entry names, and the new version calls otherwise.
	renamed := version("3.0.0", "goodbye", strings.ReplaceAll(config, "text", "words"))
	write(t, filepath.Join(renamed, "values.yaml"), "words: hello\n")
	pinned := read(t, watchesFile) + "  overrideValues: {text: hello}\n"
	write(t, watchesFile, pinned)
	if err := take(renamed); err == nil || !strings.Contains(err.Error(), `has no value "text": correct overrideValues`) {
		t.Errorf("a pin of before: %v", err)
	}
	write(t, watchesFile, strings.Replace(pinned, "{text: hello}", "{words: hello}", 1))
	if err := take(renamed); err != nil {
		t.Errorf("with the pin by its new name: %v", err)
	}
}

// A kind that Kubernetes has no longer in the version that the chart makes is said to be gone, whatever client-go
// remembers of it, and not to need a word.
func TestKindsThatAreGone(t *testing.T) {
	for made, gone := range map[string]bool{
		"policy/v1beta1 PodDisruptionBudget": true, "autoscaling/v2beta2 HorizontalPodAutoscaler": true, "policy/v1beta1 PodSecurityPolicy": true, "extensions/v1beta1 PodSecurityPolicy": true,
		"policy/v1 PodDisruptionBudget": false, "autoscaling/v2 HorizontalPodAutoscaler": false, "v1 Secret": false, "example.com/v1 Thing": false, "apiextensions.k8s.io/v1 CustomResourceDefinition": false,
	} {
		apiVersion, kind, _ := strings.Cut(made, " ")
		if got := dropped(infer.Made{APIVersion: apiVersion, Kind: kind}); got != gone {
			t.Errorf("%s %s is gone: %t", apiVersion, kind, got)
		}
	}
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "templates/x.yaml": "{apiVersion: autoscaling/v2beta2, kind: HorizontalPodAutoscaler, metadata: {name: x}}\n"})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Kubernetes v1.32.0 or newer has no HorizontalPodAutoscaler in version autoscaling/v2beta2 (x.yaml, always: no Goodbye will be ready): another version of the chart may make it in one that it has"}
	if got := (kind{entry, api, nil}).obstacles(true); !slices.Equal(got, want) {
		t.Errorf("told is %q", got)
	}
}

// A chart brings no file of the machine along to which a link of it leads. One to a file of its own is as good as that.
func TestLinksOutOfAChart(t *testing.T) {
	outside := chartAt(t, map[string]string{"key": "private", "dir/key": "private"})
	for name, c := range map[string]struct {
		target string
		taken  bool
	}{
		"a file elsewhere":         {filepath.Join(outside, "key"), false},
		"a directory elsewhere":    {filepath.Join(outside, "dir"), false},
		"by a path that leads up":  {"../..", false},
		"a link to another link":   {"away", false},
		"a directory of the chart": {"../templates", false},
		"what is not there":        {"../LICENSE", false},
		"a file of the chart":      {"../values.yaml", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\n", "files/x": "", "templates/x.yaml": ""})
			link := filepath.Join(dir, "files/link")
			if c.target == "away" {
				if err := os.Symlink(outside, filepath.Join(dir, "files/away")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(c.target, link); err != nil {
				t.Fatal(err)
			}
			given := filepath.Join(t.TempDir(), "given") // the directory may be a link itself
			if err := os.Symlink(dir, given); err != nil {
				t.Fatal(err)
			}
			for _, place := range []string{dir, given} {
				chrt, err := loadChart(place)
				if c.taken && (err != nil || len(chrt.Files) != 2 || string(chrt.Files[0].Data) != "a: 1\n") {
					t.Errorf("%s: %v, %v", place, chrt, err)
				}
				if !c.taken && (err == nil || !strings.Contains(err.Error(), "put a copy in its place")) {
					t.Errorf("%s: error is %v", place, err)
				}
			}
		})
	}
}

// A chart that takes too much is refused, and leaves nothing behind, whether it does so by itself or with an option.
func TestChartsThatTakeTooMuch(t *testing.T) {
	const much = "{{ range until 8000 }}{{ range until 8000 }}{{ end }}{{ end }}" // some seconds, for it goes on beside the other tests
	for name, c := range map[string]struct {
		template string
		time     time.Duration
		memory   uint64
		want     string
	}{
		"of time":               {much, time.Second, infer.MaxMemory, "to render chart x once takes more than 1s"},
		"of time, by an option": {"{{ if .Values.a }}" + much + "{{ end }}", time.Second, infer.MaxMemory, "once takes more than 1s"}, // on a busy machine, another chart may be
		"of time, by a value":   {"{{ range until (int .Values.times) }}{{ range until (int $.Values.times) }}{{ end }}{{ end }}", 2 * time.Second, infer.MaxMemory, "takes more than 2s, with another times: pin that value"},
		"of memory":             {much, infer.MaxTime, 1 << 20, "to render chart x once takes more than 1 MiB of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			inCopy(t)
			before := files(t)
			timeBefore, memoryBefore := infer.MaxTime, infer.MaxMemory
			t.Cleanup(func() { infer.MaxTime, infer.MaxMemory = timeBefore, memoryBefore })
			infer.MaxTime, infer.MaxMemory = c.time, c.memory
			dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: false\ntimes: 1\n", "templates/x.yaml": c.template})
			if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, without %q", err, c.want)
			}
			if diff := cmp.Diff(before, files(t)); diff != "" {
				t.Errorf("it left something:\n%s", diff)
			}
		})
	}
}

// A chart may write anything for a kind, and so get the operator any right.
func TestRightsOfAStrangersChart(t *testing.T) {
	inCopy(t)
	template := ""
	for _, object := range []string{"v1 Secret", "v1 secret", "v1 '*'", "rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 rolebinding",
		"rbac.authorization.k8s.io/v1 ClusterRole", "example.net/v1 Anything", "'*/v1' Service", "authentication.k8s.io/v1 TokenReview", `"v1" "Service\n- evil"`,
		"storage.k8s.io/v1 VolumeAttachment", "storage.k8s.io/v1 VolumeAttributesClass", "networking.k8s.io/v1 ServiceCIDR", "networking.k8s.io/v1 IPAddress", "resource.k8s.io/v1 ResourceSlice",
		"resource.k8s.io/v1beta2 DeviceTaintRule", "certificates.k8s.io/v1beta1 ClusterTrustBundle", "storagemigration.k8s.io/v1beta1 StorageVersionMigration", "v1 ComponentStatus", "v1 Node",
		"batch/v1 CronJob"} {
		apiVersion, kind, _ := strings.Cut(object, " ")
		template += "---\n{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: x}}\n"
	}
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "\"a\\n- \\e[2J\": 1\n", "templates/x.yaml": template})
	before := read(t, "config/rbac/role.yaml")
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.SplitSeq(read(t, "config/rbac/role.yaml"), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "goodbyes") && !strings.Contains(line, "example.com]") && !strings.Contains(before, line+"\n") {
			got = append(got, line)
		}
	}
	if want := []string{"- apiGroups: [batch]", "  resources: [cronjobs]"}; !cmp.Equal(want, got) {
		t.Errorf("the operator may also %q, not only %q", got, want)
	}
	crd := read(t, "config/crd/bases/example.com_goodbyes.yaml")
	if err := yaml.Unmarshal([]byte(crd), new(any)); err != nil || !strings.Contains(crd, "\n# - a - \ufffd[2J: ") {
		t.Errorf("the CRD is no YAML, for what the chart calls a value: %v\n%.300s", err, crd)
	}
}

// Who takes a kind away has nothing left of it but what they wrote.
func TestKindIsTakenAway(t *testing.T) {
	inCopy(t)
	before := files(t)
	created, err := chartutil.Create("created", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chrt, err := loader.Load(created)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := chartutil.Save(chrt, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := makeKind(wanted{chart: archive, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	write(t, watchesFile, before[watchesFile])
	for _, path := range []string{"helm-charts/goodbye", "config/samples/example_v1_goodbye.yaml"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, files(t)); diff != "" {
		t.Errorf("left (-before +after):\n%s", diff)
	}
}

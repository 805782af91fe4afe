package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

var memos = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Memo"}

// plainChart is one with an image and an example of what may be set.
func plainChart(t *testing.T) string {
	return chartAt(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: plain, version: 0.1.0}",
		"README.md":   tableStart + tableEnd,
		"values.yaml": "image: example.com/one:v1\ntext: \"\"\n",
		"values.schema.json": `{"x-crd": {"description": "It is plain."}, "examples": [{"text": "hello"}], "description": "What it says.", "type": "object", "additionalProperties": false,
			"properties": {"text": {"description": "The text.", "type": "string"}, "image": {"description": "The image.", "type": "string"}}}`,
		"templates/job.yaml": "{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {jobTemplate: {spec: {template: {spec: " +
			"{containers: [{name: x, image: {{ .Values.image | quote }}, env: [{name: TEXT, value: {{ .Values.text | quote }}}]}]}}}}}}\n",
	})
}

// filesIn a directory, with what is in them.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	defer t.Chdir(here)
	return files(t)
}

// An operator of its own is a directory with all that it takes, and this repository is as before.
func TestOwnOperator(t *testing.T) {
	inCopy(t)
	before := files(t)
	dir := filepath.Join(t.TempDir(), "notes-operator")
	if err := (wanted{chart: plainChart(t), gvk: goodbyes, pins: []string{"image=example.com/goodbye:v1"}, into: dir}).make(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, files(t)); diff != "" {
		t.Errorf("this repository has changed:\n%s", diff)
	}
	own := filesIn(t, dir)
	names := []string{}
	for name := range own {
		if !strings.HasPrefix(name, "helm-charts/goodbye/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if want := []string{"Dockerfile", "kustomization.yaml", "operator.yaml", "samples/example_v1_goodbye.yaml", "watches.yaml"}; !slices.Equal(names, want) {
		t.Errorf("it has the files %q, not %q", names, want)
	}
	for file, want := range map[string][]string{
		"Dockerfile":                             {"FROM demo.welcome.domain/welcome-operator:v"},
		"watches.yaml":                           {"kind: Goodbye\n  chart: helm-charts/goodbye\n", `image: "example.com/goodbye:v1"`},
		"samples/example_v1_goodbye.yaml":        {"spec:\n  text: hello\n"},
		"helm-charts/goodbye/README.md":          {"The text."},
		"helm-charts/goodbye/values.yaml":        {"image: example.com/one:v1"},
		"operator.yaml":                          {"name: goodbyes.example.com\n", "name: notes-operator-system\n", "# - Goodbye: job.yaml\n- apiGroups: [batch]", "image: demo.welcome.domain/notes-operator:v", "notes-operator-system:notes-operator-controller-manager:", "- --leader-election-id=notes-operator\n", "  resourceNames:\n  - notes-operator\n", `request.name == "notes-operator"`, "(then make manifests INTO=DIR, build the image"},
		"kustomization.yaml":                     {"- name: demo.welcome.domain/notes-operator\n"},
		"helm-charts/goodbye/Chart.yaml":         {"name: plain"},
		"helm-charts/goodbye/templates/job.yaml": {"CronJob"},
	} {
		for _, text := range want {
			if !strings.Contains(own[file], text) {
				t.Errorf("%s has no %q:\n%s", file, text, own[file])
			}
		}
	}
	if strings.Contains(own["operator.yaml"], "elcomes") || strings.Contains(own["operator.yaml"], "RELATED_IMAGE") || strings.Contains(own["operator.yaml"], "welcome-operator.webapp") || strings.Contains(own["operator.yaml"], "deploy)") {
		t.Errorf("it has something of Welcomes:\n%s", own["operator.yaml"])
	}

	// Where its kustomization has another namespace and prefix, the policy is about the account that the operator has then.
	write(t, filepath.Join(dir, "kustomization.yaml"), "namespace: elsewhere\nnamePrefix: my-\n"+own["kustomization.yaml"])
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := built.AsYaml(); err != nil || !strings.Contains(string(text), "system:serviceaccount:elsewhere:my-notes-operator-controller-manager:") {
		t.Errorf("%v: the policy bounds nobody:\n%s", err, text)
	}

	// Where the API server listens elsewhere, what stands there needs no more than to be uncommented.
	commented := regexp.MustCompile(`(?m)^# (patches:|- target:|  patch:)`)
	write(t, filepath.Join(dir, "kustomization.yaml"), commented.ReplaceAllString(own["kustomization.yaml"], "$1"))
	if built, err = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir); err != nil {
		t.Fatal(err)
	}
	if text, err := built.AsYaml(); err != nil || !strings.Contains(string(text), "    - port: 443\n    - port: 6443\n    - port: 16443\n") {
		t.Errorf("%v: the operator does not reach port 16443", err)
	}

	// It may have more kinds, what is somebody's stays, and nothing else follows from the same.
	write(t, filepath.Join(dir, "kustomization.yaml"), "mine: true\n")
	write(t, filepath.Join(dir, "Dockerfile"), "FROM mine\n")
	write(t, filepath.Join(dir, "watches.yaml"), own["watches.yaml"]+"  # mine\n")
	said := filepath.Join(t.TempDir(), "said")
	stdout := os.Stdout
	if os.Stdout, err = os.Create(said); err != nil {
		t.Fatal(err)
	}
	err = (wanted{chart: plainChart(t), gvk: memos, into: dir}).make()
	os.Stdout = stdout
	if err != nil || !strings.Contains(read(t, said), "/Dockerfile does not name the base image that operator.yaml is made for: FROM demo.welcome.domain/welcome-operator:v") {
		t.Fatalf("%v: of another FROM it says nothing:\n%s", err, read(t, said))
	}
	more := filesIn(t, dir)
	if more["kustomization.yaml"] != "mine: true\n" || more["Dockerfile"] != "FROM mine\n" || !strings.HasPrefix(more["watches.yaml"], own["watches.yaml"]+"  # mine\n- group: example.com\n  version: v1\n  kind: Memo\n") {
		t.Errorf("what was written by hand is lost: %q", more)
	}
	for _, kind := range []string{"name: goodbyes.example.com\n", "name: memos.example.com\n"} {
		if !strings.Contains(more["operator.yaml"], kind) {
			t.Errorf("operator.yaml has no %q", kind)
		}
	}
	if err := inOwn(dir, run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(more, filesIn(t, dir)); diff != "" {
		t.Errorf("made anew, it differs:\n%s", diff)
	}
}

// What Welcome's operator was told is not for another one, which has a kustomization of its own for that.
func TestOwnOperatorIsToldNothingOfAnother(t *testing.T) {
	inCopy(t)
	manager := read(t, managerFile)
	for old, more := range map[string]string{
		"        args: [--leader-elect]\n":                                                 "        args:\n        - --leader-elect\n        - --leader-election-lease-duration=15s\n",
		"        - name: WATCH_NAMESPACE # empty: all namespaces\n          value: \"\"\n": "        - name: WATCH_NAMESPACE\n          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}\n",
	} {
		if !strings.Contains(manager, old) {
			t.Fatalf("%s has no %q", managerFile, old)
		}
		manager = strings.Replace(manager, old, more, 1)
	}
	write(t, managerFile, manager)
	dir := filepath.Join(t.TempDir(), "notes-operator")
	if err := (wanted{chart: plainChart(t), gvk: goodbyes, into: dir}).make(); err != nil {
		t.Fatal(err)
	}
	made := read(t, filepath.Join(dir, "operator.yaml"))
	for _, want := range []string{
		"      - args:\n        - --leader-elect\n        - --leader-election-id=notes-operator\n        env:\n",
		"        - name: WATCH_NAMESPACE\n          value: \"\"\n        - name: GOGC\n",
	} {
		if !strings.Contains(made, want) {
			t.Errorf("it has no\n%s in\n%s", want, made[strings.Index(made, "kind: Deployment"):])
		}
	}
}

// What can't be made leaves nothing behind, and takes nothing away.
func TestOwnOperatorThatCannotBe(t *testing.T) {
	inCopy(t)
	before := files(t)
	dir := filepath.Join(t.TempDir(), "notes-operator")
	if err := (wanted{chart: plainChart(t), gvk: goodbyes, pins: []string{"imag=x"}, into: dir}).make(); err == nil || !strings.Contains(err.Error(), `no value "imag"`) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", dir, err)
	}
	// The chart is where it belongs before there is an operator.
	chart := filepath.Join(dir, "helm-charts", "goodbye")
	if err := os.CopyFS(chart, os.DirFS(plainChart(t))); err != nil {
		t.Fatal(err)
	}
	there := filesIn(t, dir)
	if err := (wanted{chart: chart, gvk: goodbyes, pins: []string{"imag=x"}, into: dir}).make(); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff(there, filesIn(t, dir)); diff != "" {
		t.Errorf("the chart has changed:\n%s", diff)
	}
	if err := (wanted{chart: chart, gvk: goodbyes, into: dir}).make(); err != nil {
		t.Error(err)
	}
	if err := (wanted{chart: chart, gvk: memos, into: filepath.Join(dir, "My_Operator")}).make(); err == nil || !strings.Contains(err.Error(), `"My_Operator", the name of the operator: write at most 28 `) {
		t.Errorf("error is %v", err)
	}
	if err := (wanted{chart: chart, gvk: memos, into: "."}).make(); err == nil {
		t.Error("this repository is an operator of its own")
	}
	if diff := cmp.Diff(before, files(t)); diff != "" {
		t.Errorf("this repository has changed:\n%s", diff)
	}
}

// The API server takes the objects of an operator whose name is taken.
func TestNameOfOwnOperator(t *testing.T) {
	service := nameIn(read(t, "../../config/manager/metrics_service.yaml"))
	for name, want := range map[string]bool{"a": true, "my-operator2": true, strings.Repeat("a", 28): true, strings.Repeat("a", 29): false, "2-operators": false, "my-": false, "My": false, "": false} {
		if problems := validation.IsDNS1035Label(name + "-" + service); ownName.MatchString(name) != want || want && len(problems) > 0 {
			t.Errorf("%q is a name: %v, want %v; its Service: %v", name, !want, want, problems)
		}
	}
}

// crdOf makes a kind of a chart with these files, in a copy, and returns its CRD.
func crdOf(t *testing.T, chart map[string]string, allow ...string) string {
	t.Helper()
	inCopy(t)
	if err := makeKind(wanted{chart: chartAt(t, chart), gvk: goodbyes, allow: allow}); err != nil {
		t.Fatal(err)
	}
	return read(t, "config/crd/bases/example.com_goodbyes.yaml")
}

// Values are fields because somebody allows it, in watches.yaml.
func TestAllow(t *testing.T) {
	inCopy(t)
	if err := makeKind(wanted{chart: plainChart(t), gvk: goodbyes, allow: []string{"image"}}); err != nil {
		t.Fatal(err)
	}
	if crd := read(t, "config/crd/bases/example.com_goodbyes.yaml"); !strings.Contains(crd, "image:\n") {
		t.Errorf("image is no field:\n%s", crd)
	}
	if watches := read(t, watchesFile); !strings.Contains(watches, "    values: [\"image\"]\n") {
		t.Errorf("watches.yaml says:\n%s", watches)
	}
}

// What is listed may have more than a word, also where a template writes it without quotes; and a key with a
// dot is listed by the path that people are told.
func TestAllowLines(t *testing.T) {
	crd := crdOf(t, map[string]string{
		"Chart.yaml":        "{apiVersion: v2, name: lines, version: 0.1.0}",
		"values.yaml":       "inputs: \"[INPUT]\\n  Name tail\\n\"\nparams: {server.insecure: x}\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  x.conf: |\n    # a file\n{{ .Values.inputs | nindent 4 }}\n  server.insecure: {{ index .Values.params \"server.insecure\" | quote }}\n",
	}, "inputs", `params.server\.insecure`)
	if inputs, params := strings.Index(crd, "inputs:\n"), strings.Index(crd, "params:\n"); inputs < 0 || params < inputs || strings.Contains(crd[inputs:params], "pattern") || !strings.Contains(crd, "server.insecure:\n") {
		t.Errorf("the fields are:\n%s", crd)
	}
}

// Only a number can be scaled, and only where custom resources that do not say it have one by default.
func TestScaleOfANumber(t *testing.T) {
	for replicas, may := range map[string]bool{"1": true, "{count: 1}": false, "'1'": false, "null": false} {
		t.Run(replicas, func(t *testing.T) {
			crd := crdOf(t, map[string]string{
				"Chart.yaml": "{apiVersion: v2, name: scaled, version: 0.1.0}", "values.yaml": "replicas: " + replicas,
				"templates/d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicas: {{ if kindIs \"map\" .Values.replicas }}{{ .Values.replicas.count }}{{ else }}{{ .Values.replicas }}{{ end }}}\n",
			})
			if !strings.Contains(crd, "replicas:\n") {
				t.Error("it is no field")
			}
			for what, has := range map[string]bool{
				"the scale subresource": strings.Contains(crd, "specReplicasPath"), "a right to it": strings.Contains(read(t, "config/rbac/goodbye_editor_role.yaml"), "goodbyes/scale"),
				"a column": strings.Contains(crd, "jsonPath: .spec.replicas"), "a default that is stored": strings.Contains(crd, "default:\n              replicas: "),
			} {
				if has != may {
					t.Errorf("there is %s: %t\n%s", what, has, crd)
				}
			}
		})
	}
}

// The labels of each element's pods have a rule, and there are not so many elements that the API server would refuse it.
func TestLabelsOfPodsInList(t *testing.T) {
	crd := crdOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: workers, version: 0.1.0}",
		"values.yaml": "workers: [{name: a, labels: {}}]\n",
		"templates/d.yaml": "{{ range .Values.workers }}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .name | quote }}}\nspec:\n  selector: {matchLabels: {a: b}}\n" +
			"  template:\n    metadata: {labels: {{ toJson .labels }}}\n    spec: {containers: [{name: x, image: nginx}]}\n{{ end }}",
	})
	if !strings.Contains(crd, "self.all(k") {
		t.Errorf("the labels have no rule:\n%s", crd)
	}
}

// What a chart makes in a List is judged as if it stood alone, and the operator gets the right to it.
func TestObjectsInAList(t *testing.T) {
	crd := crdOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: lister, version: 0.1.0}",
		"values.yaml": "image: nginx\n",
		"templates/list.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ServiceAccount, metadata: {name: x}}\n" +
			"- {apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {template: {spec: {containers: [{name: x, image: {{ .Values.image | quote }}}]}}}}\n",
	})
	if role := read(t, "config/rbac/role.yaml"); !strings.Contains(role, "serviceaccounts") || strings.Contains(role, "- lists") || strings.Contains(role, "[lists") {
		t.Errorf("the operator may:\n%s", role)
	}
	if strings.Contains(crd, "image:\n") {
		t.Errorf("image is a field:\n%s", crd)
	}
}

// So is one of each element of a list, by the path that people are told.
func TestAllowInList(t *testing.T) {
	crd := crdOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: lists, version: 0.1.0}",
		"values.yaml":        "pods: [{name: a, image: nginx}]\n",
		"templates/pod.yaml": "{{ range .Values.pods }}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: {{ .name | quote }}}, spec: {containers: [{name: x, image: {{ .image | quote }}}]}}\n{{ end }}",
	}, "pods[].image")
	if !strings.Contains(crd, "image:\n") {
		t.Errorf("pods[].image is no field:\n%s", crd)
	}
}

// Without the [] of a list, a path is none: what the elements are by default is not lost by it.
func TestAllowInListWithoutBrackets(t *testing.T) {
	var entry operator.Entry
	entry.ChartPath, entry.Allow.Values = chartAt(t, map[string]string{
		"Chart.yaml":       "{apiVersion: v2, name: lists, version: 0.1.0}",
		"values.yaml":      "env: [{name: a, value: b}]\n",
		"templates/x.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {env: {{ tpl (toJson .Values.env) . | quote }}}}\n{{/* .value */}}",
	}), []string{"env.value"}
	if _, err := loadAPI(entry, nil); err == nil || !strings.Contains(err.Error(), `has no value "env.value"`) {
		t.Errorf("error is %v", err)
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

// Who makes a kind is told what its pods use, and that they may now.
func TestReportTellsOfPods(t *testing.T) {
	k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{}}}}
	k.entry.Kind, k.entry.Tests, k.entry.Allow.Pods = "Goodbye", true, []string{obj.PodSecrets, obj.PodHost}
	report := k.report("")
	for _, want := range []string{"use Secrets: allow.pods in watches.yaml lets them now (secrets)", "use the node (its namespaces, files or ports, or more privileges): allow.pods in watches.yaml lets them now (host)"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

// What is said of one value and of another stands in one line, what a role hands out is said whether it may
// be made or not, and who has crds/ learns what installs them.
func TestReport(t *testing.T) {
	const role, binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}\n---\n",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}}\n"
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\nb: {c: 1}\nd: 1\nrbac: true\n",
		"crds/x.yaml": "{}", "templates/x.yaml": "{{ if .Values.rbac }}\n" + role + binding + "{{ end }}\n", "templates/_y.tpl": "{{ define \"y\" }}helm.sh/hook: pre-instal{{ end }}"})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kinds := range []string{"", "Role.rbac.authorization.k8s.io"} {
		entry.Allow.Kinds = []string{kinds}
		report := kind{entry, api, nil}.report("../x-operator")
		for _, want := range []string{
			"\n  a, b.c, d: nothing that was rendered has it: nobody can tell what it reaches, but with a pin or a sample that turns it on\n",
			"\nThe operator gets no right to hand out what Role x does (x.yaml, always: no Goodbye will be ready): get on secrets: it reaches Secrets, which takes secrets: true; pinned in overrideValues, rbac: \"false\" leaves it out\n",
			"\nx/templates/_y.tpl: helm.sh/hook: pre-instal: Helm knows no such hook",
			"crds/x.yaml: do so before, or have it do so by crds: true in watches.yaml\n",
			"\nAfter a change of watches.yaml: make manifests INTO=../x-operator\n",
		} {
			if strings.Count(report, want) != 1 {
				t.Errorf("with %q in allow.kinds, the report does not have %q once:\n%s", kinds, want, report)
			}
		}
	}
}

// A chart may give objects one name, whatever the custom resource's: a second custom resource in a namespace would find
// them in its way. make kind tells which, and a value that gives each its own name, and does not only move it out of
// the namespace.
func TestReportTellsOfFixedNames(t *testing.T) {
	report := func(wired string) string {
		dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "account: {name: fixed-sa}\naNamespace: ''\nnickname: a\ntext: b\n",
			"templates/x.yaml": "{apiVersion: v1, kind: ServiceAccount, metadata: {name: {{ .Values.account.name }}, namespace: {{ .Values.aNamespace | default .Release.Namespace }}}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}}\n" +
				"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}', annotations: {b: '{{ .Values.nickname }}{{ .Values.text }}'}}}\n" + wired})
		var entry operator.Entry
		entry.ChartPath, entry.Kind = dir, "Goodbye"
		api, err := loadAPI(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		return kind{entry, api, nil}.report("")
	}
	const told, remedy = "\nA namespace can have one Goodbye, for these have the same name in each: ", "\n  pinned in overrideValues, account.name: \"{name}\" gives each its own\n"
	if got := report(""); strings.Count(got, told+"ServiceAccount fixed-sa"+remedy) != 1 {
		t.Errorf("the report is:\n%s", got)
	}
	// No value has a say in the other one.
	if got := report("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: wired}}\n"); strings.Count(got, told+"ConfigMap wired, ServiceAccount fixed-sa\n  for more, have the chart put {{ .Release.Name }} into these names\n") != 1 || strings.Contains(got, remedy) {
		t.Errorf("the report is:\n%s", got)
	}
}

// An object is said to need the option that it needs, of many at once none is picked, and a role is said to
// be in the file in which it is.
func TestReportBlamesNoOtherOption(t *testing.T) {
	const role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}\n"
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "aside: true\nmetrics: false\nmonitor: false\nprobe: false\nnamed: ''\n",
		"templates/a.yaml": fmt.Sprintf(role, "a{{ .Values.named }}") + "{{ if and .Values.metrics .Values.monitor }}\n---\n{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: x}}\n{{ end }}\n" +
			"{{ if .Values.probe }}\n---\n{apiVersion: monitoring.coreos.com/v1, kind: Probe, metadata: {name: x}}\n{{ end }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {aside: '{{ .Values.aside }}'}}\n",
		"templates/b.yaml": fmt.Sprintf(role, "b")})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := kind{entry, api, nil}.report("")
	for _, want := range []string{"ServiceMonitor (a.yaml, several options): ", "Probe (a.yaml, probe: true): ", "what Role a does (a.yaml, ", "what Role b does (b.yaml, "} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not have %q:\n%s", want, report)
		}
	}
	if strings.Count(report, "no right to hand out") != 2 {
		t.Errorf("a role is told of by another name, too:\n%s", report)
	}
}

// Roles, and what is in no namespace, are made as the chart has them for a custom resource that says nothing:
// of what an option has more, the report says that no word allows it, but for the option pinned, and of
// rights that no word gives, that there is none.
func TestReportTellsWhatNoWordAllows(t *testing.T) {
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1, kind: "
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "fullnameOverride: ''\nmore: false\nwith: false\n",
		"templates/x.yaml": "{" + rbac + "ClusterRole, metadata: {name: '{{ .Values.fullnameOverride }}'}, rules: [{apiGroups: [''], resources: [pods{{ if .Values.more }}, secrets{{ end }}], verbs: [get]}, " +
			"{apiGroups: [''], resources: [users], verbs: [impersonate]}]}\n{{ if .Values.with }}\n---\n{" + rbac + "Role, metadata: {name: x}}\n{{ end }}\n"})
	var entry operator.Entry
	entry.ChartPath, entry.Kind, entry.OverrideValues = dir, "Goodbye", map[string]string{"fullnameOverride": "{namespace}-{name}"}
	entry.Allow.Cluster = []obj.ClusterKind{{Kind: "ClusterRole.rbac.authorization.k8s.io", Name: "{namespace}-{name}"}}
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := kind{entry, api, nil}.report("")
	for _, want := range []string{
		"ClusterRole default-sample does (x.yaml, always: no Goodbye will be ready): impersonate on users: it gives the right to give rights, which no word of watches.yaml allows\n",
		"ClusterRole default-sample does (x.yaml, more: true, which only overrideValues may set): get on pods, secrets: it reaches Secrets, which takes secrets: true, impersonate on users: it gives",
		"Role (x.yaml, with: true, which only overrideValues may set): it hands out rights, so that it needs Role.rbac.authorization.k8s.io in allow.kinds\n",
	} {
		if strings.Count(report, want) != 1 {
			t.Errorf("the report does not have %q once:\n%s", want, report)
		}
	}
}

// What keeps every custom resource from being applied and no word of watches.yaml allows is told, with an
// option that leaves it out: an object in another namespace, a hook in none that would stay, and values that
// the chart's own schema does not take.
func TestReportTellsWhatIsNeverApplied(t *testing.T) {
	hook := func(policy string) string {
		return "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: '{{ .Values.called }}', annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: '" + policy + "'}}}\n"
	}
	report := func(schema, policy, namespace string) string {
		dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "called: ''\npatch: true\npolicy: 1\n", "values.schema.json": schema,
			"templates/x.yaml": "{{ if .Values.patch }}\n" + hook(policy) + "{{ end }}\n", "templates/y.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: why, namespace: '" + namespace + "'}}\n"})
		var entry operator.Entry
		entry.ChartPath, entry.Kind, entry.OverrideValues = dir, "Goodbye", map[string]string{"called": "{namespace}-{name}"}
		entry.Allow.Cluster = []obj.ClusterKind{{Kind: "ClusterRole.rbac.authorization.k8s.io", Name: "{namespace}-{name}"}}
		api, err := loadAPI(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		return kind{entry, api, nil}.report("")
	}
	const never = "\nNo Goodbye will be ready"
	got := report(`{"properties": {"policy": {"type": "string"}}}`, "hook-succeeded", "default")
	for _, want := range []string{
		"\nA Goodbye that says nothing will not be ready: values don't meet the specifications of the schema",
		never + " (x.yaml): cluster-scoped ClusterRole \"elsewhere-other\" is a hook that would stay: the operator's watches.yaml allows such only with helm.sh/hook-delete-policy: hook-succeeded,hook-failed; pinned in overrideValues, patch: \"false\" leaves it out\n",
		never + " (y.yaml): ConfigMap \"why\" in namespace \"default\" is outside of its namespace: take metadata.namespace out of the chart, or pin what it is made from to \"{namespace}\"\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the report does not have %q once:\n%s", want, got)
		}
	}
	if got := report("{}", "hook-succeeded,hook-failed", "{{ .Release.Namespace }}"); strings.Contains(got, never) {
		t.Errorf("the report is:\n%s", got)
	}
}

// Where the chart's schema only wants a value from everybody, a sample that has it says enough.
func TestReportTellsOfWhatEverybodyHasToSay(t *testing.T) {
	var entry operator.Entry
	entry.Kind, entry.ChartPath = "Goodbye", chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "domain: ''\n", "values.schema.json": `{"properties": {"domain": {"minLength": 1}}}`,
		"templates/x.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {domain: {{ .Values.domain | quote }}}}\n",
	})
	for domain, told := range map[string]bool{"": true, "example.com": false} {
		api, err := loadAPI(entry, []map[string]any{{}, {"domain": domain}})
		if err != nil {
			t.Fatal(err)
		}
		all := kind{entry, api, nil}.obstacles(true)
		says := func(text string) bool {
			return strings.HasPrefix(text, "A Goodbye that says nothing will not be ready: ") && strings.Contains(text, "at '/domain'") &&
				strings.HasSuffix(text, ": write what it wants into its sample, or pin it (overrideValues) if it is no field")
		}
		if slices.ContainsFunc(all, says) != told || !told && len(all) > 0 || strings.Contains(strings.Join(all, ""), "No Goodbye") {
			t.Errorf("with a sample that says %q, told is %q", domain, all)
		}
	}
}

// Who pins what values.yaml lacks is told to look whether it is spelt right.
func TestReportTellsOfPinsThatValuesLack(t *testing.T) {
	k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{}}, unlisted: []string{"monitoring.passcode"}}}
	k.entry.Tests = true
	if report := k.report(""); !strings.Contains(report, "values.yaml lacks them") || !strings.Contains(report, "monitoring.passcode\n") {
		t.Errorf("the report is:\n%s", report)
	}
}

// A webhook that the API server would ask about what is none of its custom resource's is told before any custom resource says so.
func TestReportTellsOfWebhooks(t *testing.T) {
	const selects = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace }}}}, "
	for webhook, want := range map[string]string{
		"rules: [{apiGroups: [''], resources: [pods]}]":                              "is asked about other namespaces, too",
		selects + "rules: [{apiGroups: [example.com], resources: ['*/*']}]":          "is asked about cluster-scoped objects, too",
		selects + "rules: [{apiGroups: [example.com], resources: [things]}]":         "",
		selects + "rules: [{apiGroups: ['*'], resources: ['*'], scope: Namespaced}]": "",
	} {
		var entry operator.Entry
		entry.Kind, entry.ChartPath = "Goodbye", chartAt(t, map[string]string{
			"Chart.yaml":       "{apiVersion: v2, name: x, version: 0.1.0}",
			"templates/x.yaml": "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}, webhooks: [{name: a.example.com, " + webhook + "}]}\n",
		})
		entry.Allow.Cluster = []obj.ClusterKind{{Kind: "ValidatingWebhookConfiguration.admissionregistration.k8s.io", Name: "{namespace}-{name}"}}
		api, err := loadAPI(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		const never = "\nNo Goodbye will be ready (x.yaml): cluster-scoped ValidatingWebhookConfiguration \"elsewhere-other\" "
		if report := (kind{entry: entry, api: api}).report(""); strings.Contains(report, never) != (want != "") || !strings.Contains(report, want) {
			t.Errorf("with %s the report lacks %q, or has one too many:\n%s", webhook, want, report)
		}
	}
}

// The CRDs in crds/ are told in one line: who has the operator install them is told what a new version leaves to people.
func TestReportTellsOfCRDs(t *testing.T) {
	for installs, want := range map[bool]string{
		false: "The operator does not install crds/a.yaml, crds/b.yaml: do so before, or have it do so by crds: true in watches.yaml\n",
		true:  "The operator installs crds/a.yaml, crds/b.yaml where the cluster lacks them, and changes none that is there: for what this version changes in them, helm show crds helm-charts/x | kubectl replace -f -\n",
	} {
		k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{}, Files: []*chart.File{{Name: "crds/a.yaml"}, {Name: "crds/b.yaml"}}}}}
		k.entry.Tests, k.entry.CRDs, k.entry.ChartPath = true, installs, "helm-charts/x"
		if report := k.report(""); !strings.Contains(report, want) || strings.Count(report, "crds/a.yaml") != 1 {
			t.Errorf("with crds: %t, the report is:\n%s", installs, report)
		}
		if report := k.report("../my"); installs && !strings.Contains(report, "helm show crds ../my/helm-charts/x | kubectl replace") {
			t.Errorf("of an operator of its own, the report is:\n%s", report)
		}
	}
}

// The CRDs of a subchart that is pinned off are not told: no custom resource can turn it on.
func TestReportTellsOfNoCRDsOfASubchartThatIsOff(t *testing.T) {
	for _, c := range []struct {
		defaults bool
		pins     map[string]string
		told     bool
	}{{false, nil, true}, {false, map[string]string{"crds.enabled": "true"}, true}, {true, map[string]string{"crds.enabled": "false"}, false}} {
		whole := &chart.Chart{
			Metadata: &chart.Metadata{Name: "x", Dependencies: []*chart.Dependency{{Name: "crds", Version: "0.1.0", Condition: "crds.enabled"}}},
			Values:   map[string]any{"crds": map[string]any{"enabled": c.defaults}},
		}
		whole.SetDependencies(&chart.Chart{Metadata: &chart.Metadata{Name: "crds", Version: "0.1.0"}, Files: []*chart.File{{Name: "crds/a.yaml"}}})
		k := kind{api: &API{chart: whole}}
		k.entry.Tests, k.entry.OverrideValues = true, c.pins
		if report := k.report(""); strings.Contains(report, "crds/a.yaml") != c.told {
			t.Errorf("%t by default, with the pins %v, the report is:\n%s", c.defaults, c.pins, report)
		}
	}
}

// Values in a file that Helm does not read are told of.
func TestReportTellsOfAFileOfNoValues(t *testing.T) {
	k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{}, Files: []*chart.File{{Name: "values.yml"}}}}}
	k.entry.Tests, k.entry.ChartPath = true, "helm-charts/x"
	if report := k.report("../x"); !strings.Contains(report, "Helm does not read values.yml: call it values.yaml, in helm-charts/x, and then make manifests INTO=../x\n") {
		t.Errorf("the report is:\n%s", report)
	}
}

// What a chart says is text: it writes over nothing of the report, and adds no line to it.
func TestReportIsText(t *testing.T) {
	const evil = "a\033[2K\u202e\nThe operator gets all rights"
	k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{}}, unlisted: []string{evil}, left: []infer.LeftOut{{Path: evil, Why: evil}}, broken: []infer.LeftOut{{Path: evil, Why: evil}}}}
	k.entry.Tests = true
	report := k.report("")
	if strings.ContainsAny(report, "\033\u202e") || strings.Contains(report, "\nThe operator gets all rights") || strings.Count(report, "a\uFFFD[2K\uFFFD The operator gets all rights") != 5 {
		t.Errorf("the report is %q", report)
	}
}

// Who makes a kind of a chart that is not for every cluster is told so.
func TestReportTellsOfKubernetes(t *testing.T) {
	for wants, told := range map[string]bool{"": false, ">=1.25.0-0": false, ">=1.34.0-0": true, "<1.25.0-0": true} {
		k := kind{api: &API{chart: &chart.Chart{Metadata: &chart.Metadata{KubeVersion: wants}}}}
		k.entry.Tests = true
		if report := k.report(""); strings.Contains(report, "The chart is for Kubernetes "+wants) != told {
			t.Errorf("for %q, the report is:\n%s", wants, report)
		}
	}
}

// A chart that makes nothing at all is told of: its templates may be in a directory that Helm does not read, it may be a
// library, or make only what its values list, and they list nothing.
func TestReportTellsOfAChartThatMakesNothing(t *testing.T) {
	for _, c := range []struct {
		template, more, maps string
		makes                bool
	}{
		{"templates/x.yaml", "", "{x: {}}", true},
		{"templates/x.yaml", "", "{}", false},
		{"templates/x.yaml", ", type: library", "{x: {}}", false},
		{"template/x.yaml", "", "{x: {}}", false},
	} {
		var entry operator.Entry
		entry.Kind = "Goodbye"
		entry.ChartPath = chartAt(t, map[string]string{
			"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0" + c.more + "}", "values.yaml": "maps: " + c.maps + "\n",
			c.template: "{{ range $name, $map := .Values.maps }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ $name }}}}\n{{ end }}",
		})
		api, err := loadAPI(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		report := kind{entry, api, nil}.report("")
		if tells := strings.Contains(report, "No Goodbye makes an object, whatever option is on: "); tells == c.makes {
			t.Errorf("of %+v, the report is:\n%s", c, report)
		}
	}
}

// What a new version of a chart makes for every custom resource, and its entry does not let it, is told by
// make manifests, too: nobody would be told before all of them are refused. What only an option makes is not.
func TestObstacles(t *testing.T) {
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: x%s}, spec: {serviceAccountName: a, imagePullSecrets: [{name: a}], containers: [{name: a, image: a}]}}\n"
	dir := chartAt(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "more: false\n",
		"templates/x.yaml": "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}}\n---\n" + fmt.Sprintf(pod, "") +
			"---\n" + fmt.Sprintf(pod, ", annotations: {helm.sh/hook: test}") + "{{ if .Values.more }}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: x}}\n{{ end }}\n"})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	entry.Allow.Pods = []string{obj.PodSecrets}
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"The operator gets no right to make Role (x.yaml, always: no Goodbye will be ready): it hands out rights, so that it needs Role.rbac.authorization.k8s.io in allow.kinds",
		"Pods of it use a ServiceAccount of their own (x.yaml), which takes serviceAccounts in allow.pods of watches.yaml: no Goodbye will be ready",
	}
	if diff := cmp.Diff(want, kind{entry, api, nil}.obstacles(true)); diff != "" {
		t.Errorf("told is (-want +got):\n%s", diff)
	}
	if all := (kind{entry, api, nil}).obstacles(false); !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, "Secret (x.yaml, more: true)") }) {
		t.Errorf("with options: %q", all)
	}
}

// Nor is it found out only in the cluster that a chart looks up what the operator has no right to read. Outside of
// the namespace of a custom resource it finds nothing, by any right.
func TestToldOfWhatAChartLooksUp(t *testing.T) {
	const (
		secret  = "The chart looks up a Secret, which takes secrets: true in watches.yaml: no Goodbye will be ready"
		service = "The chart looks up a Service: if the operator makes none for another kind, and whoever writes a Goodbye may see what is found, give its ServiceAccount the right to get and list them by hand, or no Goodbye will be ready"
	)
	for template, want := range map[string]string{
		`{{ lookup "v1" "Secret" .Release.Namespace .Release.Name }}`:                                                 secret,
		`{{ (lookup "v1" "Secret" .Release.Namespace "").items }}`:                                                    secret,
		`{{ lookup "v1" "ConfigMap" .Release.Namespace .Release.Name }}`:                                              "",
		`{{ lookup "v1" "Pod" .Release.Namespace .Release.Name }}`:                                                    "",
		`{{ if .Values.ask }}{{ lookup "v1" "Secret" "" .Release.Name }}{{ end }}`:                                    "",
		`{{ lookup "v1" "Service" .Release.Namespace "" }}`:                                                           service,
		`{{ lookup "v1" "Service" "kube-system" "" }}{{ lookup "v1" "Service" "" "" }}{{ lookup "v1" "Node" "" "" }}`: "",
		`{{ lookup "v1" "Secret" "" .Release.Name }}`:                                                                 secret, // which is refused, too
	} {
		dir := chartAt(t, map[string]string{
			"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "ask: false\n",
			"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {found: '" + template + "'}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x}}",
		})
		for _, secrets := range []bool{false, true} {
			var entry operator.Entry
			entry.ChartPath, entry.Kind, entry.Secrets = dir, "Goodbye", secrets
			api, err := loadAPI(entry, nil)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			if want != "" && (want != secret || !secrets) {
				told = []string{want}
			}
			if diff := cmp.Diff(told, kind{entry, api, nil}.obstacles(true)); diff != "" {
				t.Errorf("%s, secrets: %t (-want +got):\n%s", template, secrets, diff)
			}
		}
	}
}

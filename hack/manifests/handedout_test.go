package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

// Who makes the manifests anew is told what roles that may be made hand out and the operator may not, what
// without: custom resources would fail, and only a comment would say so.
func TestToldOfRolesThatHandOutTooMuch(t *testing.T) {
	inCopy(t)
	const role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list]}, {apiGroups: [''], resources: [pods], verbs: [get]}]}\n"
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "backup: false\n",
		"templates/x.yaml": fmt.Sprintf(role, "x") + "{{ if .Values.backup }}\n---\n" + fmt.Sprintf(role, "backup") + "{{ end }}\n",
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	const ofX = "The operator gets no right to hand out what Role x does (x.yaml, always: no Goodbye will be ready): get, list on secrets: it reaches Secrets, which takes secrets: true\n"
	const ofBackup = "The operator gets no right to hand out what Role backup does (x.yaml, backup: true, which only overrideValues may set): get, list on secrets: it reaches Secrets, which takes secrets: true\n"
	watches := read(t, watchesFile)
	for _, c := range []struct {
		more string
		told int
	}{{"", 0}, {"  allow: {kinds: [Role.rbac.authorization.k8s.io]}\n", 1}, {"  secrets: true\n  allow: {kinds: [Role.rbac.authorization.k8s.io]}\n", 0}} {
		write(t, watchesFile, watches+c.more)
		stdout := os.Stdout
		file, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout = file
		err = run()
		os.Stdout = stdout
		if said := read(t, file.Name()); err != nil || strings.Count(said, ofX) != c.told || strings.Count(said, ofBackup) != c.told {
			t.Errorf("with %q, %v, and make manifests says:\n%s", c.more, err, said)
		}
	}
}

// So is who has a chart bind a role that it does not make: what that hands out nobody can read from the chart,
// and without the same right the operator may not hand it out.
func TestToldOfRolesThatAChartOnlyBinds(t *testing.T) {
	const object = "{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: %s}}\n---\n"
	const binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}}\n---\n"
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "edit: false\nrole: ''\n",
		"templates/x.yaml": fmt.Sprintf(object, "Role", "{{ .Release.Name }}") + fmt.Sprintf(binding, "own", "Role", "{{ .Release.Name }}") + fmt.Sprintf(binding, "a", "ClusterRole", "view") + fmt.Sprintf(binding, "b", "ClusterRole", "view") +
			"{{ if .Values.edit }}" + fmt.Sprintf(binding, "c", "ClusterRole", "edit") + "{{ end }}{{ with .Values.role }}" + fmt.Sprintf(binding, "d", "Role", "{{ . }}") + "{{ end }}",
	})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	entry.Allow.Kinds = []string{"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io"}
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	const text = "The operator gets no right to hand out what ClusterRole %s does (x.yaml, %s), which the chart binds and does not make: bind it to the operator's ServiceAccount as well, by hand, if whoever writes a Goodbye may have all of it"
	want := []string{fmt.Sprintf(text, "view", "always: no Goodbye will be ready"), fmt.Sprintf(text, "edit", "edit: true, which only overrideValues may set")}
	if diff := cmp.Diff(want, kind{entry, api, nil}.obstacles(false)); diff != "" {
		t.Errorf("told is (-want +got):\n%s", diff)
	}
}

// So is who has a chart make a role that gathers the rules of others: the API server lets nobody make one who may not do everything.
func TestToldOfRolesThatGatherOthers(t *testing.T) {
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "gather: true\n",
		"templates/x.yaml": "{{ if .Values.gather }}\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}, rules: [], " +
			"aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}\n{{ end }}",
	})
	var entry operator.Entry
	entry.ChartPath, entry.Kind = dir, "Goodbye"
	entry.Allow.Cluster = []obj.ClusterKind{{Kind: "ClusterRole.rbac.authorization.k8s.io", Name: "{namespace}-{name}"}}
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := kind{entry, api, nil}
	want := []string{"The operator gets no right to hand out what ClusterRole default-sample does (x.yaml, always: no Goodbye will be ready): " +
		"* on whatever its aggregationRule gathers: it gives the right to give rights, which no word of watches.yaml allows; pinned in overrideValues, gather: \"false\" leaves it out"}
	if diff := cmp.Diff(want, k.obstacles(true)); diff != "" {
		t.Errorf("told is (-want +got):\n%s", diff)
	}
	const comment = "# No right to hand out what ClusterRole default-sample of each Goodbye may (by x.yaml): it gives the right to give rights, which no word of watches.yaml allows\n"
	if handed, err := k.handedOut("ClusterRole"); err != nil || handed != comment {
		t.Errorf("error is %v, and in the role is:\n%s", err, handed)
	}
}

// Nor does a number or a list turn on, unnoticed, a role or a binding of a kind that is made anyway.
func TestToldOfRolesThatANumberTurnsOn(t *testing.T) {
	const of = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role%s, metadata: {name: %s}, "
	var entry operator.Entry
	entry.Kind, entry.Allow.Kinds = "Goodbye", []string{"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io"}
	entry.ChartPath = chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "replicas: 1\n",
		"templates/x.yaml": fmt.Sprintf(of, "", "one") + "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}\n---\n" + fmt.Sprintf(of, "Binding", "one") + "roleRef: {kind: Role, name: one}}\n",
		"templates/y.yaml": "{{ if gt (int .Values.replicas) 1 }}\n" + fmt.Sprintf(of, "", "more") + "rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}\n---\n" +
			fmt.Sprintf(of, "Binding", "more") + "roleRef: {kind: ClusterRole, name: edit}}\n{{ end }}",
	})
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"The operator gets no right to hand out what Role more does (y.yaml, another replicas, which only overrideValues may set): get on secrets: it reaches Secrets, which takes secrets: true",
		"The operator gets no right to hand out what ClusterRole edit does (y.yaml, another replicas, which only overrideValues may set), which the chart binds and does not make: " +
			"bind it to the operator's ServiceAccount as well, by hand, if whoever writes a Goodbye may have all of it",
	}
	if diff := cmp.Diff(want, kind{entry, api, nil}.obstacles(false)); diff != "" {
		t.Errorf("told is (-want +got):\n%s", diff)
	}
}

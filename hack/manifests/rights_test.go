package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
)

// The right to Secrets is there if an entry asks for it, and goes with that.
func TestRightToSecrets(t *testing.T) {
	inCopy(t)
	watches, before := read(t, "watches.yaml"), read(t, "config/rbac/role.yaml")
	for _, c := range []struct{ watches, want string }{{watches + "  secrets: true\n", strings.Replace(before, "# Make services:\n", secretRule+"# Make services:\n", 1)}, {watches, before}} {
		write(t, "watches.yaml", c.watches)
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, read(t, "config/rbac/role.yaml")); diff != "" || strings.Contains(c.want, "secrets]") != (c.watches != watches) {
			t.Errorf("the role is (-want +got):\n%s", diff)
		}
	}
}

// The tests of a chart get rights where they may be run, and what they say of their pods is no field, but for a number.
func TestRightsOfTests(t *testing.T) {
	inCopy(t)
	created, err := chartutil.Create("created", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(created, "templates/tests/test-connection.yaml")
	write(t, test, read(t, test)+"\n  nodeName: {{ .Values.service.type | quote }}\n")
	if err := makeKind(wanted{chart: created, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	const crd = "config/crd/bases/example.com_goodbyes.yaml"
	if strings.Contains(read(t, "config/rbac/role.yaml"), "test-connection.yaml") || strings.Contains(read(t, crd), "service.type: ") {
		t.Errorf("tests count that may not be run:\n%s", read(t, "config/rbac/role.yaml"))
	}
	write(t, watchesFile, read(t, watchesFile)+"  tests: true\n")
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if role := read(t, "config/rbac/role.yaml"); !strings.Contains(role, "# - Goodbye: test-connection.yaml\n") || !strings.Contains(role, "pods") {
		t.Errorf("no right to make the test:\n%s", role)
	}
	if text := read(t, crd); !strings.Contains(text, "service.type: reaches its pods' spec.nodeName") || strings.Contains(text, "service.port: ") {
		t.Errorf("the fields are:\n%s", text)
	}
}

// What is in no namespace gets its rights in the role for that, also of a kind that only the entry knows.
// What a chart hands out, the operator gets, but no Secrets without a word of the entry's, and nothing that
// gives rights.
func TestRightsThatAnEntryAllows(t *testing.T) {
	inCopy(t)
	const rbac = "rbac.authorization.k8s.io"
	name := "'{{ .Release.Namespace }}-{{ .Release.Name }}'"
	rules := func(all ...string) string { return "rules: [" + strings.Join(all, ", ") + "]\n" }
	leases := "{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: ['{{ .Values.called }}-leader'], verbs: [get]}" // another name for each
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "a: 1\ncalled: \"\"\n",
		"templates/x.yaml": "---\n{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: " + name + "}}\n" +
			"---\napiVersion: " + rbac + "/v1\nkind: Role\nmetadata: {name: x}\n" + rules(leases,
			"{apiGroups: ['', apps], resources: [pods, secrets], verbs: [get]}", "{apiGroups: ['*'], resources: ['*'], verbs: [list]}", "{apiGroups: [''], resources: [secrets/x], verbs: [watch]}",
			"{apiGroups: [apps], resources: ['*'], resourceNames: [fixed], verbs: ['*']}", "{apiGroups: ["+rbac+"], resources: [roles], verbs: [escalate]}") +
			"---\napiVersion: " + rbac + "/v1\nkind: ClusterRole\nmetadata: {name: " + name + "}\n" + rules(leases,
			"{apiGroups: [''], resources: [users], verbs: [impersonate]}", "{apiGroups: ["+rbac+"], resources: [clusterroles], verbs: ['*']}", "{apiGroups: ['*'], resources: [pods], verbs: ['*']}"),
	})
	if err := makeKind(wanted{chart: dir, gvk: goodbyes}); err != nil {
		t.Fatal(err)
	}
	watches := read(t, watchesFile) + "  overrideValues: {called: '{name}'}\n  allow:\n    kinds: [Role." + rbac + "]\n    cluster:\n" +
		"    - {kind: ClusterRole." + rbac + ", name: '{namespace}-{name}'}\n    - {kind: ClusterPolicy.kyverno.io, name: '{namespace}-{name}'}\n"
	const (
		handed      = "- apiGroups:\n  - coordination.k8s.io\n  resources:\n  - leases\n  verbs:\n  - get\n"
		apps        = "- apiGroups:\n  - apps\n  resourceNames:\n  - fixed\n  resources:\n  - '*'\n  verbs:\n  - '*'\n"
		withSecrets = "- apiGroups:\n  - \"\"\n  - apps\n  resources:\n  - pods\n  - secrets\n  verbs:\n  - get\n- apiGroups:\n  - '*'\n  resources:\n  - '*'\n  verbs:\n  - list\n" +
			"- apiGroups:\n  - \"\"\n  resources:\n  - secrets/x\n  verbs:\n  - watch\n"
		ofRole  = "# No right to hand out what Role x of each Goodbye may (by x.yaml): "
		noGrant = "it gives the right to give rights, which no word of watches.yaml allows\n"
	)
	for _, c := range []struct{ watches, want string }{
		{watches, handed + apps + ofRole + noGrant + ofRole + "it reaches Secrets, which takes secrets: true\n# Say why"},
		{watches + "  secrets: true\n", handed + withSecrets + apps + ofRole + noGrant + "# Say why"},
	} {
		write(t, watchesFile, c.watches)
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if role := read(t, "config/rbac/role.yaml"); !strings.Contains(role, "# Hand out what Role x of each Goodbye may, by x.yaml:\n"+c.want) || strings.Contains(role, "kyverno") {
			t.Errorf("the role does not have %s, and nothing of what is in no namespace:\n%s", c.want, role)
		}
		role := read(t, "config/rbac/cluster_role.yaml")
		for _, want := range []string{
			"- apiGroups: [kyverno.io]\n  resources: [clusterpolicies]\n",
			"of each Goodbye may, by x.yaml:\n" + handed + "# No right to hand out what ClusterRole default-sample of each Goodbye may (by x.yaml): " + noGrant + "---\n",
		} {
			if !strings.Contains(role, want) {
				t.Errorf("the role in no namespace does not have %s:\n%s", want, role)
			}
		}
	}
	// What is applied over it takes the rights away: kubectl apply deletes no role that is no longer there.
	without, _, _ := strings.Cut(watches, "    cluster:\n")
	write(t, watchesFile, without)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if role := read(t, "config/rbac/cluster_role.yaml"); !strings.Contains(role, "name: manager-cluster-role\nrules: []\n---\n") {
		t.Errorf("the role in no namespace still has rights:\n%s", role)
	}
}

// What an option makes by a name that allow.cluster does not have takes no right away from what is made
// without it, and hands out nothing. It is named, with its option.
func TestRightsBesideANameThatIsNotAllowed(t *testing.T) {
	inCopy(t)
	role := func(name, resource string) string {
		return "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: " + name + "}, rules: [{apiGroups: [apps], resources: [" + resource + "], verbs: [get]}]}\n"
	}
	const name = "'{{ .Values.fullnameOverride }}'"
	dir := chartAt(t, map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: x, version: 0.1.0}", "values.yaml": "fullnameOverride: \"\"\npsp: false\nmore: true\n",
		"templates/x.yaml": role(name, "deployments") + "{{ if .Values.psp }}\n" + role("'psp-{{ .Values.fullnameOverride }}'", "replicasets") + "{{ end }}\n" +
			"{{ if .Values.more }}\n" + role("'more-{{ .Values.fullnameOverride }}'", "daemonsets") + "{{ end }}\n",
	})
	var entry operator.Entry
	entry.GroupVersionKind, entry.ChartPath, entry.OverrideValues = goodbyes, dir, map[string]string{"fullnameOverride": "{namespace}-{name}"}
	entry.Allow.Cluster = []obj.ClusterKind{{Kind: "ClusterRole.rbac.authorization.k8s.io", Name: "{namespace}-{name}*"}}
	api, err := loadAPI(entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := kind{entry, api, newCRD(entry, api, api.values)}
	if err := errors.Join(writeRole([]kind{k}), writeClusterRole([]kind{k})); err != nil {
		t.Fatal(err)
	}
	const psp, more = `cluster-scoped ClusterRole "psp-default-sample": `, `cluster-scoped ClusterRole "more-default-sample": `
	got := read(t, "config/rbac/cluster_role.yaml")
	if !strings.Contains(got, "  resources: [clusterroles]\n") || !strings.Contains(got, "- deployments\n") || strings.Contains(got, "replicasets") || strings.Contains(got, "daemonsets") {
		t.Errorf("the rights in no namespace are:\n%s", got)
	}
	if role := read(t, "config/rbac/role.yaml"); !strings.Contains(role, "# No right to "+psp) || !strings.Contains(role, "# - Goodbye: x.yaml, with psp: true, which only overrideValues may set\n") || !strings.Contains(role, "# No right to "+more) {
		t.Errorf("what is refused is not named:\n%s", role)
	}
	report := k.report("")
	for _, want := range []string{"to make ClusterRole (x.yaml, psp: true, which only overrideValues may set): " + psp, "to make ClusterRole (x.yaml, always: no Goodbye will be ready): " + more, "; pinned in overrideValues, more: \"false\" leaves it out\n"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not have %s:\n%s", want, report)
		}
	}
}

package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// mapper knows a kind in no namespace, and one in namespaces.
func mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	return mapper
}

func capabilitiesOf(t *testing.T) *release.Capabilities {
	t.Helper()
	capabilities, err := release.NewCapabilities(&fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return capabilities
}

func allowancesOf(t *testing.T, entry Entry) (lines []string, more error) {
	t.Helper()
	objects, err := capabilitiesOf(t).Made(mapper(), anybody, entry.Chart, entry.OverrideValues, map[string]any{})
	if err != nil {
		t.Logf("it is not rendered: %v", err)
		return nil, nil
	}
	return entry.allowances(objects)
}

// What is printed for an entry, pasted into it, leaves nothing to print.
func TestAllowances(t *testing.T) {
	const (
		secret = "\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a}}"
		route  = "\n---\n{apiVersion: traefik.io/v1, kind: IngressRoute, metadata: {name: a}}"
		role   = "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "
		pods   = "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {serviceAccountName: a, imagePullSecrets: [{name: a}]}}}}"
	)
	for name, c := range map[string]struct {
		template, settings string
		want               []string
		more               string
	}{
		"nothing":               {"", "", nil, ""},
		"what asks for a host":  {"\n---\n{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: a.b}]}}", "", nil, ""},
		"Secret":                {secret, "", []string{"secrets: true"}, ""},
		"Secret in a list":      {"\n---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}", "", []string{"secrets: true"}, ""},
		"Secret that is a hook": {strings.Replace(secret, "{name: a}", "{name: a, annotations: {helm.sh/hook: pre-install}}", 1), "", []string{"secrets: true"}, ""},
		"Secret that may be":    {secret, "  secrets: true\n", nil, ""},
		"Secret by an option":   {"{{ if .Values.secret }}" + secret + "{{ end }}", "", nil, ""},
		"Secret by a pin":       {"{{ if .Values.secret }}" + secret + "{{ end }}", "  overrideValues: {secret: \"true\"}\n", []string{"secrets: true"}, ""},
		"kind":                  {route, "", []string{"allow: {kinds: ['IngressRoute.traefik.io']}"}, ""},
		"kind beside others":    {route, "  allow: {hosts: ['*.a.b'], kinds: [Gateway.istio.io]}\n", []string{"allow: {hosts: ['*.a.b'], kinds: ['Gateway.istio.io', 'IngressRoute.traefik.io']}"}, ""},
		"pods":                  {pods, "", []string{"allow: {pods: ['serviceAccounts', 'secrets']}"}, ""},
		"pods, and Secrets":     {pods + secret, "", []string{"secrets: true", "allow: {pods: ['serviceAccounts']}"}, ""},
		"ClusterRole":           {role + "{{ .Release.Namespace }}-{{ .Release.Name }}-a}}", "", []string{"allow: {cluster: [{kind: 'ClusterRole.rbac.authorization.k8s.io', name: '{namespace}-{name}-a'}]}"}, ""},
		"ClusterRole that may be": {
			role + "{{ .Release.Namespace }}-{{ .Release.Name }}-a}}", "  allow: {cluster: [{kind: ClusterRole.rbac.authorization.k8s.io, name: \"{namespace}-{name}-*\"}]}\n", nil, "",
		},
		"ClusterRole for all":   {role + "{{ .Release.Name }}-a}}", "", nil, "fullnameOverride"},
		"ClusterRole by a pin":  {role + "{{ .Values.fullnameOverride }}}}", "  overrideValues: {fullnameOverride: \"{namespace}.{name}\"}\n", []string{"allow: {cluster: [{kind: 'ClusterRole.rbac.authorization.k8s.io', name: '{namespace}.{name}'}]}"}, ""},
		"API that is not there": {"{{ if .Capabilities.APIVersions.Has \"traefik.io/v1\" }}" + route + "{{ end }}", "", nil, ""},
		"no rendering":          {secret + "{{ fail \"say a name\" }}", "", nil, ""},
		"no template":           {secret + "{{ nonsense", "", nil, ""},
		"no YAML":               {secret + "\n---\n{", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			load := func(settings string) Entry {
				t.Helper()
				workDir(t, entry+settings)
				if err := os.WriteFile("chart/templates/more.yaml", []byte(c.template), 0o600); err != nil {
					t.Fatal(err)
				}
				entries, refused, err := loadWatches("watches.yaml")
				if err != nil || len(refused) > 0 {
					t.Fatal(err, refused)
				}
				return entries[0]
			}
			got, more := allowancesOf(t, load(c.settings))
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") || (more != nil) != (c.more != "") || more != nil && !strings.Contains(more.Error(), c.more) {
				t.Errorf("%q and %v, not %q and %q", got, more, c.want, c.more)
			}
			pasted := c.settings
			for _, line := range got {
				if strings.HasPrefix(line, "allow:") && strings.Contains(pasted, "allow:") {
					pasted = "" // replaced
				}
				pasted += "  " + line + "\n"
			}
			if again, _ := allowancesOf(t, load(pasted)); len(again) > 0 {
				t.Errorf("with that, it is %q", again)
			}
		})
	}
}

// Helm's own chart has a ServiceAccount, and nothing else that takes a word.
func TestAllowancesOfHelmsChart(t *testing.T) {
	workDir(t, entry)
	if _, err := chartutil.Create("made", "."); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("watches.yaml", []byte(strings.Replace(entry, "chart: chart", "chart: made", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, _, err := loadWatches("watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, more := allowancesOf(t, entries[0]); more != nil || len(got) != 1 || got[0] != "allow: {pods: ['serviceAccounts']}" {
		t.Errorf("%q", got)
	}
}

// What an entry lacks is told, and why that can't be said of a chart that needs a value. A chart whose rendering panics keeps
// nobody from being told of the others.
func TestTellAllowances(t *testing.T) {
	for name, c := range map[string]struct {
		template, settings string
		want               []string
		never              string
	}{
		"a line":       {"{apiVersion: v1, kind: Secret, metadata: {name: a}}", "", []string{`"entry"=1`, `"kind"="Welcome"`, `"line"="secrets: true"`}, "default"},
		"no rendering": {`{{ required "say a name" .Values.name }}`, "", []string{`"entry"=1`, "can't be rendered for a custom resource that says nothing", "say a name", "overrideValues"}, `"line"`},
		"no rendering that may be quoted": {
			`{{ mustToDate "2006" .Values.date }}`, "  secrets: true\n  overrideValues: {date: hidden}\n", []string{"can't be rendered for a custom resource that says nothing"}, "hidden",
		},
	} {
		t.Run(name, func(t *testing.T) {
			workDir(t, entry+c.settings)
			if err := os.WriteFile(filepath.Join("chart", "templates", "more.yaml"), []byte(c.template), 0o600); err != nil {
				t.Fatal(err)
			}
			entries, _, err := loadWatches("watches.yaml")
			if err != nil {
				t.Fatal(err)
			}
			told := make(chan string, 10)
			log := funcr.New(func(_, args string) { told <- args }, funcr.Options{})
			tellAllowances(log, mapper(), append([]Entry{{}}, entries...), capabilitiesOf(t)) // the first has no chart
			select {
			case line := <-told:
				for _, part := range c.want {
					if !strings.Contains(line, part) {
						t.Errorf("%q is missing in %s", part, line)
					}
				}
				if strings.Contains(line, c.never) {
					t.Errorf("%q is in %s", c.never, line)
				}
			case <-time.After(10 * time.Second):
				t.Error("nobody is told")
			}
		})
	}
}

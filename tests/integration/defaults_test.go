package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// spec is the stored spec of a Welcome.
func (s *scene) spec(name string) map[string]any {
	s.Helper()
	spec, _, err := unstructured.NestedMap(s.welcome(name).Object, "spec")
	s.must(err)
	return spec
}

func (s *scene) awaitPort(name string, port int32) {
	s.Helper()
	s.await(fmt.Sprintf("Service %s has port %d", name, port), func() error {
		service := &corev1.Service{}
		if err := s.find(service, name); err != nil {
			return err
		}
		if got := service.Spec.Ports[0].Port; got != port {
			return fmt.Errorf("it has %d", got)
		}
		return nil
	})
}

// What a Welcome leaves out is not stored, but for the replicas, which the scale subresource reads. The
// operator fills it in.
func TestDefaultsAreNotStored(t *testing.T) {
	s := newScene(t)
	s.operator()
	for name, spec := range map[string]string{
		"nothing": "", "no-spec": "spec: null", "empty": "spec: {}", "nulls": "spec: {replicas: null, service: null, logLevel: null, tolerations: null}",
		"nested": "spec: {service: {port: null, type: null}, resources: {limits: {memory: null}}, autoscaling: {enabled: null}}",
	} {
		_, err := s.kubectl("apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: "+name+"}\n"+spec, "create", "-f", "-")
		s.must(err)
		s.awaitDeployed(name)
		s.awaitPort(name, 8080)
		stored := s.spec(name)
		for _, object := range []string{"service", "resources", "autoscaling"} { // what is left of an object in which all is null
			if left, err := json.Marshal(stored[object]); name == "nested" && err == nil && !strings.ContainsAny(string(left), "0123456789") {
				delete(stored, object)
			}
		}
		if want := map[string]any{"replicas": int64(1)}; !reflect.DeepEqual(stored, want) {
			t.Errorf("%s: %v is stored, want %v", name, stored, want)
		}
		out, err := s.kubectl("", "get", "--raw", "/apis/webapp.demo.welcome.domain/v1/namespaces/"+s.namespace+"/welcomes/"+name+"/scale")
		if err != nil || !strings.Contains(out, `"spec":{"replicas":1}`) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for field, want := range map[string]string{"service.port": "Default: 8080.", "resources.limits.memory": "Default: 64Mi.", "replicas": "Default: 1."} {
		out, err := s.kubectl("", "explain", "welcome.spec."+field)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("kubectl explain does not say of %s %q: %v\n%s", field, want, err, out)
		}
	}
}

// A rule that compares two fields holds also where one of them, or the object that it is in, is left out.
func TestRulesHoldForDefaults(t *testing.T) {
	s := newScene(t)
	for spec, want := range map[string]string{
		"autoscaling: {minReplicas: 6}":                               "lower minReplicas or raise maxReplicas",
		"autoscaling: {minReplicas: 5}":                               "",
		"autoscaling: {maxReplicas: 1}":                               "",
		"service: {type: ClusterIP, externalTrafficPolicy: Local}":    "externalTrafficPolicy Local needs",
		"service: {externalTrafficPolicy: Local}":                     "",
		"service: {type: ClusterIP}":                                  "",
		"service: {loadBalancerClass: example.com/a}":                 "",
		"service: {type: NodePort, loadBalancerClass: example.com/a}": "needs type LoadBalancer",
		"ingress: {enabled: true}":                                    "needs a host",
		"ingress: {host: example.com}":                                "",
		"podDisruptionBudget: {enabled: true}":                        "exactly one of",
		"podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}":   "",
		"resources: {limits: {cpu: 50m}}":                             "requests.cpu (by default 100m) is more than",
		"resources: {requests: {cpu: 50m}, limits: {cpu: 50m}}":       "",
		"resources: {requests: {memory: 65Mi}}":                       "requests.memory (by default 32Mi) is more than",
		"resources: {limits: {memory: 31Mi}}":                         "requests.memory (by default 32Mi) is more than",
		`resources: {requests: {memory: 65Mi}, limits: {memory: ""}}`: "",
	} {
		manifest := "apiVersion: webapp.demo.welcome.domain/v1\nkind: Welcome\nmetadata: {name: hello}\nspec:\n  " + spec
		_, err := s.kubectl(manifest, "create", "--dry-run=server", "-f", "-")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: want %q, got %v", spec, want, err)
		}
	}

	const fixed = "Kubernetes cannot change the loadBalancerClass"
	merge := func(patch string) error {
		_, err := s.kubectl("", "patch", "welcome", "hello", "--type=merge", "--patch", patch)
		return err
	}
	s.create("hello")
	if err := merge(`{"spec": {"service": {"loadBalancerClass": "example.com/a"}}}`); err == nil || !strings.Contains(err.Error(), fixed) {
		t.Errorf("a class for a Service that is a LoadBalancer by default: %v", err)
	}
	s.must(merge(`{"spec": {"service": {"type": "ClusterIP"}}}`))
	s.must(merge(`{"spec": {"service": {"type": null, "loadBalancerClass": "example.com/a"}}}`))
	if err := merge(`{"spec": {"service": null}}`); err == nil || !strings.Contains(err.Error(), fixed) {
		t.Errorf("no class for a Service that is a LoadBalancer by default: %v", err)
	}
}

// A default of a new chart version reaches each Welcome that did not set the field. Of those that 0.1.0 has made, it reaches
// the ones whose stored defaults were cleared by the command in docs/upgrade.md, which changes nothing else.
func TestNewDefaultReachesEverybody(t *testing.T) {
	s := newScene(t)
	only := settings{namespaces: []string{s.namespace}}
	first := s.ownOperator(only)
	const stored = `{"replicas": 1, "logLevel": "info", "terminationGracePeriodSeconds": 30,
		"service": {"type": "LoadBalancer", "port": 8080, "externalTrafficPolicy": "Cluster"}, "ingress": {"enabled": false, "path": "/"},
		"autoscaling": {"enabled": false, "minReplicas": 1, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80},
		"podDisruptionBudget": {"enabled": false}, "networkPolicy": {"enabled": false},
		"resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
		"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]}`
	asStored := func(welcome *unstructured.Unstructured) {
		var spec map[string]any
		s.must(json.Unmarshal([]byte(stored), &spec))
		// as unstructured objects have them
		text, err := json.Marshal(map[string]any{"apiVersion": welcome.GetAPIVersion(), "kind": welcome.GetKind(), "metadata": welcome.Object["metadata"], "spec": spec})
		s.must(err)
		s.must(welcome.UnmarshalJSON(text))
	}
	s.deploy("new")
	s.deploy("chosen", kit.Set("service.port", 80))
	s.deploy("old", asStored, kit.Greet("myfriends"), kit.Set("resources.limits.memory", "128Mi"))
	s.deploy("kept", asStored)
	s.deploy("old-chosen", asStored, kit.Set("topologySpreadConstraints", []any{}), kit.Set("service.port", 80), kit.Set("ingress.host", "example.com"))
	s.settled(first)
	before := map[string]int{} // so many records
	for _, name := range []string{"new", "chosen", "old", "kept", "old-chosen"} {
		before[name] = len(s.records(name))
	}

	document, err := os.ReadFile(kit.File("docs/upgrade.md"))
	s.must(err)
	command := regexp.MustCompile("(?s)```sh\n(kubectl get welcomes .*?)```").FindSubmatch(document)
	if command == nil {
		t.Fatal("docs/upgrade.md has no such command")
	}
	kept := s.welcome("kept")
	s.edit("kept", kit.Label("keep", "yes"))
	clear := func(script string) (string, error) {
		kubeconfig, err := env.Kubeconfig("admin", env.Admin)
		s.must(err)
		shell := exec.CommandContext(ctx, "bash", "-c", script)
		shell.Env = []string{"HOME=" + env.Dir, "KUBECONFIG=" + kubeconfig, "PATH=" + kit.File("bin") + ":" + os.Getenv("PATH")}
		return kit.Output(shell)
	}
	narrow := strings.NewReplacer("--all-namespaces", "--namespace="+s.namespace+" --selector='keep!=yes'").Replace(string(command[1]))
	out, err := clear(narrow)
	if err != nil || !strings.Contains(out, "/old replaced") || strings.Contains(out, "/new") || strings.Contains(out, "/chosen") {
		t.Errorf("the command says %v\n%s", err, out)
	}
	for name, want := range map[string]map[string]any{
		"new":    {"replicas": int64(1)},
		"chosen": {"replicas": int64(1), "service": map[string]any{"port": int64(80)}},
		"old":    {"replicas": int64(1), "name": "myfriends", "resources": map[string]any{"limits": map[string]any{"memory": "128Mi"}}},
		"kept":   kept.Object["spec"].(map[string]any),
		"old-chosen": {
			"replicas": int64(1), "service": map[string]any{"port": int64(80)}, "ingress": map[string]any{"host": "example.com"}, "topologySpreadConstraints": []any{},
		},
	} {
		if got := s.spec(name); !reflect.DeepEqual(got, want) {
			t.Errorf("of %s, %v is stored, want %v", name, got, want)
		}
	}
	s.settled(first)
	for name, count := range before {
		s.awaitDeployed(name)
		s.must(s.hasRecords(name, count)) // no upgrade: the values are the same
	}
	if out, err := clear(narrow); err != nil || out != "" {
		t.Errorf("the second time there should be nothing to do: %v\n%s", err, out)
	}
	first.Stop()

	only.watches = watchesWithFile(t, "values.yaml", "  port: 8080", "  port: 9090")
	s.ownOperator(only)
	for name, port := range map[string]int32{"new": 9090, "chosen": 80, "old": 9090, "kept": 8080, "old-chosen": 80} {
		s.awaitPort(name, port)
		s.await(name+" is of the new chart", func() error { return atLeast(len(s.records(name)), before[name]+1) })
		s.awaitDeployed(name)
		s.awaitPort(name, port)
	}
}

// null in a spec takes a default of the chart out, as in Helm: a whole object, or a field of one.
func TestNullTakesADefaultOut(t *testing.T) {
	s := newScene(t)
	s.serveKind("Blank")
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Blank", "tests/charts/nulls", "")})
	has := func(want map[string]string) {
		t.Helper()
		s.await(fmt.Sprintf("the chart is told %v", want), func() error {
			config := &corev1.ConfigMap{}
			if err := s.find(config, "hello"); err != nil {
				return err
			}
			if !maps.Equal(config.Data, want) {
				return fmt.Errorf("it was told %v", config.Data)
			}
			return nil
		})
	}
	s.createOf("Blank", "hello", kit.Set("greeting", nil))
	has(map[string]string{"greeting": "none", "limits": `{"cpu":"100m","memory":"64Mi"}`, "edited": "before"})
	s.editOf("Blank", "hello", kit.Set("limits", map[string]any{"cpu": nil}))
	has(map[string]string{"greeting": "none", "limits": `{"memory":"64Mi"}`, "edited": "before"})
	s.editOf("Blank", "hello", kit.Set("limits", nil))
	has(map[string]string{"greeting": "none", "limits": "null", "edited": "before"})
}

// What only a spec breaks, it is told to mend: a template that can't do without a default, or an object elsewhere.
func TestSpecThatBreaksTheChart(t *testing.T) {
	s := newScene(t)
	s.serveKind("Brittle")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: brittle, version: 0.1.0}",
		"values.yaml":         "{probe: {enabled: true}, elsewhere: ''}",
		"templates/note.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: '{{ .Release.Name }}', namespace: '{{ .Values.elsewhere }}', labels: {probe: '{{ .Values.probe.enabled }}'}}\nspec: {podSelector: {}}\n",
	})
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Brittle", chart, "")})
	s.createOf("Brittle", "hello", kit.Set("probe", nil))
	s.awaitOf("Brittle", "hello", "Stalled", "ChartError", "note.yaml", "Correct the spec or")
	s.editOf("Brittle", "hello", kit.Set("probe", map[string]any{}), kit.Set("elsewhere", "default"))
	s.awaitOf("Brittle", "hello", "Stalled", "ChartError", "outside of namespace", "Correct the spec or")
	s.editOf("Brittle", "hello", kit.Set("elsewhere", ""))
	s.awaitOf("Brittle", "hello", "Ready")
}

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// fromBaseImage follows docs/base-image.md: it returns the watches.yaml, the arguments and the account that
// the reader is told to write, and creates the objects that belong to them.
func (s *scene) fromBaseImage() (own settings) {
	s.Helper()
	page, err := os.ReadFile(kit.File("docs/base-image.md"))
	s.must(err)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "# watches.yaml") {
			own.watches = block[1]
			continue
		}
		objects, err := kit.Objects([]byte(strings.ReplaceAll(block[1], "namespace: myapp-operator", "namespace: "+operatorNamespace)))
		s.must(err)
		for _, object := range objects {
			switch object.GetKind() {
			case "Namespace":
			case "Deployment":
				s.must(env.Client.Create(ctx, object, client.DryRunAll)) // there are no nodes
				containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
				own.args, _, err = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
				s.must(err)
			default:
				s.must(env.Client.Create(ctx, object))
				s.Cleanup(func() { s.must(env.Client.Delete(ctx, object)) })
			}
		}
	}
	own.namespaces, own.account, own.noPolicy = []string{s.namespace}, "myapp-operator", true // as the page has it
	// The rest of what config/manager of a stock operator has, and no image that watches.yaml does not speak of.
	own.args = append(own.args, "--leader-election-namespace="+operatorNamespace, patientLease, "--metrics-secure", "--metrics-require-rbac")
	own.program = filepath.Join(s.TempDir(), "operator")
	s.must(os.WriteFile(own.program, []byte("#!/bin/sh\nunset RELATED_IMAGE_WELCOME\nexec "+env.binary+" \"$@\"\n"), 0o700))
	return own
}

// lines are what an operator logs that an entry of watches.yaml lacks.
func (p *process) lines(kind string) (lines []string) {
	for _, match := range regexp.MustCompile(`"kind":"`+kind+`","line":"([^"]*)"`).FindAllStringSubmatch(p.Text(), -1) {
		lines = append(lines, match[1])
	}
	return lines
}

// An operator is a chart, an entry of watches.yaml as a stock Helm operator has it, and what
// docs/base-image.md says beside these. Helm's own chart becomes Ready by it, without a spec; and what is
// refused tells what to paste.
func TestBaseImage(t *testing.T) {
	s := newScene(t)
	chart, err := chartutil.Create("myapp", t.TempDir())
	s.must(err)
	own := s.fromBaseImage()
	own.watches = strings.Replace(own.watches, "helm-charts/myapp", chart, 1)
	operator := s.ownOperator(own)
	hello := func(edits ...kit.Edit) *unstructured.Unstructured {
		object := kit.Object("apps.example.com/v1", "MyApp")
		s.must(client.IgnoreNotFound(s.find(object, "hello")))
		object.SetNamespace(s.namespace)
		object.SetName("hello")
		for _, edit := range edits {
			edit(object)
		}
		return object
	}
	await := func(condition, status string, parts ...string) {
		s.await(fmt.Sprintf("it is %s=%s with %q", condition, status, parts), func() error {
			got, err := kit.Condition(hello(), condition)
			if err != nil {
				return err
			}
			if string(got.Status) != status || got.ObservedGeneration != hello().GetGeneration() {
				return fmt.Errorf("it is %+v", got)
			}
			return says(got.Reason+": "+got.Message, parts)
		})
	}
	s.must(env.Client.Create(ctx, hello()))
	s.runsAll("hello-myapp")
	await("Ready", "True")
	s.get(&corev1.ServiceAccount{}, "hello-myapp")
	if claimed, _, _ := unstructured.NestedString(hello().Object, "status", "operator"); claimed != operatorNamespace+"/myapp-operator" {
		t.Errorf("it is served by %q", claimed)
	}

	// Helm's chart has a ServiceAccount, which a policy would refuse.
	s.await("the log says what the entry lacks", func() error {
		return says(strings.Join(operator.lines("MyApp"), "\n"), []string{"allow: {pods: ['serviceAccounts']}"})
	})

	s.must(env.Client.Update(ctx, hello(kit.Set("ingress.enabled", true), kit.Set("ingress.annotations", map[string]any{"example.com/class": "a"}), kit.Set("ingress.hosts",
		[]any{map[string]any{"host": "hello.example.com", "paths": []any{map[string]any{"path": "/", "pathType": "Prefix"}}}}))))
	await("Ready", "False", "NotAllowed", "it would take allow: {annotations: ['example.com/class'], hosts: ['hello.example.com']}")

	// Pasted, it is allowed.
	operator.Stop()
	own.watches = strings.TrimRight(own.watches, "\n") + "\n  allow: {annotations: ['example.com/class'], hosts: ['hello.example.com'], pods: ['serviceAccounts']}\n"
	operator = s.ownOperator(own)
	await("Ready", "True")
	s.get(&networkingv1.Ingress{}, "hello-myapp")
	if lines := operator.lines("MyApp"); len(lines) > 0 {
		t.Errorf("the log says that the entry lacks %q", lines)
	}

	s.must(env.Client.Delete(ctx, hello()))
	s.awaitGone(hello(), "hello")
	s.awaitGone(&appsv1.Deployment{}, "hello-myapp")
}

// The lines that the start log has for an entry make its custom resources Ready. A chart that is never
// rendered to its end keeps nobody from that, nor the process from ending.
func TestAllowancesInTheStartLog(t *testing.T) {
	s := newScene(t)
	s.serveKind("Wardrobe")
	s.serveKind("Coathanger")
	s.serveKind("Moebius")
	wardrobe := chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: wardrobe, version: 0.1.0}",
		"values.yaml": "{colour: red, mirror: false}",
		"templates/all.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: '{{ .Release.Name }}'}}\n---\n" +
			"{apiVersion: " + kindsGroup + "/v1, kind: Coathanger, metadata: {name: '{{ .Release.Name }}', labels: {colour: '{{ .Values.colour }}'}}}\n",
	})
	moebius := chartOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: moebius, version: 0.1.0}",
		"templates/all.yaml": strings.Repeat("{{ range until 100000 }}", 4) + strings.Repeat("{{ end }}", 4),
	})
	own := settings{namespaces: []string{s.namespace}, account: s.accountForCharts(), watches: entryOf("Moebius", moebius, "") + entryOf("Wardrobe", wardrobe, "")}
	operator := s.ownOperator(own)
	want := "secrets: true\nallow: {kinds: ['Coathanger." + kindsGroup + "']}"
	s.await("the log says what the entry lacks", func() error { return says(strings.Join(operator.lines("Wardrobe"), "\n"), []string{want}) })
	s.createOf("Wardrobe", "hello", kit.Set("colour", "blue"))
	s.awaitOf("Wardrobe", "hello", "Stalled", "NotAllowed", "secrets: true")
	start := time.Now()
	operator.Stop()
	if took := time.Since(start); took >= 30*time.Second { // after which it is killed
		t.Error("the endless chart keeps it from ending")
	}

	own.watches = entryOf("Moebius", moebius, "") + entryOf("Wardrobe", wardrobe, "  secrets: true\n")
	operator = s.ownOperator(own)
	s.awaitOf("Wardrobe", "hello", "Stalled", "NotAllowed", "it would take allow: {kinds: ['Coathanger."+kindsGroup+"']}")
	s.await("the log says the rest", func() error {
		return says(strings.Join(operator.lines("Wardrobe"), "\n"), strings.Split(want, "\n")[1:])
	})

	own.watches = entryOf("Wardrobe", wardrobe, "  "+strings.Join(strings.Split(want, "\n"), "\n  ")+"\n")
	operator.Stop()
	operator = s.ownOperator(own)
	s.awaitOf("Wardrobe", "hello", "Ready")
	if lines := operator.lines("Wardrobe"); len(lines) > 0 {
		t.Errorf("the log says that the entry lacks %q", lines)
	}
	s.delete(s.of("Wardrobe", "hello"))
}

// Two operators from the base image work in one namespace, each with its lease. They tell each other's
// releases from their own.
func TestOperatorsOfOneNamespace(t *testing.T) {
	s := newScene(t)
	s.serveKind("Knife")
	s.serveKind("Fork")
	account, chart := s.accountForKinds(), noteChart(t)
	serve := func(kind string) {
		s.ownOperator(settings{
			namespaces: []string{s.namespace}, account: account, watches: entryOf(kind, chart, ""),
			args: []string{"--leader-elect", "--leader-election-namespace=" + operatorNamespace, patientLease, "--leader-election-id=" + strings.ToLower(kind) + "-operator"},
		})
	}
	serve("Knife")
	serve("Fork")
	s.createOf("Knife", "hello", kit.Set("note", "knife"))
	s.awaitOf("Knife", "hello", "Ready")
	s.createOf("Fork", "other", kit.Set("note", "fork"))
	s.awaitOf("Fork", "other", "Ready")

	s.createOf("Fork", "hello", kit.Set("note", "fork"))
	s.awaitOf("Fork", "hello", "Stalled", "ReleaseName", "hello")
	s.awaitOf("Knife", "hello", "Ready")
	for kind, name := range map[string]string{"Knife": "hello", "Fork": "other"} {
		if claimed, _, _ := unstructured.NestedString(s.of(kind, name).Object, "status", "operator"); claimed != operatorNamespace+"/"+strings.ToLower(kind)+"-operator" {
			t.Errorf("%s is served by %q", kind, claimed)
		}
	}
	for _, kind := range []string{"Knife", "Fork"} {
		for _, name := range []string{"hello", "other"} {
			if err := env.Client.Delete(ctx, s.of(kind, name)); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
			s.awaitGone(s.of(kind, name), name)
		}
	}
	s.await("each has a lease", func() error {
		var missing error
		for _, lease := range []string{"knife-operator", "fork-operator"} {
			missing = errors.Join(missing, env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: lease}, kit.Object("coordination.k8s.io/v1", "Lease")))
		}
		return missing
	})
}

// A CRD that somebody wrote by hand may leave out where to tell how a custom resource is: that is said where
// it can be. So is that there is no spec.
func TestCRDsWithoutAStatus(t *testing.T) {
	s := newScene(t)
	crd := func(kind, status, subresources string) {
		name := strings.ToLower(kind)
		objects, err := kit.Objects([]byte(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]ss, singular: %[1]s}
  versions:
  - {name: v1, served: true, storage: true, subresources: %[5]s, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}%[4]s}}}}
`, name, kindsGroup, kind, status, subresources)))
		s.must(err)
		s.must(env.Client.Create(ctx, objects[0]))
		s.await(kind+" is served", func() error { return env.Client.List(ctx, kit.List(kindsGroup+"/v1", kind)) })
	}
	crd("Mute", ", status: {type: object, x-kubernetes-preserve-unknown-fields: true}", "{}")
	crd("Forgetful", "", "{status: {}}")
	crd("Chatty", ", status: {type: object, x-kubernetes-preserve-unknown-fields: true}", "{status: {}}")
	chart := noteChart(t)
	operator := s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Mute", chart, "") + entryOf("Forgetful", chart, "") + entryOf("Chatty", chart, ""),
	})
	s.await("the log says what the CRDs lack", func() error {
		return says(operator.Text(), []string{`entry 1 (kind \"Mute\")`, "subresources: {status: {}}"})
	})

	s.createOf("Forgetful", "hello", kit.Set("note", "a"))
	s.await("the log says that the status is dropped", func() error {
		return says(operator.Text(), []string{"the CRD drops the status: write status: {type: object, x-kubernetes-preserve-unknown-fields: true}"})
	})
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-a")
	s.delete(s.of("Forgetful", "hello"))
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-a")

	s.createOf("Chatty", "hello")
	s.awaitOf("Chatty", "hello", "Stalled", "InvalidValues: There is no spec. Write spec: {}")
	s.editOf("Chatty", "hello", kit.Set("note", "a"))
	s.awaitOf("Chatty", "hello", "Ready")
	s.delete(s.of("Chatty", "hello"))
}

// What a stock Helm operator has made for a custom resource is taken over as it is.
func TestObjectsOfAStockOperator(t *testing.T) {
	s := newScene(t)
	s.serveKind("Legacy")
	hello := s.createOf("Legacy", "hello", kit.Set("note", "a"))
	made := &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(s.namespace, "hello-a")}
	made.Labels = map[string]string{"helm.sdk.operatorframework.io/chart": "note", "app.kubernetes.io/managed-by": "Helm"}
	made.Annotations = map[string]string{"meta.helm.sh/release-name": "hello", "meta.helm.sh/release-namespace": s.namespace}
	made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(hello, hello.GroupVersionKind())}
	made.Spec.PodSelector.MatchLabels = map[string]string{"note": "before"}
	s.must(env.Client.Create(ctx, made))
	uid := made.UID

	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf("Legacy", noteChart(t), "")})
	s.awaitOf("Legacy", "hello", "Ready")
	s.get(made, "hello-a")
	if made.UID != uid || made.Spec.PodSelector.MatchLabels["note"] != "hello" {
		t.Errorf("it was %s, and is %+v", uid, made)
	}
	s.delete(s.of("Legacy", "hello"))
	s.awaitGone(made, "hello-a")
}

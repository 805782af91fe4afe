package integration

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// publishing makes an operator publish its configuration, as it does in a cluster.
var publishing = []string{"--leader-election-namespace=" + operatorNamespace}

const published = "welcome-operator.webapp.demo.welcome.domain"

// publisher is an operator for the namespace of the test that has published its configuration.
func (s *scene) publisher(own settings) *process {
	s.Helper()
	s.must(client.IgnoreNotFound(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(operatorNamespace, published)})))
	own.namespaces, own.args = []string{s.namespace}, append(own.args, publishing...)
	operator := s.ownOperator(own)
	s.await("it has published what it was started with", func() error {
		return env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: published}, &corev1.ConfigMap{})
	})
	return operator
}

// chartIn is the directory of the chart in the text of a watches.yaml.
func chartIn(watches string) string {
	return regexp.MustCompile(`chart: (\S+)`).FindStringSubmatch(watches)[1]
}

// anyone is a user for one test, whose name is in the audit log.
func (s *scene) anyone() (string, *rest.Config) {
	s.Helper()
	login, err := env.AddUser(s.namespace)
	s.must(err)
	return s.namespace, login
}

// tidied is what a diff shows of an object.
func (s *scene) tidied(object *unstructured.Unstructured, name string) string {
	s.Helper()
	s.get(object, name)
	delete(object.Object, "status")
	metadata := object.Object["metadata"].(map[string]any)
	for _, key := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
		delete(metadata, key)
	}
	delete(metadata["ownerReferences"].([]any)[0].(map[string]any), "uid")
	text, err := yaml.Marshal(object.Object)
	s.must(err)
	return string(text)
}

// Diff says what an edited chart would do, to all alike once, and changes nothing. What it says is what the
// operator then does.
func TestDiffOfAChart(t *testing.T) {
	s := newScene(t)
	first := s.publisher(settings{})
	for _, name := range []string{"hello", "hallo", "salut"} {
		s.deploy(name, kit.Greet("friends of "+name))
	}
	s.deploy("busy", kit.Greet("all"))
	s.settled(first)
	user, login := s.anyone()
	before := s.record()
	got := s.pluginAs(user, login, "diff")
	if s.expect(got, 0); got.out != "0 of 4 Welcomes change.\n" {
		t.Errorf("where nothing changes, it says\n%s", got.out)
	}

	const old = "          ports:\n            - name: http\n"
	edited := watchesWithChart(t, old, "          {{- if eq .Values.name \"all\" }}\n          workingDir: /tmp\n          {{- end }}\n          stdin: true\n"+old)
	got = s.pluginAs(user, login, "diff", "--chart", chartIn(edited))
	s.expect(got, 1, "4 of 4 Welcomes change; 4 Deployments roll their pods, 4 Services change", "+        stdin: true", "+        workingDir: /tmp")
	if n := strings.Count(got.out, "stdin: true"); n != 2 {
		t.Errorf("three equal changes and another one are shown %d times\n%s", n, got.out)
	}
	one := s.pluginAs(user, login, "diff", "hello", "--chart", chartIn(edited))
	s.expect(one, 1, "1 of 1 Welcome changes; 1 Deployment rolls its pods, 1 Service changes")
	s.onlyAsked(user, before)

	objects := []*unstructured.Unstructured{kit.Object("apps/v1", "Deployment"), kit.Object("v1", "Service")}
	was := []string{s.tidied(objects[0], "hello"), s.tidied(objects[1], "hello")}
	first.Stop()
	second := s.publisher(settings{watches: edited})
	for _, name := range []string{"hello", "hallo", "salut", "busy"} {
		s.await(name+" is upgraded", func() error {
			deployment := kit.Object("apps/v1", "Deployment")
			s.get(deployment, name)
			if version := deployment.GetLabels()["helm.sh/chart"]; !strings.Contains(version, "-9") {
				return fmt.Errorf("it is of %s", version)
			}
			return nil
		})
	}
	s.settled(second)
	for i, object := range objects {
		is, title := s.tidied(object, "hello"), object.GetKind()+" "+s.namespace+"/hello"
		if want := udiff.Unified(title+" (now)", title+" (after)", was[i], is); want == "" || !strings.Contains(one.out, want) {
			t.Errorf("the operator did\n%s\nwhere the diff said\n%s", want, one.out)
		}
	}
	s.expect(s.pluginAs(user, login, "diff"), 0, "0 of 4 Welcomes change.")
}

// onlyAsked fails if a user has sent anything but reads and dry runs. Deletions are not checked: they ask for
// a dry run in their body, which the log does not have.
func (s *scene) onlyAsked(user string, since recording) {
	s.Helper()
	requests, err := env.Requests(ctx, since.from, func(one controlplane.Request) bool {
		return one.User.Username == user && one.Writes() && one.Verb != "delete" && !strings.Contains(one.RequestURI, "dryRun=All")
	})
	s.must(err)
	if len(requests) > 0 {
		s.Errorf("it has sent %s", requests)
	}
}

// Diff of other specs: of what is there, by --set and by a file, and of what is not. What would be refused
// is, in the words of who refuses.
func TestDiffOfASpec(t *testing.T) {
	s := newScene(t)
	operator := s.publisher(settings{})
	s.deploy("hello")
	s.deploy("other")
	s.settled(operator)
	user, login := s.anyone()
	before := s.record()
	diff := func(args ...string) said { return s.pluginAs(user, login, append([]string{"diff"}, args...)...) }
	s.expect(diff("hello", "--set", "name=you"), 1, "1 of 1 Welcome changes; 1 Deployment rolls its pods\n", "+          value: you")
	s.expect(diff("--set", "networkPolicy.enabled=true"), 1, "2 of 2 Welcomes change; 2 NetworkPolicies are made\n", "+kind: NetworkPolicy")
	s.expect(diff("hello", "--set", "replicas=-1"), 1, "0 of 1 Welcome change; 1 would be refused: ", "spec.replicas")
	s.expect(diff("hello", "--set", "replica=2"), 1, "1 would be refused: ", `unknown field "spec.replica"`) // as kubectl apply has it
	s.expect(diff("hello", "--set", "replicas"), 2, `error: --set replicas: key "replicas" has no value`)    // 1 would say that something changes
	s.expect(diff("hello", "--set", "ingress.enabled=true,ingress.host=example.com"), 1, "1 would be refused: ", "not allowed: ", "example.com")

	s.edit("other", kit.Set("networkPolicy.enabled", true))
	s.awaitExists(kit.Object("networking.k8s.io/v1", "NetworkPolicy"), "other")
	s.settled(operator)
	s.expect(diff("other", "--set", "networkPolicy.enabled=false"), 1, "1 of 1 Welcome changes; 1 NetworkPolicy is deleted\n", "-kind: NetworkPolicy")
	s.get(kit.Object("networking.k8s.io/v1", "NetworkPolicy"), "other") // it is still there
	s.edit("other", kit.Set("networkPolicy.enabled", false))
	s.awaitGone(kit.Object("networking.k8s.io/v1", "NetworkPolicy"), "other")
	s.settled(operator)

	file := filepath.Join(t.TempDir(), "cr.yaml")
	for _, c := range []struct{ name, says string }{
		{"hello", "1 of 1 Welcome changes; 1 Deployment rolls its pods\n"},
		{"new", "1 of 1 Welcome changes; 1 Deployment is made, 1 Service is made\n"}, // the file's from here on
	} {
		content, err := yaml.Marshal(kit.Welcome(s.namespace, c.name, kit.Greet("you")).Object)
		s.must(err)
		s.must(os.WriteFile(file, content, 0o600))
		s.expect(diff("-f", file), 1, c.says)
	}
	// What is in a file beside custom resources is told to be none, and nobody is asked for all that there is of that kind.
	beside := s.write("beside.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: beside}}")
	s.expect(diff("-f", beside), 2, "the operator serves no Secret: leave it out of the file")
	s.expect(diff("-f", beside, "--operator", "anywhere"), 2, "the operator serves no Secret: leave it out of the file")
	// Somebody else's is in the way of a new one.
	s.must(env.Client.Create(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "new"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	s.expect(diff("-f", file), 1, `1 would be refused: Unable to continue with install: Service "new" in namespace "`+s.namespace)

	edited := watchesWithFile(t, "templates/_helpers.tpl", "welcome: {{ .Release.Name | quote }}", "welcome: {{ .Release.Name }}-x")
	s.expect(diff("--chart", chartIn(edited)), 1, "2 would be refused: ", "spec.selector")
	s.expect(diff("--chart", chartIn(watchesWithFile(t, "Chart.yaml", "name: welcome", "name: welcome\ndependencies: [{name: none, version: 1.0.0, repository: ''}]"))), 1, "2 would be refused: ", "would not serve Welcome with this chart")
	s.expect(diff("--chart", "tests/charts/jobs"), 2, "no operator of these custom resources has a chart called")
	s.expect(diff("--chart", "helm-charts/welcome", "--chart", "tests/charts/jobs"), 0, "--chart jobs: not compared", "0 of 2 Welcomes change.")
	s.onlyAsked(user, before)

	// Drift is what the operator would put back at once: it is stopped.
	operator.Stop()
	s.deleteService("hello")
	s.expect(diff(), 1, "1 of 2 Welcomes changes; 1 Service is made\n")

	// Of what is paused, nothing is put back; another spec is compared.
	s.deleteService("other")
	s.edit("other", kit.Pause(true))
	s.expect(diff(), 1, "1 of 1 Welcome changes; 1 Service is made\n", "Left out, because nothing is put back of what is paused: 1 custom resource\n")
	s.expect(diff("other", "--set", "name=you"), 1, "1 of 1 Welcome changes; ", "1 Service is made")
	// Who names it alone asks what a resume would do.
	s.expect(diff("other"), 1, "1 of 1 Welcome changes; 1 Service is made\n", "Paused, and compared as if it were resumed: welcome/other\n")

	s.must(os.WriteFile(file, []byte("apiVersion: "+kit.Group+"/v1\nkind: Welcome\nmetadata: {name: other}\nspec: {name: you}\n"), 0o600))
	s.expect(diff("-f", file), 1, "1 of 1 Welcome changes; ", "Paused, and compared as if it were resumed: welcome/other\n")

	// New ones have the operator of the others, who are asked once.
	before = s.record()
	var several []byte
	for _, name := range []string{"a", "b", "c"} {
		content, err := yaml.Marshal(kit.Welcome(s.namespace, name).Object)
		s.must(err)
		several = append(append(several, "---\n"...), content...)
	}
	s.must(os.WriteFile(file, several, 0o600))
	s.expect(diff("-f", file), 1, "3 of 3 Welcomes change; 3 Deployments are made, 3 Services are made\n")
	lists, err := env.Requests(ctx, before.from, func(one controlplane.Request) bool {
		return one.User.Username == user && one.Verb == "list" && strings.Contains(one.RequestURI, "/welcomes")
	})
	s.must(err)
	if len(lists) != 1 {
		t.Errorf("Welcomes are listed %d times", len(lists))
	}
}

// The API server prefers another version of the kind than the operator knows: the objects are the same.
func TestDiffOfAnotherVersion(t *testing.T) {
	s := newScene(t)
	s.serveKind("Versioned")
	operator := s.publisher(settings{account: s.accountForKinds(), watches: entryOf("Versioned", noteChart(t), "")})
	s.createOf("Versioned", "hello")
	s.awaitOf("Versioned", "hello", "Deployed")
	operator.Stop()
	s.serveSecondVersion("Versioned")
	s.expect(s.plugin("diff", "versioned/hello"), 0, "0 of 1 Versioned change.")
	s.expect(s.plugin("diff", "versioned/hello", "--set", "note=other"), 1, "1 of 1 Versioned changes; 1 NetworkPolicy is deleted, 1 NetworkPolicy is made")
	file := filepath.Join(t.TempDir(), "cr.yaml")
	s.must(os.WriteFile(file, []byte("apiVersion: "+kindsGroup+"/v2\nkind: Versioned\nmetadata: {name: hello}\nspec: {note: other}\n"), 0o600))
	s.expect(s.plugin("diff", "versioned/hello", "--chrat=x"), 2, "unknown flag: --chrat")
	s.expect(s.plugin("diff", "-f", file), 2, "the operator knows Versioned as "+kindsGroup+"/v1: write that apiVersion in the file")
}

// Who may not ask what would become of an object is told so, and nobody needs more than to read what the
// operator has published.
func TestDiffWithoutRights(t *testing.T) {
	s := newScene(t)
	s.publisher(settings{})
	s.deploy("hello")
	account := s.namespace
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, account)}))
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: account}}
	grant := func(namespace string, rule rbacv1.PolicyRule) {
		s.must(env.Client.Create(ctx, &rbacv1.Role{ObjectMeta: objectMeta(namespace, account), Rules: []rbacv1.PolicyRule{rule}}))
		s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: objectMeta(namespace, account), Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}}))
		s.awaitRight(true, s.namespace, account, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0], Name: strings.Join(rule.ResourceNames, ""),
		})
	}
	token, err := env.Token(ctx, s.namespace, account)
	s.must(err)
	as := func(args ...string) said {
		return s.pluginAs(account, env.As(token), append([]string{"diff"}, args...)...)
	}
	grant(s.namespace, rbacv1.PolicyRule{APIGroups: []string{"webapp.demo.welcome.domain", "apps", ""}, Resources: []string{"welcomes", "deployments", "services", "configmaps"}, Verbs: []string{"get", "list"}})
	s.expect(as(), 2, "kubectl create role published-reader -n "+operatorNamespace)
	grant(operatorNamespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{published}, Verbs: []string{"get"}})
	s.expect(as(), 0, "0 of 1 Welcome change.")
	s.expect(as("--set", "name=you"), 2, "0 of 1 Welcome change; 1 unknown", "cannot patch resource")
	edited := watchesWithChart(t, "apiVersion: apps/v1", "apiVersion: apps/v1 # edited")
	s.expect(as("--chart", chartIn(edited)), 2, "0 of 1 Welcome change; 1 unknown", "cannot patch resource")
	s.must(env.Client.Patch(ctx, &rbacv1.Role{ObjectMeta: objectMeta(s.namespace, account)}, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["services"],"verbs":["patch"]}}]`))))
	s.awaitRight(true, s.namespace, account, authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "patch", Resource: "services"})
	s.expect(as("--chart", chartIn(edited)), 1, "1 of 1 Welcome changes; 1 Service changes, 1 partly unknown", "cannot patch resource")
}

// Neither Secrets nor what the operator has from its environment are shown by anything.
func TestDiffShowsNoSecret(t *testing.T) {
	s := newScene(t)
	const token = "sesame-4711"
	values := `{image: "${RELATED_IMAGE_WELCOME}", imagePullPolicy: IfNotPresent, name: "by ${TOKEN}", networkPolicy.enabled: "${CLOSED}"}`
	watches := regexp.MustCompile(`overrideValues: .*`).ReplaceAllLiteralString(watchesWithSecret(t, withSecret), "overrideValues: "+values) + secrets
	operator := s.publisher(settings{account: s.accountForSecrets(), watches: watches, env: []string{"TOKEN=" + token, "CLOSED=true"}}) // a boolean hides no other one
	s.deploy("hello")
	s.settled(operator)
	secret := &corev1.Secret{}
	s.get(secret, "hello-auth")
	has := &corev1.ConfigMap{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: published}, has))
	text, err := yaml.Marshal(has)
	s.must(err)
	if !strings.Contains(string(text), "${TOKEN}") {
		t.Errorf("it is not told that there is an override from the environment\n%s", text)
	}
	chart := chartIn(watches)
	edit := func(file, old, replacement string) {
		place := filepath.Join(chart, file)
		text, err := os.ReadFile(place)
		s.must(err)
		if !strings.Contains(string(text), old) {
			s.Fatalf("%s has no %q", file, old)
		}
		s.must(os.WriteFile(place, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600))
	}
	user, login := s.anyone()
	before := s.record()
	outputs := string(text)
	diff := func(code int, args []string, parts ...string) {
		t.Helper()
		got := s.pluginAs(user, login, append([]string{"diff"}, args...)...)
		s.expect(got, code, parts...)
		outputs += got.out + got.notes
	}
	diff(0, nil, "0 of 1 Welcome change.")
	edit("templates/deployment.yaml", "          ports:\n", "          stdin: true\n          ports:\n")
	edit("templates/deployment.yaml", "value: ", "value: Dear ")
	edit("templates/deployment.yaml", "kind: Deployment\nmetadata:\n", "kind: Deployment\nmetadata:\n  annotations: {token: '{{ .Values.name | b64enc }}', sum: '{{ .Values.name | sha256sum }}'}\n")
	edit("templates/deployment.yaml", "greeting: {{ .Values.name | quote }}", "greeting: {{ .Values.name | upper | quote }}\n  more: {{ randAlphaNum 20 | quote }}")
	diff(1, []string{"--chart", chart}, "1 of 1 Welcome changes", "stdin: true", "(not shown) before", "(not shown) after", "+  more: (not shown)")
	edit("templates/deployment.yaml", "metadata:", "metadata: {{ fail .Values.name }}")
	diff(1, []string{"--chart", chart}, "1 would be refused", "(not shown)")
	s.onlyAsked(user, before)
	for _, value := range append([]string{token, strings.ToUpper(token), base64.StdEncoding.EncodeToString([]byte("by " + token)), fmt.Sprintf("%x", sha256.Sum256([]byte("by "+token)))},
		string(secret.Data["password"]), base64.StdEncoding.EncodeToString(secret.Data["password"])) {
		if strings.Contains(outputs, value) {
			t.Errorf("%s is shown\n%s", value, outputs)
		}
	}
	if t.Failed() {
		t.Log(outputs)
	}
}

// What a chart's default makes by chance, where the chart runs it as a template, is not shown either.
func TestDiffOfADefaultByChance(t *testing.T) {
	s := newScene(t)
	s.publisher(settings{watches: fmt.Sprintf("- {group: webapp.demo.welcome.domain, version: v1, kind: Welcome, chart: %s}", kit.File("helm-charts/welcome"))})
	s.deploy("hello")
	chart := chartOf(t, map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: welcome, version: 9.0.0}",
		"values.yaml":        "made: '{{ randAlphaNum 20 }}'",
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  made: {{ tpl .Values.made . }}\n",
	})
	s.expect(s.plugin("diff", "--chart", chart), 1, "made: (not shown)")
}

// Where an operator may not publish, it says so once, and what to do, and works.
func TestOperatorThatMayNotPublish(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, args: []string{"--leader-election-namespace=" + s.namespace + "-none"}})
	cr := s.deploy("hello")
	s.await("it says so", func() error {
		return says(operator.Text(), []string{"leader_election_role.yaml", s.namespace + "-none"})
	})
	if n := strings.Count(operator.Text(), "leader_election_role.yaml"); n != 1 {
		t.Errorf("it says so %d times", n)
	}
	s.expect(s.plugin("diff"), 2, "has published nothing", "or somebody has deleted ConfigMap "+published+" in namespace "+s.namespace+"-none (restart it)", "0 of 1 Welcome change; 1 unknown")
	s.delete(cr) // whose operator is nowhere, as the doctor would tell
}

// Who is asked what an action would do holds one place of those that actions have, also while a chart that
// looks something up is rendered to decide: with two for each, all that are compared at once could wait for
// each other.
func TestPreviewHoldsOnePlace(t *testing.T) {
	s := newScene(t)
	s.publisher(settings{watches: watchesWithMore(t, withLookups)})
	s.deploy("hello")
	from := &corev1.ConfigMap{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: published}, from))
	of, err := operator.ReadPublished(from)
	s.must(err)
	kind := schema.GroupKind{Group: kit.Group, Kind: "Welcome"}
	entry, _ := of.Of(kind)
	chart, err := of.ChartOf(entry)
	s.must(err)
	options, err := of.KindOptions(entry, chart)
	s.must(err)
	options.WatchDependents, options.MaxConcurrent = false, 1
	known, err := discovery.NewDiscoveryClientForConfig(env.Admin)
	s.must(err)
	capabilities, err := release.NewCapabilities(known, logr.Discard())
	s.must(err)
	clients, err := release.NewPreviews(env.Admin, env.Client.RESTMapper(), env.Client, operatorNamespace+"/"+published, object.IgnoredByKind{kind: nil}, capabilities)
	s.must(err)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	preview, err := clients.Kind(options).Preview(within, s.welcome("hello"), nil)
	if err != nil || len(preview.Objects) > 0 {
		t.Errorf("%d objects would change, error %v", len(preview.Objects), err)
	}
}

var diffWelcomes = flag.Int("diff-welcomes", 20, "how many Welcomes TestDiffOfMany compares")

// A diff of many costs few requests each, takes no longer than one waits for it, and says how far it is.
func TestDiffOfMany(t *testing.T) {
	s := newScene(t)
	operator := s.publisher(settings{})
	for i := range *diffWelcomes {
		s.create(fmt.Sprintf("w%04d", i), kit.Greet(fmt.Sprint("friend ", i)), kit.Set("service.type", "ClusterIP")) // load balancers would take all node ports
	}
	err := waiting.For(ctx, s.Logf, "all are deployed", 10*time.Minute, time.Second, func(context.Context) error {
		all := kit.Welcomes()
		if err := env.Client.List(ctx, all, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		return atLeast(len(slices.DeleteFunc(all.Items, func(one unstructured.Unstructured) bool {
			deployed, err := kit.Condition(&one, "Deployed")
			return err != nil || deployed.Status != "True" || release.ClaimedBy(&one) == ""
		})), *diffWelcomes)
	})
	s.must(err)
	operator.Stop() // what it does is not measured
	user, login := s.anyone()
	edited := watchesWithChart(t, "          ports:\n", "          stdin: true\n          ports:\n")
	for _, c := range []struct {
		what string
		args []string
		code int
		says string
		each int // requests at most
	}{
		{"as things are", nil, 0, fmt.Sprintf("0 of %d Welcomes change.\n", *diffWelcomes), 3},
		{"with another chart", []string{"--chart", chartIn(edited)}, 1, fmt.Sprintf("%d of %[1]d Welcomes change; %[1]d Deployments roll their pods, %[1]d Services change\n", *diffWelcomes), 8},
	} {
		before := s.record()
		got := s.pluginAs(user, login, append([]string{"diff"}, c.args...)...)
		s.expect(got, c.code, c.says)
		requests, err := env.Requests(ctx, before.from, func(one controlplane.Request) bool { return one.User.Username == user })
		s.must(err)
		t.Logf("%d Welcomes %s: %s, %d requests, %d MiB; %s", *diffWelcomes, c.what, got.took.Round(100*time.Millisecond), len(requests), got.peak>>10, requests)
		if most := *diffWelcomes*c.each + 60; len(requests) > most {
			t.Errorf("it took more than %d requests", most)
		}
		if limit := time.Minute; got.took > limit {
			t.Errorf("it took more than %s", limit)
		}
		if got.took > 20*time.Second && !strings.Contains(got.notes, fmt.Sprintf(" of %d custom resources are compared", *diffWelcomes)) {
			t.Errorf("it did not say how far it is:\n%s", got.notes)
		}
		if n := strings.Count(got.out, "+        stdin: true"); n != c.code {
			t.Errorf("equal changes are shown %d times", n)
		}
	}
	s.onlyAsked(user, recording{s, 0})
}

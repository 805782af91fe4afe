package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// pluginBinary is `kubectl welcome`, built when the first test needs it.
var pluginBinary = sync.OnceValues(func() (string, error) {
	program := filepath.Join(env.Dir, "kubectl-welcome")
	return program, kit.Build(program, "cmd/kubectl-welcome")
})

// said is the output of a run of the plugin, and its exit code.
type said struct {
	out, notes string
	code       int
	took       time.Duration
	peak       int64 // memory, in KiB
}

// plugin runs `kubectl welcome` as the admin, in the namespace of the test.
func (s *scene) plugin(args ...string) said {
	s.Helper()
	return s.pluginAs("admin", env.Admin, args...)
}

// pluginAs runs the plugin as another user, who is called name.
func (s *scene) pluginAs(name string, login *rest.Config, args ...string) said {
	s.Helper()
	got, err := s.pluginCommand(name, login, args...)()
	s.must(err)
	return got
}

// pluginCommand is pluginAs for a goroutine, which must not fail the test itself.
func (s *scene) pluginCommand(name string, login *rest.Config, args ...string) (run func() (said, error)) {
	s.Helper()
	program, err := pluginBinary()
	s.must(err)
	kubeconfig, err := env.Kubeconfig(name, login)
	s.must(err)
	return func() (said, error) {
		var out, notes strings.Builder
		cmd := exec.Command(program, append([]string{"-n", s.namespace}, args...)...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = kit.Root(), []string{"HOME=" + env.Dir, "KUBECONFIG=" + kubeconfig, "HELM_DRIVER=" + os.Getenv("HELM_DRIVER")}, &out, &notes
		start := time.Now()
		err := cmd.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return said{}, err
		}
		return said{out.String(), notes.String(), cmd.ProcessState.ExitCode(), time.Since(start), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss}, nil
	}
}

// expect fails unless the plugin ended with that code, and printed all parts.
func (s *scene) expect(got said, code int, parts ...string) {
	s.Helper()
	if err := says(got.out+got.notes, parts); got.code != code || err != nil {
		s.Errorf("exit code %d, not %d, or %v:\n%s\n%s", got.code, code, err, got.out, got.notes)
	}
}

// Kinds are found by what everybody may read, and names by kind, in kubectl's words.
func TestPluginFindsCustomResources(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.expect(s.plugin("diff"), 0, "No custom resource is meant.")
	s.create("hello")
	s.bringUp("hello")
	for _, arg := range []string{"hello", "welcome/hello", "wel/hello", "Welcomes/hello", "welcomes.webapp.demo.welcome.domain/hello"} {
		s.expect(s.plugin("status", arg), 0, "hello", "from chart welcome")
	}
	if got := s.plugin("status", "-A"); !strings.Contains(got.out, s.namespace) {
		t.Errorf("-A says:\n%s%s", got.out, got.notes)
	}
	s.expect(s.plugin("status", "-l", "no=such"), 1, "No custom resources found in namespace "+s.namespace+".")
	s.expect(s.plugin("diff", "-l", "no=such"), 2, "no custom resource is selected by -l no=such")
	s.expect(s.plugin("diff", "-A", "-l", "no=such", "--chart", "helm-charts/welcome"), 2, "no custom resource is selected by -l no=such")
	s.expect(s.plugin("pause", "-l", "no=such"), 1, "no custom resources found in namespace "+s.namespace)
	s.expect(s.plugin("pause", "deployment/hello"), 1, "the operator serves no Deployment")
	s.expect(s.plugin("reconcile", "deployment/hello"), 1, "the operator serves no Deployment")
	s.expect(s.plugin("status", "welcome/"), 0, "welcome/hello", "1 Welcome: 1 ready")
	s.expect(s.plugin("status", "nobody"), 1, `"nobody" not found in namespace `+s.namespace)
	for _, command := range []string{"status", "diff", "pause", "history"} { // as for kubectl, which would take it for all of the kind
		got := s.plugin(command, "welcomes")
		s.expect(got, map[bool]int{true: 2, false: 1}[command == "diff"], `"welcomes" not found`, "welcomes is a kind: write welcomes/NAME or, for a command that takes several, welcomes/ for all")
	}
	s.expect(s.plugin("status", "welcome", "hello"), 1, "welcome/hello", "welcome is a kind")
	for _, same := range [][]string{{"hello", "welcome/hello"}, {"welcome/", "wel/"}} {
		s.expect(s.plugin(append([]string{"status"}, same...)...), 0, "1 Welcome: 1 ready")
		s.expect(s.plugin(append([]string{"diff"}, same...)...), 2, "of 1 Welcome") // its operator has published nothing
	}
	if got := s.plugin("status", "nobody", "nobody"); strings.Count(got.notes, "not found") != 1 {
		t.Errorf("one that is named twice is missing once:\n%s", got.notes)
	}
	if got := s.plugin("resume", "hello", "welcome/hello"); strings.Contains(got.out, "2 custom resources") || strings.Count(got.out, "is not paused") != 1 {
		t.Errorf("one that is named twice is one:\n%s", got.out)
	}
	s.expect(s.plugin("status", "hello", "nobody"), 1, "NAMESPACE", "welcome/hello", `"nobody" not found`)
	s.expect(s.plugin("status", "hello", "nobody", "-o", "json"), 1, `"items": [`, `"name": "hello"`, `"nobody" not found`)
	s.expect(s.plugin("status", "hello", "nobody", "--watch"), 1, `"nobody" not found`) // which would be waited for
	s.expect(s.plugin("status", "nothing/hello"), 1, `the cluster has no kind "nothing"`, "kubectl api-resources --categories=welcome-operator")
	s.expect(s.plugin("status", "deployment/hello"), 1, "the operator serves no Deployment")
	s.expect(s.plugin("pause", "/"), 1, `"/" has no kind`)
	s.expect(s.plugin("status", "-n", "misspelt"), 1, `there is no namespace "misspelt"`)
	for _, command := range []string{"history", "restart", "reconcile", "release"} { // of a script whose variable is not set: there is one that could be meant
		s.expect(s.plugin(command, "welcome/"), 1, `"welcome/" has no name: write NAME or KIND/NAME`)
	}
	s.expect(s.plugin("restart"), 1, "0 names, not one: kubectl welcome restart NAME | KIND/NAME")
	s.expect(s.plugin("resume", "hello"), 0, "welcome/hello in "+s.namespace+" is not paused\n")
	s.expect(s.plugin("pause", "hello", "--context", "test"), 0, "Next: kubectl welcome --context=test resume hello -n "+s.namespace) // that without is perhaps for a namesake in another cluster
	s.expect(s.plugin("status", "hello", "--context", "test"), 2, "To end that: kubectl welcome --context=test resume hello")
	s.expect(s.plugin("resume", "hello", "--wait"), 0, "resumed")
	s.expect(s.plugin("stauts"), 1, "Did you mean this?\nstatus")
	s.expect(s.plugin("__complete", "status", "welcome/h"), 0, "welcome/hello")

	// As make install-plugin puts it, kubectl finds it, and its completion.
	program, err := pluginBinary()
	s.must(err)
	dir := t.TempDir()
	installed, err := kit.Output(exec.Command(kit.File("hack/install-plugin.sh"), program, dir))
	s.must(err)
	s.must(says(installed, []string{dir + "/kubectl-welcome", "Next: kubectl welcome status -A"}))
	kubeconfig, err := env.Kubeconfig("admin", env.Admin)
	s.must(err)
	for said, args := range map[string][]string{"applied: generation 1": {"welcome", "status", "hello"}, "hello\n": {"__complete", "welcome", "status", "he"}} {
		cmd := kit.Tool(ctx, "kubectl", args...)
		cmd.Env = []string{"HOME=" + env.Dir, "KUBECONFIG=" + kubeconfig, "PATH=" + dir + ":" + os.Getenv("PATH")}
		if args[0] == "welcome" {
			cmd.Args = append(cmd.Args, "-n", s.namespace)
		} else {
			cmd.Args = slices.Insert(cmd.Args, 4, "-n", s.namespace)
		}
		out, err := kit.Output(cmd)
		s.must(err)
		s.must(says(out+"\n", []string{said}))
	}
}

// The screen says whether a Welcome is well, and if not, whose turn it is; the table has the worst first, and
// the exit code is for scripts.
func TestPluginStatus(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.create("hello", kit.Greet("before"))
	var got said
	watched, watch := make(chan error, 1), s.pluginCommand("admin", env.Admin, "status", "hello", "--watch")
	go func() {
		var err error
		got, err = watch()
		watched <- err
	}()
	s.bringUp("hello")
	s.must(<-watched)
	s.expect(got, 0, "Nobody has to do anything")
	s.expect(s.plugin("status", "hello"), 0, "Ready", "Nobody has to do anything", "revision 1, deployed", "from chart welcome", "applied: generation 1", "/hello/",
		"├─ Deployment/hello  Current", "└─ Service/hello     Current", "Drift in the last hour\n  none", "Installed")

	deployment := &appsv1.Deployment{}
	s.as("intruder", deployment, func() { deployment.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.awaitGreeting("hello", "before")
	s.awaitEvent("hello", "DriftCorrected", "intruder")
	s.runsAll("hello")
	s.await("it is ready again", func() error { // after a repair, once the status has heard of the Deployment's
		if got := s.plugin("status", "hello"); got.code != 0 {
			return errors.New(got.out + got.notes)
		}
		return nil
	})
	s.expect(s.plugin("status", "hello"), 0, "DriftCorrected", `env[0].value, which was changed by field manager "intruder"`)

	s.create("broken")
	s.awaitDeployed("broken")
	s.breaks("broken")
	s.awaitReason("broken", "ProgressDeadlineExceeded")
	s.expect(s.plugin("status", "broken"), 2, "Not ready: ProgressDeadlineExceeded", "It is your turn", "Deployment/broken  Failed")

	s.create("idle")
	s.bringUp("idle")
	s.expect(s.plugin("pause", "idle", "--wait"), 0, "welcome/idle in "+s.namespace+" paused", "Next: kubectl welcome resume idle")
	for _, fields := range s.welcome("idle").GetManagedFields() {
		if strings.HasPrefix(fields.Manager, "kubectl") { // which Flux undoes
			t.Errorf("%s has paused it: Flux would end that", fields.Manager)
		}
	}
	s.expect(s.plugin("status", "idle"), 2, "Unknown: Paused", "kubectl welcome resume idle -n "+s.namespace)
	listed := s.plugin("status")
	s.expect(listed, 2, "3 Welcomes: 1 ready, 1 not (1 ProgressDeadlineExceeded), 1 paused")
	if order := regexp.MustCompile("(?s)welcome/broken.*welcome/idle.*welcome/hello"); !order.MatchString(listed.out) {
		t.Errorf("the worst is not first:\n%s", listed.out)
	}
	var list struct {
		Items []struct{ Name, Ready, Turn string }
	}
	s.must(json.Unmarshal([]byte(s.plugin("status", "-o", "json").out), &list))
	if len(list.Items) != 3 || list.Items[0].Name != "broken" || list.Items[0].Turn != "you" {
		t.Errorf("as JSON: %+v", list)
	}
	s.expect(s.plugin("status", "hello", "-o", "yaml"), 0, "kind: Welcome\n", "objects:\n- health: Current\n  kind: Deployment\n")

	s.expect(s.plugin("resume", "idle", "--wait"), 0, "welcome/idle in "+s.namespace+" resumed")
	s.expect(s.plugin("resume", "welcome/"), 0, "0 of 3 custom resources changed")
	s.expect(s.plugin("pause"), 1, "say which")
}

// Where no operator runs, what it has said last is of before: that it was well is not told of objects that are not.
func TestPluginStatusWithoutAnOperator(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.create("hello")
	s.bringUp("hello")
	s.expect(s.plugin("status", "hello"), 0, "Nobody has to do anything")
	operator.Stop()
	s.deleteService("hello")
	s.expect(s.plugin("status", "hello"), 2, "Unknown: NotSeen\n", "The operator has yet to see: Service/hello NotFound (somebody has deleted it). If that takes longer than a moment: kubectl welcome doctor.", "Before, it was: The release is applied", "It is the operator's turn, if one runs.")
	s.expect(s.plugin("status", "hello", "-o", "json"), 2, `"ready": "Unknown"`, `"turn": "operator"`)
	s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.must(env.Client.Create(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	s.expect(s.plugin("status", "hello"), 2, "The operator has yet to see: ", "Service/hello NotFound (another object has its name, which is not this custom resource's)")
	s.expect(s.plugin("pause", "hello", "--wait", "--timeout=0"), 1, "not done after 0s (--timeout): the API server has not answered by then")
	s.edit("hello", kit.Pause(false))
	s.must(env.Client.Delete(ctx, s.welcome("hello")))
	s.expect(s.plugin("pause", "hello", "--wait"), 0, "welcome/hello in "+s.namespace+" is being deleted: a pause does not keep that from going on")
	s.expect(s.plugin("restart", "hello"), 1, "error: nothing of welcome/hello can be restarted: deployment/hello is gone. What is there: kubectl welcome status hello -n "+s.namespace)
}

// Who has rights in a namespace only, and there on Welcomes only, sees what they say of themselves, and what is missing.
func TestPluginForTenants(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.bringUp("hello")
	s.editor()
	token, err := env.Token(ctx, s.namespace, "editor")
	s.must(err)
	tenant := env.As(token)
	s.await("the tenant may read", func() error {
		if got := s.pluginAs("tenant", tenant, "status", "welcome/"); got.code != 0 {
			return errors.New(got.notes)
		}
		return nil
	})
	s.expect(s.pluginAs("tenant", tenant, "status", "hello"), 0, "Ready", "revision 1", "Deployment/hello  Unknown  you may not read it",
		"Drift in the last hour\n  unknown\n", "Events\n  unknown\n", "you have no right to read events")
	s.create("other")
	before := s.record()
	s.expect(s.pluginAs("tenant", tenant, "status", "welcome/"), 2, "welcome/hello", "welcome/other")
	requests, err := env.Requests(ctx, before.from, func(one controlplane.Request) bool {
		return strings.HasSuffix(one.User.Username, s.namespace+":editor") && one.ObjectRef.Resource != ""
	})
	s.must(err)
	if len(requests) != 1 {
		t.Errorf("a table costs %s", requests)
	}
	s.expect(s.pluginAs("tenant", tenant, "status", "-A"), 1, "forbidden", "leave out -A")
	s.expect(s.pluginAs("tenant", tenant, "history", "hello"), 1, "ConfigMaps, which you may not list")
	s.expect(s.pluginAs("tenant", tenant, "restart", "hello"), 1, `deployments.apps "hello" is forbidden`)
	s.expect(s.pluginAs("tenant", tenant, "reconcile", "hello", "--wait"), 0, "Done: Nothing had to be changed")
	for _, args := range [][]string{
		{"create", "role", "reader", "--verb=get,list", "--resource=deployments.apps"}, {"create", "rolebinding", "reader", "--role=reader", "--serviceaccount=" + s.namespace + ":editor"},
	} {
		_, err := s.kubectl("", args...)
		s.must(err)
	}
	s.await("the tenant may read Deployments", func() error {
		return says(s.pluginAs("tenant", tenant, "status", "hello").out, []string{"Deployment/hello  Current", "Service/hello     Unknown  you may not read it"})
	})
}

// What a revision has changed is told of a spec and of objects; pods that somebody restarts stay as they are then.
func TestPluginHistoryAndRestart(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.bringUp("hello")
	s.expect(s.plugin("history", "hello"), 0, "Revision 2  deployed", "generation 2", `values.name: "before" → "after"`,
		`Deployment "hello": spec.template.spec.containers[0].env[0].value`, "Revision 1  superseded", "the first", "The newest 5 revisions are kept.")

	s.expect(s.plugin("restart", "hello"), 0, "deployment/hello in "+s.namespace+" restarted", "Next: kubectl welcome status hello")
	s.runsAll("hello")
	s.settled(operator)
	s.expect(s.plugin("restart", "hello", "--wait", "--timeout=1s"), 1, "not done after 1s", "deployment")
	s.runsAll("hello")
	s.settled(operator)
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || kit.Greeting(deployment) != "after" {
		t.Errorf("its template is %+v", deployment.Spec.Template)
	}
	if corrected := s.putBack("Deployment"); len(corrected) > 0 {
		t.Errorf("the restart was undone: %v", corrected)
	}

	// Who may edit records has nobody restart what is not the Welcome's.
	s.pause()
	theirs := deployment.DeepCopy()
	theirs.ObjectMeta, theirs.Spec.Paused = objectMeta(s.namespace, "theirs"), true
	s.must(env.Client.Create(ctx, theirs))
	record := &s.records("hello")[1]
	record.Annotations["webapp.demo.welcome.domain/children"] = `[{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"},{"apiVersion":"apps/v1","kind":"Deployment","name":"gone"}]`
	s.must(env.Client.Update(ctx, record))
	s.expect(s.plugin("status", "hello"), 2, "Deployment/hello  Current")
	s.expect(s.plugin("restart", "hello"), 0, "deployment/hello in "+s.namespace+" restarted")
	if s.get(theirs, "theirs"); theirs.Generation != 1 {
		t.Error("the Deployment of somebody else was restarted")
	}

	// Nor does one restart that would replace no pod.
	operator.Stop()
	onDelete := &appsv1.StatefulSet{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: appsv1.StatefulSetSpec{
		Selector: deployment.Spec.Selector, Template: deployment.Spec.Template, UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
	}}
	onDelete.OwnerReferences = deployment.OwnerReferences
	s.must(env.Client.Create(ctx, onDelete))
	s.get(deployment, "hello")
	before := deployment.Generation
	welcome := s.welcome("hello")
	s.must(unstructured.SetNestedField(welcome.Object, `[{"apiVersion":"apps/v1","kind":"Deployment","name":"hello"},{"apiVersion":"apps/v1","kind":"StatefulSet","name":"hello"}]`, "status", "release", "children"))
	s.must(env.Client.Status().Update(ctx, welcome))
	s.expect(s.plugin("restart", "hello"), 1, "statefulset/hello replaces a pod only when somebody deletes that (updateStrategy: OnDelete): kubectl delete pod NAME -n "+s.namespace)
	if s.get(deployment, "hello"); deployment.Generation != before {
		t.Error("the Deployment beside it was restarted")
	}
}

// pluginKind creates a kind that the plugin takes for served, and that no operator serves.
func (s *scene) pluginKind(kind string) (remove func()) {
	s.Helper()
	s.serveKind(kind)
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kindsGroup, Version: "v1", Kind: kind})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta("", plural.Resource+"."+kindsGroup)}
	s.must(env.Client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"names":{"categories":["welcome-operator"]}}}`))))
	awaitListed := func(want bool) {
		s.Helper()
		s.await("discovery knows of "+kind, func() error {
			out, err := s.kubectl("", "api-resources", "--categories=welcome-operator", "-o", "name")
			if err == nil && strings.Contains(out, crd.Name) != want {
				err = errors.New(out)
			}
			return err
		})
	}
	awaitListed(true)
	remove = sync.OnceFunc(func() {
		s.must(env.Client.Delete(ctx, crd))
		awaitListed(false)
	})
	s.Cleanup(remove)
	return remove
}

// foreignKind creates a kind of the same name that another operator serves, and that comes first in
// discovery.
func (s *scene) foreignKind(kind string) {
	s.Helper()
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta("", plural.Resource+".another.example.com")}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "another.example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural.Resource, Singular: strings.ToLower(kind)},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
	}
	s.must(env.Client.Create(ctx, crd))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, crd)) })
	s.await("kubectl takes "+kind+" for another operator's", func() error {
		if _, err := s.kubectl("", "api-resources", "--api-group="+crd.Spec.Group); err != nil { // or it takes what it remembers
			return err
		}
		out, err := s.kubectl("", "get", strings.ToLower(kind), "there")
		if err == nil || !strings.Contains(err.Error(), "another.example.com") {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
}

// Kinds that came or went a moment ago count, whatever kubectl remembers of the cluster, and one that the
// caller may not list hides none of the others.
func TestPluginOfKindsThatComeAndGo(t *testing.T) {
	s := newScene(t)
	s.create("hello")
	s.editor()
	token, err := env.Token(ctx, s.namespace, "editor")
	s.must(err)
	tenant := env.As(token)
	s.await("the tenant may read", func() error {
		return says(s.pluginAs("tenant", tenant, "status").out, []string{"welcome/hello"})
	})
	s.expect(s.plugin("status"), 2, "welcome/hello")
	remove := s.pluginKind("Passing")
	s.createOf("Passing", "there")
	s.expect(s.plugin("restart", "passing/there"), 1, "passing/there has no release yet: kubectl welcome status passing/there")
	s.foreignKind("Passing")
	s.expect(s.plugin("status"), 2, "welcome/hello", "passing/there")
	if got := s.plugin("status", "passing/there"); got.code != 2 || strings.Contains(got.out, "Missing here") {
		t.Errorf("there is no release yet:\n%s%s", got.out, got.notes)
	}
	s.expect(s.pluginAs("tenant", tenant, "status"), 1, "welcome/hello", "passings.kinds.example.com is forbidden")
	everywhere := s.pluginAs("tenant", tenant, "status", "-A")
	s.expect(everywhere, 1, "welcomes.webapp.demo.welcome.domain is forbidden", "passings.kinds.example.com is forbidden", "leave out -A")
	if advice := strings.Count(everywhere.notes, "leave out -A"); advice != 1 {
		t.Errorf("it is advised %d times:\n%s", advice, everywhere.notes)
	}
	s.expect(s.pluginAs("tenant", tenant, "pause", "-l", "!no"), 1, "welcome/hello in "+s.namespace+" paused", "passings.kinds.example.com is forbidden")
	remove()
	if got := s.plugin("status"); got.code != 2 || strings.Contains(got.out, "passing") {
		t.Errorf("the kind is gone:\n%s%s", got.out, got.notes)
	}
}

// What goes wrong with one custom resource, one kind or for a moment keeps the plugin from nothing else.
func TestPluginWhenRequestsFail(t *testing.T) {
	s := newScene(t)
	s.pluginKind("Failing")
	for _, name := range []string{"first", "deleted", "refused"} {
		s.createOf("Failing", name)
	}
	account := s.accountForCharts()
	s.awaitRight(true, operatorNamespace, account, authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "patch", Group: kindsGroup, Resource: "failings"})
	token, err := env.Token(ctx, operatorNamespace, account)
	s.must(err)
	login := env.As(token)
	var fails atomic.Pointer[func(method, path string) bool]
	s.failing(login, &fails)
	nothing := func(string, string) bool { return false }
	plugin := func(fail func(method, path string) bool, args ...string) said {
		fails.Store(&fail)
		return s.pluginAs("proxied", login, args...)
	}

	s.expect(plugin(func(method, path string) bool {
		if method == http.MethodPatch && strings.HasSuffix(path, "/deleted") {
			if err := env.Client.Delete(ctx, s.of("Failing", "deleted")); err != nil {
				t.Error(err)
			}
		}
		return method == http.MethodPatch && strings.HasSuffix(path, "/refused")
	}, "pause", "failing/"), 1, "failing/first in "+s.namespace+" paused", "failing/deleted in "+s.namespace+" is deleted", "1 of 3 custom resources changed", "failing/refused in "+s.namespace+": ")

	s.expect(plugin(nothing, "pause", "failing/first", "failing/nobody"), 1, "failing/first in "+s.namespace+" is paused already", `"nobody" not found`)
	s.create("hello")
	unlisted := func(_, path string) bool { return strings.HasSuffix(path, "/failings") }
	s.expect(plugin(unlisted, "status"), 1, "welcome/hello", "list failings: the server is currently unable")
	s.expect(plugin(unlisted, "diff"), 2, "of 1 Welcome", "list failings: the server is currently unable")

	// Its status, as an operator would write it. Its record is gone.
	first := s.of("Failing", "first")
	first.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Healthy", "message": "It is well.", "observedGeneration": first.GetGeneration(), "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}},
		"release":    map[string]any{"name": "first", "revision": int64(1), "chart": "welcome", "version": "0.1.0", "status": "deployed", "lastApplied": metav1.Now().UTC().Format(time.RFC3339), "generation": int64(1)},
	}
	s.must(env.Client.Status().Update(ctx, first))
	s.expect(plugin(func(_, path string) bool { return strings.HasSuffix(path, "/ingresses") }, "status", "failing/first"), 2, "Missing here: Ingress.networking.k8s.io: ")
	unreadable := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "unreadable")}
	unreadable.Labels = object.ManagedByLabels()
	s.must(controllerutil.SetControllerReference(first, unreadable, env.Client.Scheme()))
	s.must(env.Client.Create(ctx, unreadable))
	s.expect(plugin(func(_, path string) bool { return strings.HasSuffix(path, "/unreadable") }, "status", "failing/first"), 2, "ConfigMap/unreadable  Unknown", "the server is currently unable")
	gets := 0
	away := func(method, path string) bool {
		if method == http.MethodGet && strings.HasSuffix(path, "/failings/first") {
			gets++
		}
		return gets == 2 && method == http.MethodGet && strings.HasSuffix(path, "/failings/first")
	}
	s.expect(plugin(away, "resume", "failing/first", "--wait"), 0, "resumed", "Waiting for the API server")

	unready := s.of("Failing", "first")
	unready.Object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["status"] = "False"
	s.must(env.Client.Status().Update(ctx, unready))
	gets = 0
	s.expect(plugin(func(method, path string) bool {
		if !away(method, path) {
			return false
		}
		first := s.of("Failing", "first")
		first.Object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["status"] = "True"
		if err := env.Client.Status().Update(ctx, first); err != nil {
			t.Error(err)
		}
		return true
	}, "status", "failing/first", "--watch"), 0, "Not ready", "the server is currently unable", "Nobody has to do anything")
}

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/policy"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// patience is how long something may take on a busy machine: longer than the longest pause between two
// attempts of the operator.
const patience = 90 * time.Second

// patientLease is for operators that must not end when the machine stands still for some seconds, because
// nobody restarts them.
const patientLease = "--leader-election-lease-duration=15s"

// shared is the operator as it is deployed, for all namespaces. It runs while no test has an operator of its
// own.
var (
	shared  *process
	sharing sync.Mutex
)

// scene is a test with a namespace and operators of its own.
type scene struct {
	*testing.T
	namespace string
	operators []*process
	givenUp   chan struct{} // receives when the API server gives up a request that the webhook of hold holds
}

// newScene begins a test. A test that mostly waits, with operators of its own, calls t.Parallel(): it runs
// beside others of that sort, after all tests that use the shared operator.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, givenUp: make(chan struct{}, 100)}
	s.namespace = s.newNamespace("test-")
	return s
}

func (s *scene) newNamespace(prefix string) string {
	s.Helper()
	name := kit.NameOf(s.Name())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + name[:min(len(name), 30)] + "-"}}
	s.must(env.Client.Create(ctx, namespace))
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(namespace.Name, "default")})) // as a controller would
	return namespace.Name
}

// operator returns the shared operator once it is ready.
func (s *scene) operator() *process {
	s.Helper()
	if shared == nil {
		p, err := launch(settings{})
		s.must(err)
		shared = p
	}
	s.operators = append(s.operators, shared)
	s.await("the operator is ready", shared.ready)
	return shared
}

// ownOperator starts an operator that ends with the test, and returns it once it is ready. The shared one is
// stopped, because both would work on the same.
func (s *scene) ownOperator(settings settings) *process {
	s.Helper()
	p := s.launch(settings)
	s.await("the operator is ready", p.ready)
	return p
}

// stopShared stops the shared operator, so that those that are launched serve what is made next.
func stopShared() {
	sharing.Lock()
	defer sharing.Unlock()
	if shared != nil {
		shared.Stop()
		shared = nil
	}
}

func (s *scene) launch(settings settings) *process {
	s.Helper()
	stopShared()
	var entries []operator.Entry
	if settings.account != "" && !settings.noPolicy {
		entries = s.bound(settings)
	}
	p, err := launch(settings)
	s.must(err)
	p.account, p.entries = settings.account, entries
	s.Cleanup(p.Stop)
	s.operators = append(s.operators, p)
	return p
}

// bound has the account of an operator bounded by the policy that make manifests writes for its watches.yaml, as the
// deployed one is. It returns the entries: where others of the account run beside it, theirs count, too.
func (s *scene) bound(settings settings) (entries []operator.Entry) {
	s.Helper()
	if settings.watches == "" {
		text, err := os.ReadFile(kit.File("watches.yaml"))
		s.must(err)
		settings.watches = string(text)
	}
	var list []json.RawMessage
	if yaml.UnmarshalStrict([]byte(settings.watches), &list) != nil {
		return nil // the test is about that, as it is of an entry that is none
	}
	for _, text := range list {
		var entry operator.Entry
		if yaml.UnmarshalStrict(text, &entry) == nil {
			entries = append(entries, entry)
		}
	}
	all := entries
	for _, p := range s.operators {
		if p.account == settings.account && !p.HasEnded() {
			all = append(all, p.entries...)
		}
	}
	bounds, binding := policy.New(all)
	bounds.Name = "bounds-" + settings.account
	binding.Name, binding.Spec.PolicyName = bounds.Name, bounds.Name
	account := &bounds.Spec.MatchConditions[0].Expression
	*account = strings.Replace(*account, policy.Account, "system:serviceaccount:"+operatorNamespace+":"+settings.account+":", 1)
	const probe = "probe-of-policy"
	known := fmt.Sprintf("these are the bounds after %d processes", processes.Load())
	bounds.Spec.Validations = slices.Insert(bounds.Spec.Validations, 0, admissionregistrationv1.Validation{Expression: fmt.Sprintf("request.name != %q", probe), Message: known})
	replaced := false
	for _, object := range []client.Object{bounds, binding} {
		if err := env.Client.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
			s.must(err)
			s.Cleanup(func() { s.must(env.Client.Delete(ctx, object)) })
			continue
		}
		live := object.DeepCopyObject().(client.Object)
		s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(live), live))
		object.SetResourceVersion(live.GetResourceVersion())
		s.must(env.Client.Update(ctx, object))
		replaced = true
	}
	if replaced { // the API server looks for policies once in a second, and the one before may allow less
		login := rest.CopyConfig(env.Admin)
		login.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + operatorNamespace + ":" + settings.account, Groups: []string{"system:masters"}}
		as, err := client.New(login, client.Options{Scheme: env.Client.Scheme()})
		s.must(err)
		s.await("the policy holds", func() error {
			err := as.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(operatorNamespace, probe)}, client.DryRunAll)
			if err != nil && strings.Contains(err.Error(), known) {
				return nil
			}
			return fmt.Errorf("the API server says: %w", err)
		})
	}
	return entries
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await polls until check returns nil. If it never does, it shows what a person would look at.
func (s *scene) await(what string, check func() error) {
	s.Helper()
	s.awaitWithin(patience, what, check)
}

// awaitWithin is await with another limit.
func (s *scene) awaitWithin(limit time.Duration, what string, check func() error) {
	s.Helper()
	err := waiting.For(ctx, s.Logf, what, limit, 50*time.Millisecond, func(context.Context) error { return check() })
	if err != nil {
		s.Fatalf("%v\n%s", err, s.dump())
	}
}

// dump has the custom resources, the events, the children and the last lines of the operators' logs.
func (s *scene) dump() string {
	var out strings.Builder
	for _, kind := range []client.ObjectList{kit.Welcomes(), kit.List("v1", "Event"), kit.List("apps/v1", "Deployment"), kit.List("v1", "Service"), kit.List("v1", "ConfigMap")} {
		list := kind.(*unstructured.UnstructuredList)
		if err := env.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			fmt.Fprintf(&out, "--- %v\n", err)
			continue
		}
		for _, object := range list.Items {
			object.SetManagedFields(nil)
			if object.GetKind() == "ConfigMap" {
				delete(object.Object, "data") // a packed release record
			}
			if object.GetKind() == "Event" {
				fmt.Fprintf(&out, "--- event: %v %v: %v\n", object.Object["type"], object.Object["reason"], object.Object["message"])
				continue
			}
			text, _ := yaml.Marshal(object.Object)
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	for i, operator := range s.operators {
		fmt.Fprintf(&out, "--- last lines of operator %d\n%s\n", i, operator.LastLines(40))
	}
	return out.String()
}

// create stores a Welcome.
func (s *scene) create(name string, edits ...kit.Edit) *unstructured.Unstructured {
	s.Helper()
	object := kit.Welcome(s.namespace, name, edits...)
	s.must(env.Client.Create(ctx, object))
	return object
}

// deploy stores a Welcome and waits until it is deployed.
func (s *scene) deploy(name string, edits ...kit.Edit) *unstructured.Unstructured {
	s.Helper()
	object := s.create(name, edits...)
	s.awaitDeployed(name)
	return object
}

// edit changes a Welcome, even if others write to it at the same time.
func (s *scene) edit(name string, edits ...kit.Edit) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := kit.Welcome(s.namespace, name)
		if err := s.find(object, name); err != nil {
			return err
		}
		for _, edit := range edits {
			edit(object)
		}
		return env.Client.Update(ctx, object)
	}))
}

// find reads a namespaced object.
func (s *scene) find(object client.Object, name string) error {
	return env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object)
}

// get reads a namespaced object, and fails if it cannot.
func (s *scene) get(object client.Object, name string) {
	s.Helper()
	s.must(s.find(object, name))
}

func (s *scene) welcome(name string) *unstructured.Unstructured {
	s.Helper()
	object := kit.Welcome(s.namespace, name)
	s.get(object, name)
	return object
}

// delete deletes a Welcome, and waits until it is gone.
func (s *scene) delete(welcome *unstructured.Unstructured) {
	s.Helper()
	s.must(env.Client.Delete(ctx, welcome))
	s.awaitGone(welcome, welcome.GetName())
}

// deleteService deletes the Service of a Welcome.
func (s *scene) deleteService(name string) {
	s.Helper()
	s.must(env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, name)}))
}

// awaitDeployed waits until the operator says that the current spec of a Welcome is deployed.
func (s *scene) awaitDeployed(name string) {
	s.Helper()
	s.await("the operator has seen Welcome "+name+" as it is now", func() error { return kit.Seen(s.welcome(name)) })
	s.awaitCondition(name, "Deployed", "True", "")
	s.awaitCondition(name, "Irreconcilable", "False", "")
}

// awaitCondition waits for a condition with a status and all parts in its message.
func (s *scene) awaitCondition(name, kind, status string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("Welcome %s has condition %s=%s with %q", name, kind, status, parts), func() error {
		condition, err := s.condition(name, kind)
		if err != nil {
			return err
		}
		if string(condition.Status) != status {
			return fmt.Errorf("it is %+v", condition)
		}
		return says(condition.Message, parts)
	})
}

// condition is a condition of a Welcome.
func (s *scene) condition(name, kind string) (metav1.Condition, error) {
	welcome := kit.Welcome(s.namespace, name)
	if err := s.find(welcome, name); err != nil {
		return metav1.Condition{}, err
	}
	return kit.Condition(welcome, kind)
}

// says is nil if a message contains all parts.
func says(message string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(message, part) {
			return fmt.Errorf("it says %q, without %q", message, part)
		}
	}
	return nil
}

func atLeast(got, want int) error {
	if got < want {
		return fmt.Errorf("%d, not %d", got, want)
	}
	return nil
}

// awaitExists waits until an object exists, and reads it.
func (s *scene) awaitExists(object client.Object, name string) {
	s.Helper()
	s.await(fmt.Sprintf("%T %s exists", object, name), func() error { return s.find(object, name) })
}

// awaitGone waits until an object is gone.
func (s *scene) awaitGone(object client.Object, name string) {
	s.Helper()
	s.await(fmt.Sprintf("%T %s is gone", object, name), func() error { return s.isGone(object, name) })
}

func (s *scene) isGone(object client.Object, name string) error {
	err := s.find(object, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("it still exists"), err)
}

// awaitEvent waits for an event about the custom resource that has all parts in its message.
func (s *scene) awaitEvent(name, reason string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("there is an event %s about %s with %q", reason, name, parts), func() error {
		events := &corev1.EventList{}
		if err := env.Client.List(ctx, events, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Reason == reason && says(event.Message, parts) == nil {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// kubectl runs kubectl as the admin, in the namespace of the test.
func (s *scene) kubectl(stdin string, args ...string) (string, error) {
	s.Helper()
	return kit.Output(s.kubectlCommand(stdin, args...))
}

// kubectlCommand is kubectl for a goroutine, which must not fail the test itself.
func (s *scene) kubectlCommand(stdin string, args ...string) *exec.Cmd {
	s.Helper()
	kubeconfig, err := env.Kubeconfig("admin", env.Admin)
	s.must(err)
	cmd := kit.Tool(ctx, "kubectl", append([]string{"--kubeconfig", kubeconfig, "-n", s.namespace}, args...)...)
	cmd.Env = []string{"HOME=" + env.Dir}
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// write writes a file that is deleted with the test.
func (s *scene) write(name, text string) (file string) {
	s.Helper()
	file = filepath.Join(s.TempDir(), name)
	s.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

package integration

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// patience is how long something may take on a machine that has other work to do.
const patience = 30 * time.Second

// shared is the operator as it is deployed, for all namespaces. It runs while no test has one of its own.
var shared *process

// scene is a test with a namespace and operators of its own.
type scene struct {
	*testing.T
	namespace string
	operators []*process
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t}
	s.namespace = s.newNamespace("test-")
	return s
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func (s *scene) newNamespace(prefix string) string {
	s.Helper()
	name := notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(s.Name(), "Test")), "-")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + name[:min(len(name), 30)] + "-"}}
	s.must(env.client.Create(ctx, namespace))
	return namespace.Name
}

// operator returns the shared operator, ready.
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

// ownOperator returns one that ends with the test, ready. The shared one is stopped, lest both work on the same.
func (s *scene) ownOperator(settings settings) *process {
	s.Helper()
	p := s.launch(settings)
	s.await("the operator is ready", p.ready)
	return p
}

func (s *scene) launch(settings settings) *process {
	s.Helper()
	if shared != nil {
		shared.stop()
		shared = nil
	}
	p, err := launch(settings)
	s.must(err)
	s.Cleanup(p.stop)
	s.operators = append(s.operators, p)
	return p
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
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("waited %s in vain: %s: %v\n%s", patience, what, err, s.dump())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// dump is the custom resources, the events, the children and the last lines of the operators' logs.
func (s *scene) dump() string {
	var out strings.Builder
	for _, kind := range []client.ObjectList{welcomeList(), listOf("v1", "Event"), listOf("apps/v1", "Deployment"), listOf("v1", "Service"), listOf("v1", "ConfigMap")} {
		list := kind.(*unstructured.UnstructuredList)
		if err := env.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
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
		lines := strings.Split(operator.log(), "\n")
		fmt.Fprintf(&out, "--- last lines of operator %d\n", i)
		for _, line := range lines[max(0, len(lines)-40):] {
			fmt.Fprintf(&out, "%.600s\n", line)
		}
	}
	return out.String()
}

// create stores a custom resource, and has the operator delete it when the test is over.
func (s *scene) create(w *fixture) *unstructured.Unstructured {
	s.Helper()
	object := w.in(s.namespace)
	s.must(env.client.Create(ctx, object))
	return object
}

// edit changes a custom resource, whoever else writes to it.
func (s *scene) edit(name string, change func(*fixture)) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := newWelcome()
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object); err != nil {
			return err
		}
		change(&fixture{object})
		return env.client.Update(ctx, object)
	}))
}

// get reads a namespaced object, and fails if it cannot.
func (s *scene) get(object client.Object, name string) {
	s.Helper()
	s.must(env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object))
}

func (s *scene) welcome(name string) *unstructured.Unstructured {
	s.Helper()
	object := newWelcome()
	s.get(object, name)
	return object
}

// awaitDeployed waits until the operator says that the custom resource as it is now is deployed.
func (s *scene) awaitDeployed(name string) {
	s.Helper()
	s.awaitCondition(name, "Deployed", "True", "")
	s.awaitCondition(name, "Irreconcilable", "False", "")
}

// awaitCondition waits for a condition with a status and, in its message, all parts.
func (s *scene) awaitCondition(name, kind, status string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("Welcome %s has condition %s=%s with %q", name, kind, status, parts), func() error {
		condition, err := conditionOf(s.welcome(name), kind)
		if err != nil {
			return err
		}
		if condition["status"] != status {
			return fmt.Errorf("it is %v", condition)
		}
		message, _ := condition["message"].(string)
		for _, part := range parts {
			if !strings.Contains(message, part) {
				return fmt.Errorf("it says %q", message)
			}
		}
		return nil
	})
}

func atLeast(got, want int) error {
	if got < want {
		return fmt.Errorf("%d, not %d", got, want)
	}
	return nil
}

func conditionOf(object *unstructured.Unstructured, kind string) (map[string]any, error) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if condition, ok := condition.(map[string]any); ok && condition["type"] == kind {
			return condition, nil
		}
	}
	return nil, fmt.Errorf("no condition %s in %v", kind, conditions)
}

// awaitGone waits until an object does not exist.
func (s *scene) awaitGone(object client.Object, name string) {
	s.Helper()
	s.await(fmt.Sprintf("%T %s is gone", object, name), func() error {
		err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it still exists"), err)
	})
}

// awaitEvent waits for an event about the custom resource that has all parts in its message.
func (s *scene) awaitEvent(name, reason string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("there is an event %s about %s with %q", reason, name, parts), func() error {
		events := &corev1.EventList{}
		if err := env.client.List(ctx, events, client.InNamespace(s.namespace)); err != nil {
			return err
		}
	next:
		for _, event := range events.Items {
			if event.InvolvedObject.Name != name || event.Reason != reason {
				continue
			}
			for _, part := range parts {
				if !strings.Contains(event.Message, part) {
					continue next
				}
			}
			return nil
		}
		return errors.New("there is none")
	})
}

// kubectlRun runs kubectl as the admin, in the namespace of the test.
func (s *scene) kubectlRun(stdin string, args ...string) (string, error) {
	s.Helper()
	kubeconfig := env.dir + "/admin.kubeconfig"
	s.must(writeKubeconfig(kubeconfig, ""))
	cmd := exec.Command(env.kubectl, append([]string{"--kubeconfig", kubeconfig, "-n", s.namespace}, args...)...)
	cmd.Env = []string{"HOME=" + env.dir}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

package guard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// What the guard does to objects of a cluster stands in tests/integration: TestForeignObject…, TestForgedRecord.

func owner() *unstructured.Unstructured {
	o := kit.Welcome("here", "hello")
	o.SetUID("1")
	return o
}

func info(namespace string) *resource.Info {
	return &resource.Info{
		Namespace: namespace, Name: "it",
		Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Scope: meta.RESTScopeNamespace},
		Object:  &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace}}},
	}
}

func TestCheckPlace(t *testing.T) {
	g := &Guard{owner: owner()}
	if err := g.CheckPlace(info("here")); err != nil {
		t.Error(err)
	}
	for namespace, want := range map[string]string{"there": `Service "it" in namespace "there" is outside`, "": `cluster-scoped Service "it" is outside`} {
		if err := g.CheckPlace(info(namespace)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}

// A mistake in what Helm calls costs one action: Helm does so in goroutines of its own, and goes on with what
// it is answered.
func TestPanicIsAnError(t *testing.T) {
	odd := kube.ResourceList{info("here")}
	odd[0].Object = &corev1.Service{} // which Build never makes
	first := func(_ *kube.Result, errs []error) error { return errors.Join(errs...) }
	for name, act := range map[string]func(*Guard) error{
		"Build":  func(g *Guard) error { _, err := g.Build(strings.NewReader("a: b"), false); return err },
		"Create": func(g *Guard) error { _, err := g.Create(odd); return err },
		"Update": func(g *Guard) error { result, err := g.Update(nil, odd, false); _ = result.Created; return err },
		"UpdateThreeWayMerge": func(g *Guard) error {
			result, err := g.UpdateThreeWayMerge(nil, odd, false)
			_ = result.Created
			return err
		},
		"Delete":        func(g *Guard) error { return first(g.Delete(odd)) },
		"WaitForDelete": func(g *Guard) error { return g.WaitForDelete(odd, time.Second) },
		"await": func(g *Guard) error {
			return g.await(func() Awaited { return Awaited{What: "it"} }, func() bool { return false }, func() error { panic("a mistake") })
		},
	} {
		var log strings.Builder
		g := &Guard{ctx: logf.IntoContext(t.Context(), funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{})), owner: owner(), slots: NewSlots(1)}
		if err := g.slots.Take(t.Context(), g.owner.GetNamespace()); err != nil {
			t.Fatal(err)
		}
		if err := act(g); err == nil || !strings.Contains(err.Error(), "defect of the operator") {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(log.String(), "guard_test.go") {
			t.Errorf("the log does not say where %s failed: %s", name, &log)
		}
	}
}

func TestIsDenied(t *testing.T) {
	resource := schema.GroupResource{Group: "example.com", Resource: "things"}
	said := func(message string, reason metav1.StatusReason) error {
		return fmt.Errorf("patch it: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: reason, Message: message}})
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"by a webhook":                 {said(`admission webhook "a.example.com" denied the request: both are set`, metav1.StatusReasonForbidden), true},
		"by one with another reason":   {said(`admission webhook "a.example.com" denied the request without explanation`, ""), true},
		"by a policy":                  {apierrors.NewForbidden(resource, "x", errors.New("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: both are set")), true},
		"as invalid":                   {said(`admission webhook "a.example.com" denied the request: both are set`, metav1.StatusReasonInvalid), false},
		"as invalid, by a policy":      {said("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: both are set", metav1.StatusReasonInvalid), true},
		"by one that fails":            {said("policy 'a' with binding 'b' denied request: a path is missing", metav1.StatusReasonInvalid), true},
		"by one that is misconfigured": {said(`policy "a" denied request: failed to configure policy`, metav1.StatusReasonForbidden), true},
		"no right":                     {apierrors.NewForbidden(resource, "x", errors.New(`User "u" cannot patch resource "things"`)), false},
		"by nobody":                    {nil, false},
	} {
		if got := isDenied(c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAdopt(t *testing.T) {
	obj := info("here").Object.(*unstructured.Unstructured)
	obj.SetLabels(map[string]string{"a": "b", "app.kubernetes.io/managed-by": "chart"})
	obj.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "chart", "meta.helm.sh/release-namespace": "chart"})
	g := &Guard{owner: owner()}
	for range 2 { // again changes nothing
		g.adopt(obj)
	}
	if !metav1.IsControlledBy(obj, owner()) || len(obj.GetOwnerReferences()) != 1 {
		t.Errorf("owners: %v", obj.GetOwnerReferences())
	}
	if set := obj.GetLabels(); !object.ManagedBy().Matches(labels.Set(set)) || set["a"] != "b" || set["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("labels: %v", set)
	}
	if annotations := obj.GetAnnotations(); annotations["meta.helm.sh/release-name"] != owner().GetName() || annotations["meta.helm.sh/release-namespace"] != "here" {
		t.Errorf("annotations: %v", annotations)
	}
}

// Replicas that were left to whoever scales an object stay so where the chart has it in another version of its API.
func TestScaledInAnotherVersion(t *testing.T) {
	desired := kit.Object("example.com/v1", "Rollout")
	desired.SetName("a")
	live := desired.DeepCopy()
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", FieldsV1: metav1.NewFieldsV1(`{"f:spec": {"f:replicas": {}}}`)}})
	for apiVersion, want := range map[string]int{"example.com/v1": 1, "example.com/v1beta1": 1, "example.org/v1": 0} {
		g := &Guard{plan: Plan{
			Scaled:   []object.Child{{APIVersion: apiVersion, Kind: "Rollout", Name: "a"}},
			Scalable: func(*unstructured.Unstructured, bool) bool { return true },
		}}
		if left := g.leftIn(nil, live, desired); len(left) != want {
			t.Errorf("scaled as %s, %d fields are left to others, not %d", apiVersion, len(left), want)
		}
	}
}

// A rollback leaves the replicas that were left, also where the chart by now has another default than what it brings
// back; that a lost release had left them tells nothing of what is wanted by now.
func TestScaledAtARollback(t *testing.T) {
	desired := kit.Object("apps/v1", "Deployment")
	desired.SetName("a")
	desired.Object["spec"] = map[string]any{"replicas": int64(1)}
	failed, live := desired.DeepCopy(), desired.DeepCopy()
	failed.Object["spec"] = map[string]any{"replicas": int64(2)}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Subresource: "scale", FieldsV1: metav1.NewFieldsV1(`{"f:spec": {"f:replicas": {}}}`)}})
	for begins, want := range map[bool]int{false: 1, true: 0} {
		g := &Guard{rollsBack: true, plan: Plan{
			Begins:   begins,
			Scaled:   []object.Child{{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}},
			Scalable: func(*unstructured.Unstructured, bool) bool { return false },
		}}
		if left := g.leftIn(failed, live, desired); len(left) != want {
			t.Errorf("with begins %t, %d fields are left to others, not %d", begins, len(left), want)
		}
	}
}

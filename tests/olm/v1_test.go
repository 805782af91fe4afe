package olm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestV1 installs from the released catalog with OLM v1, upgrades while a visitor requests pages, checks that an
// upgrade is refused whose CRD would break Welcomes, and uninstalls as docs/olm.md says.
func TestV1(t *testing.T) {
	pushReleases(t.Context(), t)
	pushLaterCatalog(t.Context(), t)
	const ns = "welcome-operator-system"
	catalog, extension := olmV1Object("ClusterCatalog", catalogName), olmV1Object("ClusterExtension", packageName)
	t.Cleanup(func() {
		if t.Failed() {
			diagnoseV1(t)
		}
		remove(t, extension, catalog)
		remove(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kit.CRD}})
		remove(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "welcome-operator-installer"}})
		removeNamespaces(t, ns)
	})
	visitors := namespace(t, "olm-visitors", "restricted")
	var welcomes []*unstructured.Unstructured
	for i := range 5 {
		welcomes = append(welcomes, welcome(visitors, fmt.Sprintf("visitor-%d", i)))
	}

	install := func(t *testing.T) {
		t.Helper()
		applyV1(t, "clusterextension.yaml", strings.NewReplacer("\n  source:", "\n  serviceAccount: {name: installer}\n  source:"), installer)
	}
	awaitNothingLeft := func(t *testing.T) {
		t.Helper()
		awaitEnd(t, time.Minute, extension, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kit.CRD}})
		await(t, time.Minute, "end of what the operator made, and of its pods", func(ctx context.Context) error {
			left, err := children(ctx, visitors)
			if err == nil && len(left)+len(operatorPods(t, ns)) > 0 {
				err = fmt.Errorf("left: %v, and pods %v", left, operatorPods(t, ns))
			}
			return err
		})
	}

	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"installs from the catalog", func(t *testing.T) {
			applyV1(t, "clustercatalog.yaml", strings.NewReplacer("demo.welcome.domain/welcome-operator-catalog:latest", releasedCatalog))
			awaitV1(t, catalog, "Serving", metav1.ConditionTrue, "")
			install(t)
			awaitInstalled(t, extension, "0.1.0")
			run(t, "kubectl", "--namespace="+ns, "get", "networkpolicy", "welcome-operator-controller-manager") // BUNDLE_NETWORK_POLICY=true
			for _, w := range welcomes {
				create(t, w)
			}
			for _, w := range welcomes {
				awaitPage(t, w, w.GetName())
			}
		}},
		{"upgrades when the catalog has something new", func(t *testing.T) {
			proveNothingElseChanges := watchPages(t, welcomes, "the upgrade to 0.2.0")
			update(t, catalog, func() { set(t, catalog, laterCatalog, "spec", "source", "image", "ref") })
			awaitInstalled(t, extension, "0.2.0")
			proveNothingElseChanges()
		}},
		{"is held back where Welcomes would break", func(t *testing.T) {
			proveItIsHeldBack := watchOperator(t, ns, welcomes)
			update(t, extension, func() { set(t, extension, []any{"candidate-incompatible"}, "spec", "source", "catalog", "channels") })
			awaitV1(t, extension, "Progressing", metav1.ConditionTrue, `"`+kit.CRD+`": v1: ^.spec.name: maxLength`)
			proveItIsHeldBack()
			update(t, extension, func() { set(t, extension, []any{"stable"}, "spec", "source", "catalog", "channels") })
			awaitV1(t, extension, "Progressing", metav1.ConditionTrue, "desired state reached")
			awaitInstalled(t, extension, "0.2.0")
		}},
		{"is uninstalled", func(t *testing.T) {
			followDocs(t, "### Uninstall from OLM v1", ns)
			awaitNothingLeft(t)
			// OLM deletes neither of them.
			if err := api.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err != nil {
				t.Error(err)
			}
			if err := api.Get(t.Context(), keyOf(catalog), catalog); err != nil {
				t.Error(err)
			}
		}},
		{"is uninstalled while there are Welcomes", func(t *testing.T) {
			install(t)
			awaitInstalled(t, extension, "0.2.0")
			left := welcome(visitors, "left")
			create(t, left)
			awaitPage(t, left, left.GetName())
			awaitCollected(t, visitors)
			run(t, "kubectl", "delete", "clusterextension", packageName, "--wait=false")
			await(t, time.Minute, "end of the operator's pods", func(context.Context) error {
				if pods := operatorPods(t, ns); len(pods) > 0 {
					return fmt.Errorf("left: %v", pods)
				}
				return nil
			})
			followDocs(t, "### The ClusterExtension went first", ns)
			awaitNothingLeft(t)
		}},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			t.FailNow() // the next one builds on it
		}
	}
}

// installer creates the ServiceAccount with whose rights OLM v1 installs before version 1.11 (docs/olm.md).
const installer = `
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: welcome-operator-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: welcome-operator-installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: installer, namespace: welcome-operator-system}]
`

// applyV1 applies a file of catalog/ after some replacements, with further documents appended.
func applyV1(t *testing.T, file string, changes *strings.Replacer, more ...string) {
	t.Helper()
	text, err := os.ReadFile(kit.File("catalog", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := kubectl(t.Context(), changes.Replace(string(text))+strings.Join(more, ""), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// awaitV1 waits until an object has a condition whose message contains a text.
func awaitV1(t *testing.T, object *unstructured.Unstructured, name string, status metav1.ConditionStatus, text string) {
	t.Helper()
	await(t, 3*time.Minute, fmt.Sprintf("%s %s is %s=%s %s", object.GetKind(), object.GetName(), name, status, text), func(ctx context.Context) error {
		if err := api.Get(ctx, keyOf(object), object); err != nil {
			return err
		}
		condition, err := kit.Condition(object, name)
		if err == nil && (condition.Status != status || !strings.Contains(condition.Message, text)) {
			err = fmt.Errorf("conditions are %v", object.Object["status"])
		}
		return err
	})
}

// awaitInstalled waits until a version is installed, and its Deployment, for which OLM v1 does not wait, is rolled out.
func awaitInstalled(t *testing.T, extension *unstructured.Unstructured, version string) {
	t.Helper()
	await(t, 3*time.Minute, "version "+version+" is installed", func(ctx context.Context) error {
		if err := api.Get(ctx, keyOf(extension), extension); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(extension.Object, "status", "install", "bundle", "version"); got != version {
			return fmt.Errorf("it is %q, and the status %v", got, extension.Object["status"])
		}
		return nil
	})
	run(t, "kubectl", "--namespace=welcome-operator-system", "rollout", "status", "deployment/welcome-operator-controller-manager", "--timeout=180s")
}

// awaitCollected waits until Kubernetes' garbage collector watches Welcomes, up to a minute after their CRD was
// created. If Welcomes and CRD are deleted earlier, the objects that Welcomes own stay (docs/olm.md). It finds out by
// a deletion in the foreground, which ends only once the garbage collector watches the kind.
func awaitCollected(t *testing.T, ns string) {
	t.Helper()
	watched := welcome(ns, "watched")
	create(t, watched)
	run(t, "kubectl", "--namespace="+ns, "delete", "welcome", watched.GetName(), "--cascade=foreground", "--timeout=120s")
}

func set(t *testing.T, object *unstructured.Unstructured, value any, fields ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
}

func diagnoseV1(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "clustercatalogs,clusterextensions", "-o", "yaml"},
		{"-n", olmV1Namespace, "get", "pods", "-o", "wide"},
		{"-n", olmV1Namespace, "logs", "deployment/catalogd-controller-manager", "--tail=40"},
		{"-n", olmV1Namespace, "logs", "deployment/operator-controller-controller-manager", "--tail=40"},
	} {
		out, err := command(context.WithoutCancel(t.Context()), "", "kubectl", args...).CombinedOutput()
		t.Logf("kubectl %s (error: %v)\n%s", strings.Join(args, " "), err, out)
	}
}

package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestUninstall runs the commands of docs/olm.md while there are custom resources of every kind, and another
// operator in the same namespace.
func TestUninstall(t *testing.T) {
	catalog(t, releasedCatalog)
	ns := namespace(t, "olm-uninstall", "restricted")
	group(t, ns)
	subscribe(t, ns)
	awaitVersion(t, ns, "0.1.0")
	for _, example := range shown(t) {
		object := &unstructured.Unstructured{Object: example}
		object.SetNamespace(ns)
		create(t, object)
		await(t, 2*time.Minute, fmt.Sprintf("%s %s is ready", object.GetKind(), object.GetName()), func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			return kit.Ready(object)
		})
	}

	neighbour := installNeighbour(t, ns)

	followDocs(t, "## Uninstall", ns)
	if err := api.Get(t.Context(), keyOf(neighbour), neighbour); err != nil || neighbour.DeletionTimestamp != nil {
		t.Errorf("the CRD of another operator is gone, or going: %v", err)
	}
	await(t, time.Minute, "nothing to be left", func(ctx context.Context) error {
		left, err := children(ctx, ns)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %v", left)
		}
		return err
	})
	var err error
	for kind, want := range map[string]string{"csv": "neighbour.v1.0.0", "subscription": "neighbour"} {
		if left := run(t, "kubectl", "-n", ns, "get", kind, "-l", "!olm.copiedFrom", "-o", "jsonpath={.items[*].metadata.name}"); left != want {
			err = errors.Join(err, fmt.Errorf("left of kind %s: %q, not %q", kind, left, want))
		}
	}
	for _, example := range shown(t) {
		kind := (&unstructured.Unstructured{Object: example}).GroupVersionKind().GroupKind()
		if crds := run(t, "kubectl", "get", "crd", "-o", "jsonpath={range .items[*]}{.spec.names.kind}.{.spec.group} {end}"); strings.Contains(crds, kind.String()+" ") {
			err = errors.Join(err, fmt.Errorf("left: the CRD of %s", kind))
		}
	}
	if left := run(t, "kubectl", "get", "clusterrole", "-l", ofBundles, "-o", "name"); left != "" {
		err = errors.Join(err, fmt.Errorf("left: %s", left))
	}
	if err != nil {
		t.Error(err)
	}
}

// installNeighbour installs another operator in ns by a Subscription, and returns its CRD.
func installNeighbour(t *testing.T, ns string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "neighbours.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Neighbour", ListKind: "NeighbourList", Plural: "neighbours", Singular: "neighbour"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		}},
	}}
	create(t, crd)
	t.Cleanup(func() {
		remove(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}})
	})
	labels := map[string]string{"app": "neighbour"}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "neighbour.v1.0.0", Namespace: ns}, Spec: operatorsv1alpha1.ClusterServiceVersionSpec{
		DisplayName:  "Neighbour",
		InstallModes: []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
		CustomResourceDefinitions: operatorsv1alpha1.CustomResourceDefinitions{
			Owned: []operatorsv1alpha1.CRDDescription{{Name: crd.Name, Version: "v1", Kind: "Neighbour"}},
		},
		InstallStrategy: operatorsv1alpha1.NamedInstallStrategy{StrategyName: operatorsv1alpha1.InstallStrategyNameDeployment, StrategySpec: operatorsv1alpha1.StrategyDetailsDeployment{
			DeploymentSpecs: []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "neighbour", Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(0)),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}}},
			}}},
		}},
	}}
	create(t, csv)
	create(t, &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: "neighbour", Namespace: ns},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSource: catalogName, CatalogSourceNamespace: olmNamespace, Package: "neighbour", Channel: "stable"},
	})
	return crd
}

// followDocs runs the first block of commands below a heading of docs/olm.md, for an operator in ns.
func followDocs(t *testing.T, heading, ns string) {
	t.Helper()
	manual, err := os.ReadFile(kit.File("docs", "olm.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "\n"+heading+"\n")
	_, section, _ = strings.Cut(section, "```sh\n")
	commands, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatalf("docs/olm.md has no commands under %q", heading)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", strings.ReplaceAll(commands, "welcome-operator-system", ns))
	cmd.Env = append(os.Environ(), "PATH="+kit.File("bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

const (
	olmVersion   = "0.42.0"
	olmNamespace = "olm" // catalogs in it are for all namespaces
)

// installOLM applies the chart of OLM's own module, and waits until OLM has installed its package server.
func installOLM(ctx context.Context) error {
	manifests, err := renderOLM(ctx)
	if err != nil {
		return err
	}
	crds, rest := splitCRDs(manifests)
	if err := kubectl(ctx, crds, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	// kubectl wait would fail for a CRD that has no conditions yet.
	if err := waiting.For(ctx, logf, "OLM's CRDs", time.Minute, pause, established); err != nil {
		return err
	}
	if err := kubectl(ctx, rest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	return waiting.For(ctx, logf, "OLM's package server", 3*time.Minute, pause, func(ctx context.Context) error {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: olmNamespace, Name: "packageserver"}, csv); err != nil {
			return err
		}
		if csv.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("packageserver is %s: %s", csv.Status.Phase, csv.Status.Message)
		}
		return nil
	})
}

// established fails as long as a CRD of the cluster is not served.
func established(ctx context.Context) error {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := api.List(ctx, crds); err != nil {
		return err
	}
	for i := range crds.Items {
		if !apihelpers.IsCRDConditionTrue(&crds.Items[i], apiextensionsv1.Established) {
			return fmt.Errorf("CRD %s is not served yet", crds.Items[i].Name)
		}
	}
	return nil
}

// ofBundles selects the ClusterRoles that are objects of the bundle. OLM leaves them behind, and OLM v1 would
// then refuse to install the bundle.
const ofBundles = "app.kubernetes.io/part-of=welcome-operator"

// uninstallOLM removes what installOLM created, and what OLM has left behind. It removes the package server first:
// an APIService that nobody serves would keep namespaces from being deleted.
func uninstallOLM(ctx context.Context) error {
	if err := kubectl(ctx, "", "delete", "clusterrole", "-l", ofBundles); err != nil {
		return err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.SetName("packageserver")
	csv.SetNamespace(olmNamespace)
	if err := api.Delete(ctx, csv); client.IgnoreNotFound(err) != nil {
		return err
	}
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	service.SetName("v1.packages.operators.coreos.com")
	err := waiting.For(ctx, logf, "end of the API service of OLM's package server", time.Minute, pause, func(ctx context.Context) error {
		if err := api.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
			return err
		}
		if err := api.Get(ctx, client.ObjectKeyFromObject(service), service); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(errors.New("it is still there"), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	manifests, err := renderOLM(ctx)
	if err != nil {
		return err
	}
	return kubectl(ctx, manifests, "delete", "--ignore-not-found", "--timeout=120s", "-f", "-")
}

// renderOLM renders a copy of the chart with a version: the module has a placeholder there, and OLM reports the
// chart's version as its own.
func renderOLM(ctx context.Context) (string, error) {
	module, err := moduleDir(ctx, "tools/olm", "github.com/operator-framework/operator-lifecycle-manager")
	if err != nil {
		return "", err
	}
	deploy := filepath.Join(module, "deploy")
	dir, err := os.MkdirTemp("", "olm-chart")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	chart := filepath.Join(dir, "chart")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(deploy, "chart"))); err != nil {
		return "", err
	}
	definition := fmt.Sprintf("apiVersion: v2\nname: olm\nversion: %s\n", olmVersion)
	if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte(definition), 0o644); err != nil {
		return "", err
	}
	helm := command(ctx, dir, "helm", "template", "olm", chart, "--namespace", olmNamespace, "--include-crds",
		"--values", filepath.Join(deploy, "upstream", "values.yaml"),
		"--set", "installType=test", // "upstream" would add a catalog that cannot be reached
		"--set", "olm.image.ref="+olmImage, "--set", "catalog.image.ref="+olmImage, "--set", "package.image.ref="+olmImage,
		"--set", "package.image.pullPolicy=IfNotPresent", "--set", "package.replicaCount=1",
		"--set", "catalog.opmImageArgs=--opmImage="+opmImage)
	manifests, err := kit.Output(helm)
	if err != nil {
		return "", fmt.Errorf("render OLM's chart: %w", err)
	}
	return manifests, nil
}

// moduleDir is the directory of a module's sources, in the version that a tool set pins.
func moduleDir(ctx context.Context, tools, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", module)
	list.Dir = kit.File(tools)
	dir, err := kit.Output(list)
	if err != nil {
		return "", fmt.Errorf("find the module %s: %w", module, err)
	}
	return dir, nil
}

// splitCRDs returns the CRDs of manifests, and the rest: an object cannot be applied before its CRD.
func splitCRDs(manifests string) (crds, rest string) {
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		if strings.Contains(document, "\nkind: CustomResourceDefinition\n") {
			crds += document + "\n---\n"
		} else {
			rest += document + "\n---\n"
		}
	}
	return crds, rest
}

func kubectl(ctx context.Context, stdin string, args ...string) error {
	cmd := command(ctx, "", "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	_, err := kit.Output(cmd)
	return err
}

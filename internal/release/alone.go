package release

import (
	"io"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// A chart is rendered alone if the cluster is asked nothing: lookup finds nothing, and the capabilities are those that
// are known.

// render renders a revision of a chart for owner, alone, with a spec and the overrides.
func (c *Capabilities) render(owner metav1.Object, chrt *chart.Chart, overrides map[string]string, spec map[string]any, revision int) (*release.Release, error) {
	if err := Pin(owner, spec, overrides); err != nil {
		return nil, err
	}
	capabilities := c.get()
	return renderWith(owner, chrt, spec, &capabilities.KubeVersion, capabilities.APIVersions, revision)
}

// renderWith renders revision 1, which is an installation, or a later one, which is an upgrade. Helm's installation
// knows no other revision, and its upgrade wants to find the one before.
func renderWith(owner metav1.Object, chrt *chart.Chart, spec map[string]any, version *chartutil.KubeVersion, apis chartutil.VersionSet, revision int) (*release.Release, error) {
	config := &action.Configuration{Log: func(string, ...any) {}}
	if revision == 1 {
		install := action.NewInstall(config)
		install.ClientOnly, install.DryRun = true, true
		install.ReleaseName, install.Namespace = owner.GetName(), owner.GetNamespace()
		install.KubeVersion, install.APIVersions = version, apis
		return install.Run(Private(chrt), spec)
	}
	config.Capabilities = &chartutil.Capabilities{KubeVersion: *version, APIVersions: apis, HelmVersion: chartutil.DefaultCapabilities.HelmVersion}
	config.KubeClient = &fake.PrintingKubeClient{Out: io.Discard}
	nowhere := driver.NewMemory()
	nowhere.SetNamespace(owner.GetNamespace())
	config.Releases = storage.Init(nowhere)
	if err := config.Releases.Create(&release.Release{Name: owner.GetName(), Namespace: owner.GetNamespace(), Version: revision - 1, Info: &release.Info{Status: release.StatusDeployed}}); err != nil {
		return nil, err
	}
	upgrade := action.NewUpgrade(config)
	upgrade.DryRun, upgrade.Namespace = true, owner.GetNamespace()
	return upgrade.Run(owner.GetName(), Private(chrt), spec)
}

// Made are the objects, hooks among them, that a chart makes for owner from a spec. Each has a namespace,
// owner's if the chart sets none, unless mapper knows its kind as cluster-scoped.
func (c *Capabilities) Made(mapper meta.RESTMapper, owner metav1.Object, chrt *chart.Chart, overrides map[string]string, spec map[string]any) ([]*unstructured.Unstructured, error) {
	rel, err := c.render(owner, chrt, overrides, spec, 1)
	if err != nil {
		return nil, err
	}
	all := rel.Manifest
	for _, hook := range rel.Hooks {
		all += "\n---\n" + hook.Manifest
	}
	objects, err := object.Documents(strings.NewReader(all))
	for _, obj := range objects {
		if inNoNamespace(obj.GroupVersionKind(), mapper) {
			obj.SetNamespace("")
		} else if obj.GetNamespace() == "" {
			obj.SetNamespace(owner.GetNamespace())
		}
	}
	return objects, err
}

// inNoNamespace is whether mapper knows that objects of a kind are cluster-scoped.
func inNoNamespace(gvk schema.GroupVersionKind, mapper meta.RESTMapper) bool {
	namespaced, err := apiutil.IsGVKNamespaced(gvk, mapper)
	return err == nil && !namespaced
}

// renderAlone renders the kind's chart for the owner.
func (op *operation) renderAlone(spec map[string]any, revision int) (*release.Release, error) {
	rel, err := op.clients.capabilities.render(op.client.owner, op.Chart, op.Overrides, spec, revision)
	return rel, op.told(err)
}

package render

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Renderer renders what the operator would deploy.
type Renderer struct {
	Chart *chart.Chart
	// overrides are the overrideValues of watches.yaml, which win over the spec.
	overrides map[string]string
}

// LoadRenderer reads the first entry of watches.yaml in root, the root of the repository.
func LoadRenderer(root string) (*Renderer, error) {
	entries, err := kit.Read[[]operator.Entry](filepath.Join(root, "watches.yaml"))
	if err != nil {
		return nil, err
	}
	chrt, err := loader.Load(filepath.Join(root, entries[0].ChartPath))
	if err != nil {
		return nil, err
	}
	return &Renderer{Chart: chrt, overrides: entries[0].OverrideValues}, nil
}

// Render returns the release that the operator would install for a stored object. ${VARIABLES} in
// overrideValues come from the environment, as in the operator.
func (r *Renderer) Render(object *unstructured.Unstructured) (*release.Release, error) {
	spec, ok := object.DeepCopy().Object["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("no spec: the API server would have added one")
	}
	for key, value := range r.overrides {
		if err := strvals.ParseInto(key+"="+os.ExpandEnv(value), spec); err != nil {
			return nil, fmt.Errorf("override %s: %w", key, err)
		}
	}
	values, err := chartutil.CoalesceValues(r.Chart, spec)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ClientOnly = true
	install.DryRun = true
	install.ReleaseName = object.GetName()
	install.Namespace = object.GetNamespace()
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	return install.Run(r.Chart, values)
}

package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Renderer renders what the operator would deploy.
type Renderer struct {
	Chart *chart.Chart
	// overrides are the overrideValues of watches.yaml, which win over the spec.
	overrides map[string]string
}

// LoadRenderer reads the first entry of watches.yaml in root, the root of the repository.
func LoadRenderer(root string) (*Renderer, error) {
	file := filepath.Join(root, "watches.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var entries []watches.Watch
	if err := yaml.UnmarshalStrict(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	chrt, err := loader.Load(filepath.Join(root, entries[0].ChartPath))
	if err != nil {
		return nil, err
	}
	return &Renderer{Chart: chrt, overrides: entries[0].OverrideValues}, nil
}

// Render returns the release that the operator would install for a stored object. ${VARIABLES} in overrideValues come from the
// environment, as in the operator.
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
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.35.4", Major: "1", Minor: "35"}
	return install.Run(r.Chart, values)
}

// Objects decodes a manifest.
func Objects(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

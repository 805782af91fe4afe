package main

import (
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/operator"
)

const samplesDir = "config/samples"

// samplesOf are the specs of the samples of a kind.
func samplesOf(entry operator.Entry) ([]map[string]any, error) {
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var specs []map[string]any
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var sample unstructured.Unstructured
		if err := yaml.Unmarshal(text, &sample.Object); err != nil {
			return nil, err
		}
		if spec, ok := sample.Object["spec"].(map[string]any); ok && sample.GroupVersionKind() == entry.GroupVersionKind {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

var (
	// releasedCatalog is what `make catalog-build catalog-push` made of template.yaml.
	releasedCatalog = registry + "/welcome-operator-catalog:latest"
	// laterCatalog also has the releases of the tests.
	laterCatalog = registry + "/welcome-operator-catalog:later"
)

// pushLaterCatalog adds the releases of the tests to the repository's template, one upgrade to each channel.
func pushLaterCatalog(ctx context.Context, t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(kit.File("tests", "olm", "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.ReplaceAll(string(content), "demo.welcome.domain/welcome-operator-bundle", registry+"/welcome-operator-bundle"))
	var template struct {
		Schema  string           `json:"schema"`
		Entries []map[string]any `json:"entries"`
	}
	if err := yaml.Unmarshal(content, &template); err != nil {
		t.Fatal(err)
	}
	for _, entry := range template.Entries {
		if entry["schema"] == "olm.channel" {
			entry["entries"] = append(entry["entries"].([]any), channelEntry("0.2.0", "0.1.0"))
		}
	}
	for channel, versions := range map[string][2]string{
		"fast":                         {"0.3.0", "0.2.0"},
		"candidate-incompatible":       {"0.4.0", "0.3.0"},
		"candidate-other-architecture": {"0.5.0", "0.3.0"},
	} {
		template.Entries = append(template.Entries, map[string]any{
			"schema": "olm.channel", "package": packageName, "name": channel,
			"entries": []any{
				map[string]any{"name": csvName(versions[1])},
				channelEntry(versions[0], versions[1]),
			},
		})
	}
	for _, r := range releases {
		template.Entries = append(template.Entries, map[string]any{"schema": "olm.bundle", "image": bundleImage(r.version)})
	}
	if content, err = yaml.Marshal(template); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "template.yaml")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	rendered := run(t, "opm", "alpha", "render-template", "basic", "-o", "yaml", file)
	configs := filepath.Join(dir, "configs", packageName)
	if err := os.MkdirAll(configs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(configs, "catalog.yaml"), []byte(rendered), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	run(t, "opm", "validate", filepath.Join(dir, "configs"))
	image, err := dataImage(dir, catalogLabels)
	if err != nil {
		t.Fatal(err)
	}
	if err := push(ctx, laterCatalog, image); err != nil {
		t.Fatal(err)
	}
}

func channelEntry(version, replaced string) map[string]any {
	return map[string]any{"name": csvName(version), "replaces": csvName(replaced), "skipRange": "<" + version}
}

// catalog serves image as catalog/catalogsource.yaml says, until the test ends.
func catalog(t *testing.T, image string) *operatorsv1alpha1.CatalogSource {
	t.Helper()
	released, err := kit.Read[operatorsv1alpha1.CatalogSource](kit.File("catalog/catalogsource.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	source := &released
	source.Spec.Image = image
	create(t, source)
	t.Cleanup(func() { removeCatalog(t, metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}) })
	awaitCatalog(t, source)
	return source
}

// removeCatalog also waits for the objects that OLM created for the catalog. Kubernetes deletes them later, and
// a new catalog of the same name would take them for its own.
func removeCatalog(t *testing.T, meta metav1.ObjectMeta) {
	t.Helper()
	remove(t, &operatorsv1alpha1.CatalogSource{ObjectMeta: meta})
	await(t, 2*time.Minute, "end of the service and the pods of catalog "+meta.Name, func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKey{Namespace: meta.Namespace, Name: meta.Name}, &corev1.Service{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the service is still there"), err)
		}
		pods := &corev1.PodList{}
		if err := api.List(ctx, pods, client.InNamespace(meta.Namespace), client.MatchingLabels{"olm.catalogSource": meta.Name}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are still there", len(pods.Items))
		}
		return nil
	})
}

func awaitCatalog(t *testing.T, source *operatorsv1alpha1.CatalogSource) {
	t.Helper()
	image := source.Spec.Image
	await(t, 2*time.Minute, "catalog "+image, func(ctx context.Context) error {
		if err := api.Get(ctx, keyOf(source), source); err != nil {
			return err
		}
		state := source.Status.GRPCConnectionState
		if state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("the connection is %+v: %s", state, source.Status.Message)
		}
		return nil
	})
}

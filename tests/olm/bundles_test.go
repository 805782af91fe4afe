package olm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	csvFile = "manifests/welcome-operator.clusterserviceversion.yaml"
	crdFile = "manifests/webapp.demo.welcome.domain_welcomes.yaml"
)

// release is a version of the bundle that exists in these tests only: 0.1.0 with changes.
type release struct {
	version string
	// operand is the tag of the page's image, by default that of 0.1.0.
	operand string
	editCSV func(csv *operatorsv1alpha1.ClusterServiceVersion)
	editCRD func(crd *apiextensionsv1.CustomResourceDefinition)
}

// The releases of the tests. Each has an operator image of its own, so that an upgrade is a real one.
var releases = []release{
	{version: "0.2.0"},
	{version: "0.3.0", operand: "v0.3.0"},
	{version: "0.4.0", editCRD: forbidNames},
	{version: "0.5.0", editCSV: requireAnotherArchitecture},
}

// forbidNames makes a CRD that refuses Welcomes that exist.
func forbidNames(crd *apiextensionsv1.CustomResourceDefinition) {
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	greeted := spec.Properties["name"]
	greeted.MaxLength = new(int64)
	spec.Properties["name"] = greeted
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
}

func requireAnotherArchitecture(csv *operatorsv1alpha1.ClusterServiceVersion) {
	affinity := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Affinity.NodeAffinity
	for _, term := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for i := range term.MatchExpressions {
			if term.MatchExpressions[i].Key == "kubernetes.io/arch" {
				term.MatchExpressions[i].Values = []string{"s390x"}
			}
		}
	}
}

func bundleImage(version string) string { return registry + "/welcome-operator-bundle:v" + version }

// pushReleases pushes the images and the bundles of the releases.
func pushReleases(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, r := range releases {
		if err := r.push(ctx, t.TempDir()); err != nil {
			t.Fatalf("release %s: %v", r.version, err)
		}
	}
}

func (r release) push(ctx context.Context, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(bundleDir)); err != nil {
		return err
	}
	operator, err := relabelled(ctx, "welcome-operator", "v0.1.0", "v"+r.version)
	if err != nil {
		return err
	}
	var operand string
	if r.operand != "" {
		if operand, err = relabelled(ctx, "welcome", "v0.1.0", r.operand); err != nil {
			return err
		}
	}
	err = edit(filepath.Join(dir, csvFile), func(csv *operatorsv1alpha1.ClusterServiceVersion) {
		csv.SetName("welcome-operator.v" + r.version)
		if err = csv.Spec.Version.UnmarshalJSON([]byte(`"` + r.version + `"`)); err != nil {
			return
		}
		csv.Annotations["olm.skipRange"] = "<" + r.version
		manager := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
		manager.Image = operator
		if operand != "" {
			setEnv(manager, "RELATED_IMAGE_WELCOME", operand)
		}
		if r.editCSV != nil {
			r.editCSV(csv)
		}
	})
	if err != nil {
		return err
	}
	if r.editCRD != nil {
		if err := edit(filepath.Join(dir, crdFile), r.editCRD); err != nil {
			return err
		}
	}
	labels, err := bundleLabels(dir)
	if err != nil {
		return err
	}
	image, err := dataImage(dir, labels)
	if err != nil {
		return err
	}
	return push(ctx, bundleImage(r.version), image)
}

// edit rewrites a YAML file through its type.
func edit[T any](path string, change func(*T)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	object := new(T)
	if err := yaml.Unmarshal(content, object); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	change(object)
	if content, err = yaml.Marshal(object); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func setEnv(container *corev1.Container, name, value string) {
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value = value
		}
	}
}

// bundleLabels are the annotations of a bundle, which OLM reads from the image's labels.
func bundleLabels(dir string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
	if err != nil {
		return nil, err
	}
	var metadata struct{ Annotations map[string]string }
	return metadata.Annotations, yaml.Unmarshal(content, &metadata)
}

// relabelled pushes the image of repository with tag from again, with tag to and another label, so that its
// digest differs. It returns the image by that digest.
func relabelled(ctx context.Context, repository, from, to string) (string, error) {
	source, err := name.NewTag(registry + "/" + repository + ":" + from)
	if err != nil {
		return "", err
	}
	image, err := remote.Image(source, remote.WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("pull %s: %w", source, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", err
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels["org.opencontainers.image.version"] = strings.TrimPrefix(to, "v")
	var changed v1.Image
	if changed, err = mutate.ConfigFile(image, config); err != nil {
		return "", err
	}
	target := registry + "/" + repository + ":" + to
	if err := push(ctx, target, changed); err != nil {
		return "", err
	}
	digest, err := changed.Digest()
	if err != nil {
		return "", err
	}
	return registry + "/" + repository + "@" + digest.String(), nil
}

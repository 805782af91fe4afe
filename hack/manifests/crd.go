package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/status"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

var (
	vowelAndY = regexp.MustCompile(`[aeiou]y$`)
	hisses    = regexp.MustCompile(`(ch|sh|x)$`)
)

// resourceOf is what the API calls the objects of a kind: networkpolicies, ingresses, gateways, meshes. Of
// these, the library guesses gatewaies and meshs.
func resourceOf(gvk schema.GroupVersionKind) string {
	resource, singular := meta.UnsafeGuessKindToResource(gvk)
	switch {
	case vowelAndY.MatchString(singular.Resource):
		return singular.Resource + "s"
	case hisses.MatchString(singular.Resource):
		return singular.Resource + "es"
	}
	return resource.Resource
}

// newCRD puts the CRD of a kind together: the spec is the chart's, all else is the same for every kind of this operator.
func newCRD(entry operator.Entry, api *API, spec apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	gvk := entry.GroupVersionKind
	longest := entry.ReleaseName.MaxLength(gvk.Kind)
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Kind:       gvk.Kind,
		ListKind:   gvk.Kind + "List",
		Plural:     cmp.Or(api.crd.Plural, resourceOf(gvk)),
		Singular:   strings.ToLower(gvk.Kind),
		ShortNames: api.crd.ShortNames,
		Categories: []string{"all", obj.Category},
	}
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name:    gvk.Version,
		Served:  true,
		Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Description: api.crd.Description,
			Type:        "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"apiVersion": {Type: "string"},
				"kind":       {Type: "string"},
				"metadata":   {Type: "object"},
				"spec":       spec,
				"status":     statusSchema(),
			},
			// The name becomes the name of the Helm release (at most 53 characters, with what releaseName
			// adds) and of a Service (a DNS-1035 label).
			XValidations: apiextensionsv1.ValidationRules{{
				Rule:    fmt.Sprintf("self.metadata.name.matches(r'^[a-z]([-a-z0-9]{0,%d}[a-z0-9])?$')", longest-2),
				Message: fmt.Sprintf("metadata.name becomes the name of a Service and of a Helm release: write at most %d lowercase letters, digits and '-', with a letter first and no '-' at the end", longest),
			}},
		}},
		Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		AdditionalPrinterColumns: api.crd.AdditionalPrinterColumns,
	}
	if isCount(spec.Properties["replicas"].Default) && api.scalable {
		version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath:   replicasPath,
			StatusReplicasPath: ".status.replicas",
			LabelSelectorPath:  new(".status.selector"),
		}
		version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns, column("Replicas", "integer", replicasPath, "Pods wanted.", 0))
		if api.trial.Workloads > 0 { // pods of CronJobs come and go, uncounted
			version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns, column("Available", "integer", ".status.readyReplicas", "Pods that are ready.", 1))
		}
	}
	version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns,
		column("Ready", "string", `.status.conditions[?(@.type=="Ready")].status`, "Whether all is as the spec says.", 0),
		column("Reason", "string", `.status.conditions[?(@.type=="Ready")].reason`, "Why it is ready or not.", 1))
	if api.hasPage() {
		version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns, column("URL", "string", ".status.url", "Where it is reached.", 0))
	}
	version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns,
		column("Release", "integer", ".status.release.revision", "Revision of the Helm release.", 1),
		column("Age", "date", ".metadata.creationTimestamp", "Time since its creation.", 0))
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: names.Plural + "." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    gvk.Group,
			Names:    names,
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
		},
	}
}

// hasPage is whether a custom resource may have a status.url.
func (a *API) hasPage() bool {
	return slices.ContainsFunc(a.kinds, func(m infer.Made) bool {
		return slices.ContainsFunc(m.Objects, func(v infer.Variant) bool { return status.HasPage(v.Object) })
	})
}

// column of `kubectl get`; one of priority 1 shows with `-o wide` only.
func column(name, typ, path, description string, priority int32) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: typ, JSONPath: path, Description: description, Priority: priority}
}

// validate asks the API server's own code whether it would take the CRD: structural schema, defaults, and the CEL rules with
// their cost.
func validate(crd *apiextensionsv1.CustomResourceDefinition) error {
	crd = crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	// The API server sets this before it validates.
	for _, version := range crd.Spec.Versions {
		crd.Status.StoredVersions = append(crd.Status.StoredVersions, version.Name)
	}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil); err != nil {
		return err
	}
	return validation.ValidateCustomResourceDefinition(context.Background(), &internal).ToAggregate()
}

// manifestOf is an object as people apply it: its status is the API server's to write.
func manifestOf(object any) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	return yaml.Marshal(content)
}

func writeCRD(file string, api *API, crd *apiextensionsv1.CustomResourceDefinition) error {
	manifest, err := manifestOf(crd)
	if err != nil {
		return err
	}
	header := fmt.Sprintf("# Generated by `make manifests` from %s, values.yaml and watches.yaml. Edit those.\n", api.schemaFile)
	if api.inferred {
		header = fmt.Sprintf("# Generated by `make manifests` from %s and watches.yaml. Edit those.\n", api.schemaFile)
	}
	if len(api.left) > 0 {
		header += "# No fields, unless allow.values in watches.yaml lists them:\n"
	}
	for _, left := range api.left {
		header += fmt.Sprintf("# - %s: %s\n", terminal.Line(left.Path), terminal.Line(left.Why))
	}
	if len(api.broken) > 0 {
		header += "# The chart can't be rendered with these, and nothing else:\n"
	}
	for _, broken := range api.broken {
		header += fmt.Sprintf("# - %s: %s\n", terminal.Line(broken.Path), terminal.Line(broken.Why))
	}
	return os.WriteFile(file, append([]byte(header), manifest...), 0o644)
}

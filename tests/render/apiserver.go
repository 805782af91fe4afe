// Package render shows what a Welcome becomes without a cluster: what the API server would store of it, or
// why it would refuse it, and the objects that the operator's chart renders from that. It calls the API
// server's own code and Helm's.
package render

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// API is a kind as an API server serves it.
type API struct {
	// Schema of a whole object, as in the CRD.
	Schema     apiextensionsv1.JSONSchemaProps
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// LoadAPI reads a CRD with one version.
func LoadAPI(file string) (*API, error) {
	crd, err := kit.Read[apiextensionsv1.CustomResourceDefinition](file)
	if err != nil {
		return nil, err
	}
	api := &API{Schema: *crd.Spec.Versions[0].Schema.OpenAPIV3Schema}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&api.Schema, &internal, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if api.structural, err = structuralschema.NewStructural(&internal); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if api.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	api.rules = cel.NewValidator(api.structural, true, celconfig.PerCallLimit)
	return api, nil
}

// Admit turns object into what the API server would store of it when it is created by a client that does not ask for strict
// field validation, or says why it would be refused.
func (a *API) Admit(object *unstructured.Unstructured) error {
	content := object.Object
	defaulting.PruneNonNullableNullsWithoutDefaults(content, a.structural)
	defaulting.Default(content, a.structural)
	pruning.Prune(content, a.structural, true)

	errs := metavalidation.ValidateObjectMetaAccessor(object, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, content, a.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, a.structural, content)...)
	if len(errs) == 0 {
		ruleErrs, _ := a.rules.Validate(context.Background(), nil, a.structural, content, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, ruleErrs...)
	}
	return errs.ToAggregate()
}

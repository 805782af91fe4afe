package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// offered is what custom resources and releases in a cluster may depend on: the specs and versions of kinds, by
// the names of their CRDs, and the resources whose objects the operator may make and delete.
type offered struct {
	specs     map[string]apiextensionsv1.JSONSchemaProps
	versions  map[string]string
	resources map[string]bool
}

// telling calls do, and then tells what the manifests of this operator, or of the one in into, no longer offer. It does so
// even if do fails: by then, a CRD may be written, and the next run would not know what it was before.
func telling(out io.Writer, into string, do func() error) error {
	before, err := offeredBy(into)
	if err != nil {
		return err
	}
	err = do()
	after, again := offeredBy(into)
	if again == nil {
		_, again = io.WriteString(out, before.lost(after))
	}
	return errors.Join(err, again)
}

// offeredBy reads the CRDs and the operator's roles. What is no YAML, as after a conflict in git, says
// nothing: it is written anew.
func offeredBy(into string) (offered, error) {
	found := offered{map[string]apiextensionsv1.JSONSchemaProps{}, map[string]string{}, map[string]bool{}}
	files := []string{filepath.Join(rightsDir, roleFile), filepath.Join(rightsDir, clusterRoleFile)}
	crds, err := filepath.Glob(filepath.Join(crdDir, "bases", "*.yaml"))
	if err != nil {
		return found, err
	}
	files = append(files, crds...)
	if into != "" {
		files = []string{filepath.Join(into, "operator.yaml")}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			found.add([]byte(document))
		}
	}
	return found, nil
}

// add notes what a document of YAML offers.
func (o offered) add(document []byte) {
	var crd apiextensionsv1.CustomResourceDefinition
	var role rbacv1.ClusterRole
	switch {
	case yaml.Unmarshal(document, &crd) == nil && crd.Kind == "CustomResourceDefinition":
		for _, version := range crd.Spec.Versions { // there is one
			if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
				o.specs[crd.Name], o.versions[crd.Name] = version.Schema.OpenAPIV3Schema.Properties["spec"], version.Name
			}
		}
	case yaml.Unmarshal(document, &role) == nil && role.Kind == "ClusterRole":
		for _, rule := range role.Rules {
			// Those to make what charts make have these verbs, in any name; those that are handed out, or are
			// people's, have others. Any on Secrets is there with secrets: true only, and has update, for
			// records.
			ofSecrets := slices.Equal(rule.Resources, []string{"secrets"}) && slices.Equal(rule.APIGroups, []string{""})
			if len(rule.ResourceNames) > 0 || !slices.Equal(rule.Verbs, childVerbs()) && !ofSecrets {
				continue
			}
			for _, resource := range rule.Resources {
				o.resources[strings.TrimSuffix(resource+"."+strings.Join(rule.APIGroups, ","), ".")] = true
			}
		}
	}
}

// lost is what custom resources and releases may have that what was generated after has no place for.
func (o offered) lost(after offered) (text string) {
	for _, crd := range slices.Sorted(maps.Keys(o.specs)) {
		spec, ok := after.specs[crd]
		if !ok {
			continue // the kind was taken away
		}
		if was, is := o.versions[crd], after.versions[crd]; was != is {
			text += fmt.Sprintf("\nWARNING: the CRD %s has the version %s, and no longer %s.\n"+
				"A cluster that has stored custom resources as %[3]s refuses this CRD: docs/upgrade.md#another-version-of-a-kind\n", crd, is, was)
		}
		fields := lostFieldsOf(o.specs[crd], spec, "spec")
		for i := range fields { // a chart may name a field anything
			fields[i] = terminal.Line(fields[i])
		}
		if len(fields) > 0 {
			text += fmt.Sprintf("\nWARNING: the CRD %s takes less than before:\n  %s\n"+
				"Once it is in a cluster, what custom resources have set in a field that is gone is lost for good, and of another type it no longer passes an edit.\n"+
				"Who has some: kubectl get %[1]s --all-namespaces --output json. Have it moved before, or keep the field for a version: docs/upgrade.md#what-a-chart-no-longer-has\n",
				crd, strings.Join(fields, "\n  "))
		}
	}
	var resources []string
	for _, resource := range slices.Sorted(maps.Keys(o.resources)) {
		if !after.resources[resource] {
			resources = append(resources, resource)
		}
	}
	if len(resources) > 0 {
		text += fmt.Sprintf("\nWARNING: the operator may no longer make and delete %s.\n"+
			"What releases have of these, no upgrade can delete then. Leave it the right for a version: docs/upgrade.md#what-a-chart-no-longer-has\n", terminal.Line(strings.Join(resources, ", ")))
	}
	return text
}

// isWider is whether a type takes all that another one does.
func isWider(was, is string) bool {
	return was == "integer" && is == "number" || is == integerOrString && (was == "integer" || was == "string")
}

// lostFieldsOf are what a schema lets authors write and another one does not, by path: fields that are gone
// or have another type. Bounds are none of it: what is beyond them stays until it is edited.
func lostFieldsOf(before, after apiextensionsv1.JSONSchemaProps, path string) (fields []string) {
	was, is := typeIn(before), typeIn(after)
	switch {
	case is == anyType:
		return nil
	case was != is && !isWider(was, is):
		return []string{fmt.Sprintf("%s: %s before, %s now", path, was, is)}
	case anyKeyIn(before) != nil && anyKeyIn(after) == nil:
		return []string{path + ": any key before, only some now"}
	}
	if before.Items != nil && before.Items.Schema != nil && after.Items != nil {
		fields = append(fields, lostFieldsOf(*before.Items.Schema, *after.Items.Schema, path+"[]")...)
	}
	ofAnyKey := anyKeyIn(after)
	if free := anyKeyIn(before); free != nil { // and so it is after
		fields = append(fields, lostFieldsOf(*free, *ofAnyKey, path+".*")...)
	}
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		property, ok := after.Properties[name]
		switch {
		case !ok && ofAnyKey != nil:
			property = *ofAnyKey
		case !ok:
			fields = append(fields, path+"."+name+": gone")
			continue
		}
		fields = append(fields, lostFieldsOf(before.Properties[name], property, path+"."+name)...)
	}
	return fields
}

const anyType, integerOrString = "anything", "integer or string"

func typeIn(schema apiextensionsv1.JSONSchemaProps) string {
	if schema.XIntOrString {
		return integerOrString
	}
	return cmp.Or(schema.Type, anyType)
}

// anyKeyIn is the schema of what is under keys that a schema does not name, nil if it takes none.
func anyKeyIn(schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	switch {
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return schema.AdditionalProperties.Schema
	case schema.AdditionalProperties != nil, schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields:
		return &apiextensionsv1.JSONSchemaProps{}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
)

// A shard that has claimed nothing yet serves what the others do, as far as is known.
func TestShardThatServesNothingYet(t *testing.T) {
	kind := schema.GroupKind{Group: welcomes.Group, Kind: "Welcome"}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: kind.Group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind}}}
	p := &patient{operators: []operator{
		{options: boot.Options{Shard: "a"}, serves: sets.New(kind)}, {options: boot.Options{Shard: "b"}}, {options: boot.Options{}},
	}}
	serving, err := p.serving([]*apiextensionsv1.CustomResourceDefinition{crd})
	if err != nil || len(serving) != 2 || serving[1].options.Shard != "b" {
		t.Errorf("%v, %v", serving, err)
	}
}

func TestDiffering(t *testing.T) {
	schema := func(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Properties: properties}}}
	}
	a := schema(map[string]apiextensionsv1.JSONSchemaProps{"same": {Type: "string"}, "other": {Type: "string"}, "old": {}})
	b := schema(map[string]apiextensionsv1.JSONSchemaProps{"same": {Type: "string"}, "other": {Type: "integer"}, "new": {}})
	if got := differing("", a, b); !slices.Equal(got, []string{"spec.new", "spec.old", "spec.other"}) {
		t.Error(got)
	}
}

func TestQuestions(t *testing.T) {
	o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: "a,b"})
	objects, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	in, named := map[string]int{}, map[string]bool{}
	for _, need := range objects {
		for _, review := range questions(need, objects, o) {
			in[review.Spec.ResourceAttributes.Namespace]++
			named[review.Spec.ResourceAttributes.Resource+"/"+review.Spec.ResourceAttributes.Name] = true
			if review.Spec.User != "system:serviceaccount:operators:account" {
				t.Fatal(review.Spec.User)
			}
			if review.Spec.ResourceAttributes.Resource == "welcomes" && review.Spec.ResourceAttributes.Verb == "deletecollection" {
				t.Error("the roles for people are not the operator's")
			}
		}
	}
	if in["a"] < 20 || in["a"] != in["b"] || in["operators"] == 0 || in[""] != 0 {
		t.Errorf("questions by namespace: %v", in)
	}
	if !named["configmaps/"+boot.LeaderElectionID+"-b"] || named["configmaps/"+boot.LeaderElectionID] {
		t.Errorf("a shard publishes under a name of its own: %v", named)
	}
}

// A right on several objects by name is checked for each name, and the missing one is named.
func TestRightsOnNames(t *testing.T) {
	objects, err := object.Documents(strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: publish}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [first, second], verbs: [create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: publish}
roleRef: {kind: Role, name: publish}
`))
	if err != nil {
		t.Fatal(err)
	}
	api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
		review := obj.(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = review.Spec.ResourceAttributes.Name == "first"
		return nil
	}})
	_, found, err := rightsSuffice(context.Background(), &patient{cluster: &cluster{}, Client: api, needs: objects, operators: []operator{watching()}})
	if err != nil || len(found) != 1 || found[0].problem != `system:serviceaccount:operators:account may not create, patch configmaps second in namespace operators` {
		t.Errorf("%v, %v", found, err)
	}
	if !strings.HasPrefix(found[0].remedy, "make deploy BASE=config/shards (with IMG and OPERAND_IMG as before)") {
		t.Errorf("of a shard: %s", found[0].remedy)
	}
}

// Each watched namespace is asked about, and one right that is missing in many is one problem.
func TestRightsInManyNamespaces(t *testing.T) {
	objects, err := object.Documents(strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules: [{apiGroups: ["", apps], resources: [services, deployments], verbs: [list, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {kind: ClusterRole, name: manager}
`))
	if err != nil {
		t.Fatal(err)
	}
	var watched []string
	for i := range 30 {
		watched = append(watched, fmt.Sprint("team-", i))
	}
	for name, test := range map[string]struct {
		lacks func(*authorizationv1.ResourceAttributes) bool
		want  string
	}{
		"the last": {func(right *authorizationv1.ResourceAttributes) bool {
			return right.Namespace == "team-29" && right.Resource == "services" && right.Group == ""
		}, "account may not list, create services in namespace team-29"},
		"all": {func(right *authorizationv1.ResourceAttributes) bool {
			return right.Verb == "list" && right.Group == "apps" && right.Resource == "deployments"
		}, "account may not list deployments.apps in namespace team-0, team-1, team-10, team-11, team-12, 25 more"},
	} {
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			review := obj.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = !test.lacks(review.Spec.ResourceAttributes)
			return nil
		}})
		o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: strings.Join(watched, ",")})
		_, found, err := rightsSuffice(t.Context(), &patient{cluster: &cluster{}, Client: api, needs: objects, operators: []operator{o}})
		if err != nil || len(found) != 1 || !strings.HasSuffix(found[0].problem, test.want) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// Where the operators serve other kinds than Welcome, nothing about Welcome's CRD and rights is wrong.
func TestOperatorsOfOtherKinds(t *testing.T) {
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := operator{serves: sets.New(schema.GroupKind{Group: "apps.example.com", Kind: "MyApp"})}
	for _, look := range []func(context.Context, *patient) (string, []finding, error){crdsFit, rightsSuffice} {
		if _, found, err := look(t.Context(), &patient{cluster: &cluster{}, needs: rights, operators: []operator{other}}); len(found) > 0 || err == nil || !strings.Contains(err.Error(), "--files ../myapp-operator/operator.yaml") {
			t.Errorf("%v, %v", found, err)
		}
	}
}

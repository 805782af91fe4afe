package integration

import (
	"path/filepath"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNoRightOnSecrets(t *testing.T) {
	s := newScene(t)
	files, err := filepath.Glob(filepath.Join(env.root, "config/rbac/*.yaml"))
	s.must(err)
	if len(files) == 0 {
		t.Fatal("config/rbac is empty")
	}
	for _, file := range files {
		objects, err := readObjects(file)
		s.must(err)
		for _, object := range objects {
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				if slices.Contains(resources, "secrets") || slices.Contains(resources, "*") {
					t.Errorf("%s: %s %s has a rule for %v", file, object.GetKind(), object.GetName(), resources)
				}
			}
		}
	}

	login, err := token(operatorNamespace, operatorAccount)
	s.must(err)
	config := rest.AnonymousClientConfig(env.admin)
	config.BearerToken = login
	operator, err := client.New(config, client.Options{})
	s.must(err)
	for _, namespace := range []string{operatorNamespace, "kube-system", s.namespace} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		s.must(operator.Create(ctx, review))
		if len(review.Status.ResourceRules) == 0 {
			t.Errorf("no rule at all in namespace %s: %v", namespace, review.Status)
		}
		for _, rule := range review.Status.ResourceRules {
			core := slices.Contains(rule.APIGroups, "") || slices.Contains(rule.APIGroups, "*")
			if core && (slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*")) {
				t.Errorf("namespace %s: the operator may %v Secrets", namespace, rule.Verbs)
			}
		}
	}
}

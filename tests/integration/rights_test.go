package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
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

// Each kind of object is made, repaired and deleted, with the rights that there are.
func TestEveryKindOfChild(t *testing.T) {
	s := newScene(t)
	s.operator()
	cr := s.create(welcome("hello").with("ingress.enabled", true).with("ingress.host", "example.com").
		with("autoscaling.enabled", true).with("podDisruptionBudget.enabled", true).with("podDisruptionBudget.maxUnavailable", int64(1)).with("networkPolicy.enabled", true))
	s.awaitDeployed("hello")
	kinds := []*unstructured.Unstructured{
		listed("apps/v1", "Deployment"), listed("v1", "Service"), listed("networking.k8s.io/v1", "Ingress"), listed("networking.k8s.io/v1", "NetworkPolicy"),
		listed("autoscaling/v2", "HorizontalPodAutoscaler"), listed("policy/v1", "PodDisruptionBudget"),
	}
	const label = "app.kubernetes.io/name"
	for _, object := range kinds {
		s.get(object, "hello")
		before := object.DeepCopy()
		object.SetLabels(with(object.GetLabels(), label, "somebody-else"))
		s.must(env.client.Patch(ctx, object, client.MergeFrom(before)))
		s.await(object.GetKind()+" is repaired", func() error {
			s.get(object, "hello")
			if got := object.GetLabels()[label]; got != before.GetLabels()[label] {
				return fmt.Errorf("it is labelled %q", got)
			}
			return nil
		})
	}
	s.must(env.client.Delete(ctx, cr))
	for _, object := range kinds {
		s.awaitGone(object, "hello")
	}
}

// everyRightWasUsed fails if the operator has a right that it did not use in all of the tests: it does not need it.
func everyRightWasUsed() error {
	used := map[string]bool{
		"update welcomes/finalizers.webapp.demo.welcome.domain": true, // an admission plugin asks for it, nobody uses it
		"list welcomes.webapp.demo.welcome.domain":              true, // used where the API server does not stream lists
	}
	text, err := os.ReadFile(env.auditLog)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var one request
		if err := json.Unmarshal(line, &one); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if one.ObjectRef != nil && strings.HasSuffix(one.User.Username, ":"+operatorNamespace+":"+operatorAccount) {
			resource := strings.TrimSuffix(one.ObjectRef.Resource+"/"+one.ObjectRef.Subresource, "/")
			used[one.Verb+" "+resource+"."+one.ObjectRef.APIGroup] = true
		}
	}
	var role rbacv1.ClusterRole
	if text, err = os.ReadFile(filepath.Join(env.root, "config/rbac/role.yaml")); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		return fmt.Errorf("config/rbac/role.yaml: %w", err)
	}
	if len(role.Rules) == 0 {
		return errors.New("config/rbac/role.yaml has no rules")
	}
	var unused []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if right := verb + " " + resource + "." + rule.APIGroups[0]; !used[right] {
					unused = append(unused, right)
				}
			}
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("no test has the operator use these rights of config/rbac/role.yaml: %s", strings.Join(unused, ", "))
	}
	return nil
}

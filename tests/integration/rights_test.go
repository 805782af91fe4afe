package integration

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

func TestNoRightOnSecrets(t *testing.T) {
	s := newScene(t)
	objects, err := rights()
	s.must(err)
	if len(objects) == 0 {
		t.Fatal("config/rbac is empty")
	}
	for _, object := range objects {
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for _, rule := range rules {
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			if slices.Contains(resources, "secrets") || slices.Contains(resources, "*") {
				t.Errorf("%s %s has a rule for %v", object.GetKind(), object.GetName(), resources)
			}
		}
	}

	login, err := env.Token(ctx, operatorNamespace, operatorAccount)
	s.must(err)
	operator, err := client.New(env.As(login), client.Options{})
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
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWith("  allow: {hosts: [example.com]}\n")})
	cr := s.deploy("hello", kit.Set("ingress.enabled", true), kit.Set("ingress.host", "example.com"), kit.Set("autoscaling.enabled", true),
		kit.Set("podDisruptionBudget.enabled", true), kit.Set("podDisruptionBudget.maxUnavailable", 1), kit.Set("networkPolicy.enabled", true))
	kinds := []*unstructured.Unstructured{
		kit.Object("apps/v1", "Deployment"), kit.Object("v1", "Service"), kit.Object("networking.k8s.io/v1", "Ingress"), kit.Object("networking.k8s.io/v1", "NetworkPolicy"),
		kit.Object("autoscaling/v2", "HorizontalPodAutoscaler"), kit.Object("policy/v1", "PodDisruptionBudget"),
	}
	const label = "app.kubernetes.io/name"
	for _, object := range kinds {
		s.get(object, "hello")
		before := object.DeepCopy()
		kit.Label(label, "somebody-else")(object)
		s.must(env.Client.Patch(ctx, object, client.MergeFrom(before)))
		s.await(object.GetKind()+" is repaired", func() error {
			s.get(object, "hello")
			if got := object.GetLabels()[label]; got != before.GetLabels()[label] {
				return fmt.Errorf("it is labelled %q", got)
			}
			return nil
		})
	}
	s.must(env.Client.Delete(ctx, cr))
	for _, object := range kinds {
		s.awaitGone(object, "hello")
	}
}

// everyRightWasUsed fails if the operator has a right that no test made it use, which means that it does not
// need the right. That takes a full run, in one process or in the parts of tests/rung. Each part adds the
// rights that it used to a common file, and the last one checks them all.
func everyRightWasUsed() error {
	parts := os.Getenv("TEST_PARTS")
	if parts == "" && flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	used, err := usedRights()
	if err != nil {
		return err
	}
	if parts != "" {
		const end = "that is all of one part"
		if used, err = appendLines(filepath.Join(os.Getenv("TEST_PARTS_DIR"), "rights-used"), append(used, end)); err != nil {
			return err
		}
		ended := 0
		for _, line := range used {
			if line == end {
				ended++
			}
		}
		if strconv.Itoa(ended) != parts {
			return nil
		}
	}
	role, err := kit.Read[rbacv1.ClusterRole](kit.File("config/rbac/role.yaml"))
	if err != nil {
		return err
	}
	if len(role.Rules) == 0 {
		return errors.New("config/rbac/role.yaml has no rules")
	}
	var unused []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if right := verb + " " + resource + "." + rule.APIGroups[0]; !slices.Contains(used, right) {
					unused = append(unused, strings.TrimSuffix(right, "."))
				}
			}
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("no test has the operator use these %d rights of config/rbac/role.yaml:\n  %s", len(unused), strings.Join(unused, "\n  "))
	}
	return nil
}

// usedRights are the rights that the operator has used in this process, each once.
func usedRights() ([]string, error) {
	used := map[string]bool{
		"update welcomes/finalizers.webapp.demo.welcome.domain": true, // an admission plugin asks for it, nobody uses it
		"list welcomes.webapp.demo.welcome.domain":              true, // used where the API server does not stream lists
	}
	_, err := env.Requests(ctx, 0, func(one controlplane.Request) bool {
		if one.ObjectRef.Resource != "" && strings.HasSuffix(one.User.Username, ":"+operatorNamespace+":"+operatorAccount) {
			resource := strings.TrimSuffix(one.ObjectRef.Resource+"/"+one.ObjectRef.Subresource, "/")
			used[one.Verb+" "+resource+"."+one.ObjectRef.APIGroup] = true
		}
		return false
	})
	return slices.Collect(maps.Keys(used)), err
}

// appendLines appends lines to a file atomically, and returns all lines that it has then.
func appendLines(name string, lines []string) ([]string, error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	return strings.Split(string(text), "\n"), err
}

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/operator-framework/api/crds"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// inPod is a program that runs another one with the file that tells a pod its namespace. Only that program
// sees the file, by a mount of its own.
func inPod(t *testing.T, namespace string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in-pod")
	script := `#!/bin/sh
exec unshare --map-root-user --mount sh -ec '
mount -t tmpfs none /run
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
printf %s ` + namespace + ` > /var/run/secrets/kubernetes.io/serviceaccount/namespace
exec "$@"' sh ` + env.binary + ` "$@"
`
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// OLM is told not to replace the operator while a release changes. What fails is tried again and again, and
// does not keep OLM away: nothing changes in a rehearsal.
func TestUpgradeable(t *testing.T) {
	s := newScene(t)
	s.must(env.Client.Create(ctx, crds.OperatorCondition()))
	condition := kit.Object("operators.coreos.com/v2", "OperatorCondition")
	condition.SetNamespace(operatorNamespace)
	condition.SetName("welcome-operator.v1")
	s.await("OperatorConditions are served", func() error { return env.Client.Create(ctx, condition) })
	account := s.accountForKinds()
	s.must(env.Client.Create(ctx, &rbacv1.Role{ObjectMeta: objectMeta(operatorNamespace, account), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, Verbs: []string{"get", "update"}}, // as OLM grants it
	}}))
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(operatorNamespace, account+"-condition"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: account}},
	}))
	operator := s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: account,
		program: inPod(t, operatorNamespace), env: []string{"OPERATOR_CONDITION_NAME=" + condition.GetName()},
	})
	upgradeable := func(want string) func() error {
		return func() error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(condition), condition); err != nil {
				return err
			}
			conditions, _, err := unstructured.NestedSlice(condition.Object, "spec", "conditions")
			if err != nil || len(conditions) != 1 || conditions[0].(map[string]any)["type"] != "Upgradeable" || conditions[0].(map[string]any)["status"] != want {
				return errors.Join(fmt.Errorf("the conditions are %v", conditions), err)
			}
			return nil
		}
	}
	s.await("OLM may upgrade it", upgradeable("True"))
	s.create("hello")
	s.await("OLM is to wait", upgradeable("False"))
	s.awaitDeployed("hello")
	s.await("OLM may upgrade it again", upgradeable("True"))

	s.must(env.Client.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(s.namespace, "hello")}))
	s.edit("hello", kit.Set("networkPolicy.enabled", true))
	s.await("OLM is to wait for the first attempt", upgradeable("False"))
	s.awaitReason("hello", "ObjectInTheWay")
	s.await("OLM may upgrade it, although that fails", upgradeable("True"))
	failures := func() int {
		return int(operator.metric(t, "welcome_operator_release_actions_total", `result="failure"`))
	}
	from, err := env.Mark(ctx)
	s.must(err)
	before := failures()
	s.await("it has failed twice more", func() error { return atLeast(failures()-before, 2) })
	told, err := env.Requests(ctx, from, func(one controlplane.Request) bool {
		return one.ObjectRef.Resource == "operatorconditions" && one.Writes()
	})
	s.must(err)
	if len(told) > 0 {
		t.Errorf("a retry keeps OLM away: %s", told)
	}
	s.must(upgradeable("True")())
}

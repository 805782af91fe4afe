package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Each thing that goes wrong on a new cluster is found, named, and gone when it is mended. No kubelet runs
// the operator's Deployment here: its status is written by hand, and a process in a pod's place does its
// work.
func TestDoctor(t *testing.T) {
	s := newScene(t)
	stopShared()
	left := kit.Welcomes() // by other tests, of operators that are no Deployments
	s.must(env.Client.List(ctx, left))
	for i := range left.Items {
		left.Items[i].SetFinalizers(nil)
		s.must(env.Client.Update(ctx, &left.Items[i]))
		s.must(client.IgnoreNotFound(env.Client.Delete(ctx, &left.Items[i])))
	}
	finds := func(code int, parts ...string) {
		t.Helper()
		s.await("the doctor says so", func() error {
			got := s.plugin("doctor")
			if err := says(got.out+got.notes, parts); got.code != code || err != nil {
				return errors.Join(fmt.Errorf("exit code %d, not %d:\n%s\n%s", got.code, code, got.out, got.notes), err)
			}
			return nil
		})
	}
	finds(2, "PROBLEM  operator: no Deployment", "make deploy", "UNKNOWN  rights: there is no operator", "UNKNOWN  lease: there is no operator")

	deployment, err := kit.Read[appsv1.Deployment](kit.File("config/manager/manager.yaml"))
	s.must(err)
	deployment.Spec.Template.Spec.Containers[0].Args = nil // it waits for no lease, at first
	deployment.Namespace = operatorNamespace
	s.must(env.Client.Create(ctx, &deployment))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, &deployment)) })
	finds(2, "PROBLEM  operator: no pod of system/controller-manager is available")
	deployment.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	s.must(env.Client.Status().Update(ctx, &deployment))
	s.ownOperator(settings{namespaces: []string{s.namespace}, program: inPod(t, operatorNamespace)})
	s.deploy("hello")
	finds(0, "OK       operator: system/controller-manager", "OK       CRDs: welcomes", "OK       rights: ", "OK       lease: system/controller-manager needs none",
		`served by system/`, "OK       admission: a ConfigMap, a Service and a Deployment pass", "Nothing is wrong with the operator")

	t.Run("a CRD of another version", func(t *testing.T) {
		crd, err := os.ReadFile(kit.File("config/crd/bases/webapp.demo.welcome.domain_welcomes.yaml"))
		s.must(err)
		file := filepath.Join(t.TempDir(), "crd.yaml")
		s.must(os.WriteFile(file, []byte(strings.Replace(string(crd), "            properties:\n", "            properties:\n              title: {type: string}\n", 1)), 0o600))
		s.expect(s.plugin("doctor", "--files="+file), 2, "PROBLEM  CRDs: welcomes.webapp.demo.welcome.domain has another schema", ": spec.title", "kubectl apply --server-side --force-conflicts -f "+file)
	})
	t.Run("rights that are missing", func(t *testing.T) {
		before := deployment.DeepCopy()
		deployment.Spec.Template.Spec.ServiceAccountName = "nobody"
		s.must(env.Client.Patch(ctx, &deployment, client.MergeFrom(before)))
		finds(2, "PROBLEM  rights: system:serviceaccount:system:nobody may not get, list, watch, create, patch, delete services in all namespaces", "kubectl auth can-i")
		if told := strings.Count(s.plugin("doctor").out, "kubectl auth can-i"); told != 1 {
			t.Errorf("one remedy is told %d times", told)
		}
		before = deployment.DeepCopy()
		deployment.Spec.Template.Spec.ServiceAccountName = operatorAccount
		s.must(env.Client.Patch(ctx, &deployment, client.MergeFrom(before)))
	})
	t.Run("another operator of other kinds", func(t *testing.T) {
		s.expect(s.plugin("doctor", "--files="+kit.File("examples/crontab-operator/operator.yaml")), 2, "UNKNOWN  rights: there is no operator that serves these kinds")
	})
	t.Run("a lease that nobody renews", func(t *testing.T) {
		before := deployment.DeepCopy()
		deployment.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect"}
		s.must(env.Client.Patch(ctx, &deployment, client.MergeFrom(before)))
		finds(2, "PROBLEM  lease: system/controller-manager has no replica that holds the lease: none works")
		lease := &coordinationv1.Lease{ObjectMeta: objectMeta(operatorNamespace, published), Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("controller-manager-6d5f-abcde_1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Now().Add(-time.Hour)},
		}}
		s.must(client.IgnoreNotFound(env.Client.Delete(ctx, lease.DeepCopy()))) // of an operator of another test
		s.must(env.Client.Create(ctx, lease))
		defer func() { s.must(env.Client.Delete(ctx, lease)) }()
		finds(2, "is held by pod controller-manager-6d5f-abcde, which is gone since 1h0m", "rollout restart deployment/controller-manager")
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		s.must(env.Client.Update(ctx, lease))
		finds(0, "OK       lease: controller-manager-6d5f-abcde of system")
		before = deployment.DeepCopy()
		deployment.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--max-concurrent-reconciles=0"}
		s.must(env.Client.Patch(ctx, &deployment, client.MergeFrom(before)))
		finds(2, "PROBLEM  operator: system/controller-manager does not start with its flags", "--max-concurrent-reconciles must be at least 1")
		before = deployment.DeepCopy()
		deployment.Spec.Template.Spec.Containers[0].Args = nil
		s.must(env.Client.Patch(ctx, &deployment, client.MergeFrom(before)))
	})
	t.Run("a webhook that nobody answers for", func(t *testing.T) {
		webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "judge.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: s.namespace, Name: "judge"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}},
		}}}
		s.must(env.Client.Create(ctx, webhook))
		finds(2, "PROBLEM  admission: webhook judge.example.com", "kubectl delete validatingwebhookconfiguration "+s.namespace, "the API server refuses a dry run of what operators make")
		webhook.Webhooks[0].Rules[0].Rule = admissionregistrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"}, Resources: []string{"*"}}
		s.must(env.Client.Update(ctx, webhook))
		finds(0, "OK       admission") // nothing of the operator's
		s.must(env.Client.Delete(ctx, webhook))
	})
	t.Run("a namespace that is being deleted", func(t *testing.T) {
		going := s.newNamespace("test-")
		kept := kit.Welcome(going, "kept")
		kept.SetFinalizers([]string{"example.com/theirs"})
		s.must(env.Client.Create(ctx, kept))
		s.must(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", going)}))
		finds(0, "OK       admission") // nobody makes anything there
		kept.SetFinalizers(nil)
		s.must(env.Client.Update(ctx, kept))
		s.must(env.Client.Delete(ctx, kept))
	})
	t.Run("two operators", func(t *testing.T) {
		s.ownOperator(settings{namespaces: []string{s.namespace}, program: inPod(t, s.namespace)})
		finds(2, "PROBLEM  one operator each: an event of ", "Left to operator", "delete one")
	})
	t.Run("who may not look", func(t *testing.T) {
		token, err := env.Token(ctx, operatorNamespace, operatorAccount)
		s.must(err)
		s.expect(s.pluginAs("operator", env.As(token), "doctor"), 1, "UNKNOWN")

		// Who may read all, and create nothing.
		reader := &rbacv1.ClusterRole{ObjectMeta: objectMeta("", s.namespace+"-reader"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		}}
		s.must(env.Client.Create(ctx, reader))
		s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(s.namespace, "reader")}))
		s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: objectMeta("", reader.Name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "reader"}},
		}))
		if token, err = env.Token(ctx, s.namespace, "reader"); err != nil {
			t.Fatal(err)
		}
		s.await("the reader may read all", func() error {
			return says(s.pluginAs("reader", env.As(token), "doctor").out, []string{"UNKNOWN  admission: in namespace " + s.namespace + ", no dry run of what operators make could be made: configmaps is forbidden: User "})
		})

		s.editor()
		for _, args := range [][]string{
			{"create", "clusterrole", s.namespace, "--verb=list", "--resource=deployments.apps"}, {"create", "clusterrolebinding", s.namespace, "--clusterrole=" + s.namespace, "--serviceaccount=" + s.namespace + ":editor"},
		} {
			_, err := s.kubectl("", args...)
			s.must(err)
		}
		if token, err = env.Token(ctx, s.namespace, "editor"); err != nil {
			t.Fatal(err)
		}
		s.await("the editor may list Deployments", func() error {
			return says(s.pluginAs("editor", env.As(token), "doctor").out, []string{"UNKNOWN  images: list welcomes: ", "at the cluster scope The doctor looks at the whole cluster: have somebody run it who may"})
		})
	})
}

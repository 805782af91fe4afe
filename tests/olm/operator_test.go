package olm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	packageName = "welcome-operator"
	catalogName = "welcome-catalog"
)

func csvName(version string) string { return packageName + ".v" + version }

func namespace(t *testing.T, prefix, standard string) string {
	t.Helper()
	return namespaces(t, standard, prefix)[0]
}

// namespaces creates namespaces with a pod security standard, and removes them after the test. If the test failed,
// it prints their contents first. Their names are unique, because OLM may still work on former objects in a
// namespace of the same name (see docs/olm.md).
func namespaces(t *testing.T, standard string, prefixes ...string) []string {
	t.Helper()
	var names []string
	t.Cleanup(func() { removeNamespaces(t, names...) })
	for _, prefix := range prefixes {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			GenerateName: prefix + "-",
			Labels:       map[string]string{"pod-security.kubernetes.io/enforce": standard},
		}}
		create(t, ns)
		names = append(names, ns.Name)
	}
	return names
}

func removeNamespaces(t *testing.T, names ...string) {
	t.Helper()
	if t.Failed() {
		for _, name := range names {
			diagnose(t, name)
		}
	}
	var objects []client.Object
	for _, name := range names {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	remove(t, objects...)
}

// diagnose prints what helps to find out what went wrong in a namespace, and removes the finalizers of its Welcomes:
// there may be no operator left to do so.
func diagnose(t *testing.T, ns string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, args := range [][]string{
		{"get", "csv,subscription,installplan,operatorgroup,operatorcondition,pod,job", "-o", "wide"},
		{"get", "welcomes", "-o", "yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "control-plane=controller-manager", "--tail=100"},
	} {
		out, err := command(ctx, "", "kubectl", append(args, "-n", ns)...).CombinedOutput()
		t.Logf("kubectl -n %s %s (error: %v)\n%s", ns, strings.Join(args, " "), err, out)
	}
	welcomes := kit.Welcomes()
	if err := api.List(ctx, welcomes, client.InNamespace(ns)); err != nil {
		return // without the CRD, there are no Welcomes
	}
	for i := range welcomes.Items {
		w := &welcomes.Items[i]
		if err := api.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Logf("take the finalizers off Welcome %s: %v", w.GetName(), err)
		}
	}
}

// remove deletes objects and waits until they are gone.
func remove(t *testing.T, objects ...client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, object := range objects {
		if err := api.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			t.Fatalf("delete %s: %v", object.GetName(), err)
		}
	}
	awaitEnd(t, 2*time.Minute, objects...)
}

// awaitEnd waits until objects are gone.
func awaitEnd(t *testing.T, limit time.Duration, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		await(t, limit, fmt.Sprintf("end of %T %s", object, object.GetName()), func(ctx context.Context) error {
			err := api.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is still there"), err)
		})
	}
}

// group creates an OperatorGroup: the operator in ns watches targets, or all namespaces if there are none.
func group(t *testing.T, ns string, targets ...string) {
	t.Helper()
	create(t, &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "group", Namespace: ns},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: targets},
	})
}

// subscribe installs the operator into ns from the catalog, and uninstalls it after the test.
func subscribe(t *testing.T, ns string) {
	t.Helper()
	create(t, &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: packageName, Namespace: ns},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: olmNamespace,
			Package: packageName, Channel: "stable",
		},
	})
	t.Cleanup(func() { uninstall(t, ns) })
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// uninstall does what a user does: it deletes the Subscription and the ClusterServiceVersion, then the CRD.
func uninstall(t *testing.T, ns string) {
	t.Helper()
	if t.Failed() {
		diagnose(t, ns)
	}
	remove(t, &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: packageName, Namespace: ns}})
	ctx := context.WithoutCancel(t.Context())
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := api.List(ctx, csvs, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range csvs.Items {
		if csvs.Items[i].Status.Reason != operatorsv1alpha1.CSVReasonCopied {
			remove(t, &csvs.Items[i])
		}
	}
	remove(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kit.CRD}})
}

// awaitVersion waits until version of the operator is installed in ns, its pods are ready, and its InstallPlan is
// Complete. That may be later than the ClusterServiceVersion has Succeeded, and until then OLM creates again what
// somebody deletes.
func awaitVersion(t *testing.T, ns, version string) {
	t.Helper()
	await(t, 4*time.Minute, "version "+version+" installed in "+ns, func(ctx context.Context) error {
		csv, err := getCSV(ctx, ns, version)
		if err != nil {
			return explain(ctx, ns, err)
		}
		if csv.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("%s is %s: %s: %s", csv.Name, csv.Status.Phase, csv.Status.Reason, csv.Status.Message)
		}
		return nil
	})
	awaitPlan(t, ns, version, operatorsv1alpha1.InstallPlanPhaseComplete)
}

func getCSV(ctx context.Context, ns, version string) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: csvName(version)}, csv)
	return csv, err
}

// explain adds to err what the Subscriptions of ns say about it.
func explain(ctx context.Context, ns string, err error) error {
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	if listErr := api.List(ctx, subscriptions, client.InNamespace(ns)); listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, subscription := range subscriptions.Items {
		for _, condition := range subscription.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				err = fmt.Errorf("%w; subscription %s: %s: %s", err, condition.Type, condition.Reason, condition.Message)
			}
		}
	}
	return err
}

// operatorPods returns the names of the ready pods of the operator in ns.
func operatorPods(t *testing.T, ns string) []string {
	t.Helper()
	pods := &corev1.PodList{}
	if err := api.List(t.Context(), pods, client.InNamespace(ns), client.MatchingLabels{"control-plane": "controller-manager"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			names = append(names, pod.Name)
		}
	}
	return names
}

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

package olm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// TestUpgrade subscribes to the released catalog, and upgrades three times with 20 Welcomes, while a visitor requests
// their pages.
func TestUpgrade(t *testing.T) {
	pushReleases(t.Context(), t)
	pushLaterCatalog(t.Context(), t)
	source := catalog(t, releasedCatalog)
	const ns = "welcome-operator-system"
	run(t, "kubectl", "apply", "-f", kit.File("catalog", "subscription.yaml"))
	t.Cleanup(func() {
		uninstall(t, ns)
		removeNamespaces(t, ns)
	})
	subscription := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: packageName, Namespace: ns}}
	visitors := namespace(t, "olm-visitors", "restricted")
	awaitVersion(t, ns, "0.1.0")

	var welcomes []*unstructured.Unstructured
	for i := range 20 {
		w := welcome(visitors, fmt.Sprintf("visitor-%02d", i))
		create(t, w)
		welcomes = append(welcomes, w)
	}
	for _, w := range welcomes {
		awaitPage(t, w, w.GetName())
	}
	t.Cleanup(func() {
		for _, w := range welcomes {
			remove(t, w)
		}
	})

	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"waits while releases are changed, then is automatic", func(t *testing.T) {
			proveNothingElseChanges := watchPages(t, welcomes, "the upgrade to 0.2.0")
			calm := churn(t, visitors)
			awaitUpgradeable(t, ns, "0.1.0", metav1.ConditionFalse)
			update(t, source, func() { source.Spec.Image = laterCatalog })
			await(t, 3*time.Minute, "version 0.2.0 held back", func(ctx context.Context) error {
				csv, err := getCSV(ctx, ns, "0.2.0")
				if err != nil {
					return explain(ctx, ns, err)
				}
				if csv.Status.Phase != operatorsv1alpha1.CSVPhasePending || !strings.Contains(csv.Status.Message, "not upgradeable") {
					return fmt.Errorf("it is %s: %s", csv.Status.Phase, csv.Status.Message)
				}
				return nil
			})
			calm()
			awaitVersion(t, ns, "0.2.0")
			awaitUpgradeable(t, ns, "0.2.0", metav1.ConditionTrue)
			proveNothingElseChanges()
		}},
		{"waits for an approval where it is manual, and rolls the pages to a new image", func(t *testing.T) {
			uids, pods := identities(t, welcomes...)
			visitor := visit(t, welcomes)
			update(t, subscription, func() {
				subscription.Spec.Channel, subscription.Spec.InstallPlanApproval = "fast", operatorsv1alpha1.ApprovalManual
			})
			plan := awaitPlan(t, ns, "0.3.0", operatorsv1alpha1.InstallPlanPhaseRequiresApproval)
			if _, err := getCSV(t.Context(), ns, "0.3.0"); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("0.3.0 is there without an approval (error: %v)", err)
			}
			update(t, plan, func() { plan.Spec.Approved = true })
			awaitVersion(t, ns, "0.3.0")
			await(t, 5*time.Minute, "all pages on the new image", func(context.Context) error {
				_, now := identities(t, welcomes...)
				for name, pod := range now {
					if pod == pods[name] || strings.Count(pod, "pod ") != 1 {
						return fmt.Errorf("%s has %s", name, pod)
					}
				}
				return nil
			})
			visitor.expectNoFailure(t, "the upgrade to 0.3.0 and the roll of all pages")
			if uidsAfter, _ := identities(t, welcomes...); !maps.Equal(uids, uidsAfter) {
				t.Errorf("UIDs of Welcomes changed from %v to %v", uids, uidsAfter)
			}
		}},
		{"is held back where Welcomes would break", func(t *testing.T) {
			proveItIsHeldBack := watchOperator(t, ns, welcomes)
			update(t, subscription, func() {
				subscription.Spec.Channel, subscription.Spec.InstallPlanApproval = "candidate-incompatible", operatorsv1alpha1.ApprovalAutomatic
			})
			plan := awaitPlan(t, ns, "0.4.0", operatorsv1alpha1.InstallPlanPhaseFailed)
			if reason := plan.Status.Conditions[0].Message; !strings.Contains(reason, visitors+"/"+welcomes[0].GetName()) {
				t.Errorf("the InstallPlan does not name the Welcome that would break: %s", reason)
			}
			proveItIsHeldBack()
		}},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			t.FailNow() // the next subtest needs it
		}
	}
}

// watchPages starts to request the pages of welcomes. prove fails the test unless the operator works and since then
// no Welcome was created again, no pod restarted, and no request failed.
func watchPages(t *testing.T, welcomes []*unstructured.Unstructured, during string) (prove func()) {
	t.Helper()
	uids, pods := identities(t, welcomes...)
	visitor := visit(t, welcomes)
	return func() {
		t.Helper()
		proveItWorks(t, welcomes[0])
		visitor.expectNoFailure(t, during)
		uidsAfter, podsAfter := identities(t, welcomes...)
		if !maps.Equal(uids, uidsAfter) {
			t.Errorf("UIDs of Welcomes changed from %v to %v", uids, uidsAfter)
		}
		delete(pods, welcomes[0].GetName()) // proveItWorks has edited it, so that its pods are new
		delete(podsAfter, welcomes[0].GetName())
		if !maps.Equal(pods, podsAfter) {
			t.Errorf("pods changed though their template did not, from %v to %v", pods, podsAfter)
		}
	}
}

// watchOperator starts to request the pages of welcomes. prove fails the test unless the operator of ns works, its
// pods are the same, and no request failed since then.
func watchOperator(t *testing.T, ns string, welcomes []*unstructured.Unstructured) (prove func()) {
	t.Helper()
	visitor := visit(t, welcomes)
	before := operatorPods(t, ns)
	return func() {
		t.Helper()
		proveItWorks(t, welcomes[0])
		if after := operatorPods(t, ns); !slices.Equal(before, after) {
			t.Errorf("operator pods changed from %v to %v", before, after)
		}
		visitor.expectNoFailure(t, "the upgrade that was held back")
	}
}

// proveItWorks edits a Welcome and waits for the page.
func proveItWorks(t *testing.T, w *unstructured.Unstructured) {
	t.Helper()
	greeted := fmt.Sprintf("%s at %d", w.GetName(), time.Now().Unix())
	greet(t, w, greeted)
	awaitPage(t, w, greeted)
}

// churn creates and deletes a Welcome again and again until calm is called, so that releases always change.
func churn(t *testing.T, ns string) (calm func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() {
		for i := 0; ; i++ {
			w := welcome(ns, fmt.Sprintf("churn-%d", i))
			if err := api.Create(context.WithoutCancel(ctx), w); err != nil {
				stopped <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			if err := api.Delete(context.WithoutCancel(ctx), w); err != nil || ctx.Err() != nil {
				stopped <- err
				return
			}
		}
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("create and delete Welcomes: %v", err)
		}
	}
}

func awaitUpgradeable(t *testing.T, ns, version string, status metav1.ConditionStatus) {
	t.Helper()
	await(t, time.Minute, fmt.Sprintf("Upgradeable=%s of %s", status, version), func(ctx context.Context) error {
		condition := &operatorsv2.OperatorCondition{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: csvName(version)}, condition); err != nil {
			return err
		}
		if !meta.IsStatusConditionPresentAndEqual(condition.Spec.Conditions, operatorsv2.Upgradeable, status) {
			return fmt.Errorf("conditions are %+v", condition.Spec.Conditions)
		}
		return nil
	})
}

// awaitPlan waits for the InstallPlan of version to reach phase.
func awaitPlan(t *testing.T, ns, version string, phase operatorsv1alpha1.InstallPlanPhase) *operatorsv1alpha1.InstallPlan {
	t.Helper()
	var found *operatorsv1alpha1.InstallPlan
	await(t, 3*time.Minute, fmt.Sprintf("InstallPlan of %s is %s", version, phase), func(ctx context.Context) error {
		plans := &operatorsv1alpha1.InstallPlanList{}
		if err := api.List(ctx, plans, client.InNamespace(ns)); err != nil {
			return err
		}
		err := explain(ctx, ns, fmt.Errorf("there is none"))
		for i := range plans.Items {
			plan := &plans.Items[i]
			if len(plan.Spec.ClusterServiceVersionNames) == 1 && plan.Spec.ClusterServiceVersionNames[0] == csvName(version) {
				if plan.Status.Phase == phase {
					found = plan
					return nil
				}
				err = fmt.Errorf("it is %s: %s", plan.Status.Phase, plan.Status.Message)
			}
		}
		return err
	})
	return found
}

// update reads an object, edits it, and writes it back.
func update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	await(t, 30*time.Second, "update of "+object.GetName(), func(ctx context.Context) error {
		if err := api.Get(ctx, keyOf(object), object); err != nil {
			return err
		}
		change()
		return api.Update(ctx, object)
	})
}

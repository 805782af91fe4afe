package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// maxHistory is the number of release records that the operator keeps of a Welcome.
const maxHistory = 5

func newDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func isPending(record *corev1.ConfigMap) bool {
	switch release.Status(record.Labels["status"]) {
	case release.StatusDeployed, release.StatusSuperseded, release.StatusFailed:
		return false
	}
	return true
}

// sightings are the Deployments that each Welcome has had. If there is more than one, its pods were thrown away.
type sightings struct {
	mu          sync.Mutex
	deployments map[types.UID]map[types.UID]bool // by the UID of the Welcome
}

func (s *sightings) add(deployment *appsv1.Deployment) {
	owner := metav1.GetControllerOf(deployment)
	if owner == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deployments == nil {
		s.deployments = map[types.UID]map[types.UID]bool{}
	}
	if s.deployments[owner.UID] == nil {
		s.deployments[owner.UID] = map[types.UID]bool{}
	}
	s.deployments[owner.UID][deployment.UID] = true
}

func (s *sightings) of(welcome types.UID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.deployments[welcome])
}

// watchDeployments notes the Deployments until ctx ends.
func (w *world) watchDeployments(ctx context.Context) {
	go func() {
		for ctx.Err() == nil {
			list := &appsv1.DeploymentList{}
			if w.Client.List(ctx, list, client.InNamespace(namespace)) == nil {
				for i := range list.Items {
					w.seen.add(&list.Items[i])
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}

// awaitOrder waits until everything is as it should be.
func (w *world) awaitOrder() {
	w.Helper()
	if err := waiting.For(w.Context(), w.Logf, "everything is in order", recovery, pause, w.disorder); err != nil {
		w.Fatalf("%v\nlast lines of the operator:\n%s", err, w.operator.running().LastLines(60))
	}
}

// disorder lists everything in the cluster that is not as it should be.
func (w *world) disorder(ctx context.Context) error {
	list := kit.Welcomes()
	deployments, services, policies, records := &appsv1.DeploymentList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}, &corev1.ConfigMapList{}
	for _, list := range []client.ObjectList{list, deployments, services, policies} {
		if err := w.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	if err := w.Client.List(ctx, records, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		return err
	}
	w.left = len(list.Items)
	expected := expectation{}
	for i := range list.Items {
		welcome := &list.Items[i]
		expected.problems = append(expected.problems, unready(welcome)...)
		if count := w.seen.of(welcome.GetUID()); count > 1 {
			expected.problem("Welcome %s had %d Deployments", welcome.GetName(), count)
		}
		expected.child(welcome, "Deployment")
		expected.child(welcome, "Service")
		if guarded, _, _ := unstructured.NestedBool(welcome.Object, "spec", "networkPolicy", "enabled"); guarded {
			expected.child(welcome, "NetworkPolicy")
		}
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		w.seen.add(deployment)
		expected.found("Deployment", deployment)
		greeting := kit.Greeting(deployment)
		for j := range list.Items {
			if want, _, _ := unstructured.NestedString(list.Items[j].Object, "spec", "name"); list.Items[j].GetName() == deployment.Name && want != greeting {
				expected.problem("Deployment %s greets %q, not %q", deployment.Name, greeting, want)
			}
		}
	}
	for i := range services.Items {
		expected.found("Service", &services.Items[i])
	}
	for i := range policies.Items {
		expected.found("NetworkPolicy", &policies.Items[i])
	}
	expected.history(list.Items, records.Items)
	return expected.disappointment()
}

// unready lists what is wrong in the status of a Welcome.
func unready(welcome *unstructured.Unstructured) (problems []string) {
	name := welcome.GetName()
	if welcome.GetDeletionTimestamp() != nil {
		return []string{fmt.Sprintf("Welcome %s is still being deleted", name)}
	}
	if err := kit.Seen(welcome); err != nil {
		problems = append(problems, fmt.Sprintf("Welcome %s: %v", name, err))
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		"Ready": metav1.ConditionTrue, "Deployed": metav1.ConditionTrue, "Irreconcilable": metav1.ConditionFalse, "ReleaseFailed": metav1.ConditionFalse,
	} {
		if got, err := kit.Condition(welcome, kind); err != nil || got.Status != want {
			problems = append(problems, fmt.Sprintf("Welcome %s: %s is %s: %s %s (%v)", name, kind, got.Status, got.Reason, got.Message, err))
		}
	}
	return problems
}

// expectation is what should exist, and what is wrong.
type expectation struct {
	problems []string
	missing  map[string]types.UID // the owner's UID, by kind and name
}

func (e *expectation) problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

func (e *expectation) child(welcome *unstructured.Unstructured, kind string) {
	if e.missing == nil {
		e.missing = map[string]types.UID{}
	}
	e.missing[kind+" "+welcome.GetName()] = welcome.GetUID()
}

func (e *expectation) found(kind string, object client.Object) {
	key := kind + " " + object.GetName()
	owner, wanted := e.missing[key]
	switch {
	case !wanted:
		e.problem("%s should not exist", key)
	case metav1.GetControllerOf(object) == nil || metav1.GetControllerOf(object).UID != owner:
		e.problem("%s is not owned by its Welcome", key)
	}
	delete(e.missing, key)
}

// history checks the release records: of each Welcome, only the newest is deployed.
func (e *expectation) history(welcomes []unstructured.Unstructured, records []corev1.ConfigMap) {
	count, deployed := map[types.UID]int{}, map[types.UID]int{}
	for i := range records {
		record := &records[i]
		owner := metav1.GetControllerOf(record)
		if owner == nil {
			e.problem("record %s has no owner", record.Name)
			continue
		}
		count[owner.UID]++
		switch {
		case isPending(record):
			e.problem("record %s is %s", record.Name, record.Labels["status"])
		case record.Labels["status"] == string(release.StatusDeployed):
			deployed[owner.UID]++
		}
	}
	for i := range welcomes {
		uid, name := welcomes[i].GetUID(), welcomes[i].GetName()
		if deployed[uid] != 1 || count[uid] > maxHistory {
			e.problem("Welcome %s has %d records, %d of them deployed", name, count[uid], deployed[uid])
		}
		delete(count, uid)
	}
	for uid, orphans := range count {
		e.problem("%d records are left of a Welcome that is gone (%s)", orphans, uid)
	}
}

func (e *expectation) disappointment() error {
	for key := range e.missing {
		e.problem("%s is missing", key)
	}
	if len(e.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(e.problems, "\n"))
}

// awaitSilence waits until the operator writes nothing for a while: nothing is left to do.
func (w *world) awaitSilence() {
	w.Helper()
	err := waiting.For(w.Context(), w.Logf, "the operator writes nothing", time.Minute, pause, func(ctx context.Context) error {
		mark, err := w.Mark(ctx)
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		requests, err := w.Requests(ctx, mark, controlplane.By(operatorUser))
		if err == nil && len(requests) > 0 {
			err = fmt.Errorf("in 5 seconds it sent %s", requests)
		}
		return err
	})
	if err != nil {
		w.Fatalf("the operator does not come to rest: %v", err)
	}
}

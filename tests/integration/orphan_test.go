package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// collectGarbage runs Kubernetes' garbage collector until the test ends. It returns once that is at work: one
// that has not yet seen all objects orphans only those dependents that it knows.
func (s *scene) collectGarbage() {
	s.Helper()
	collector, err := env.CollectGarbage()
	s.must(err)
	s.Cleanup(func() {
		collector.Stop()
		if s.Failed() {
			s.Logf("last lines of the garbage collector:\n%s", collector.LastLines(20))
		}
	})
	s.awaitCollected()
}

// awaitCollected waits until the garbage collector has seen the existing ConfigMaps.
func (s *scene) awaitCollected() {
	s.Helper()
	garbage := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "garbage", Namespace: s.namespace, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "never-was"},
	}}}
	s.must(env.Client.Create(ctx, garbage))
	s.awaitGone(garbage, garbage.Name)
}

// keptSince fails unless the children are those of before, with the same specs, and are owned by owner, or by nobody.
func (s *scene) keptSince(before []client.Object, owner client.Object) {
	s.Helper()
	for i, child := range s.objectsOf("hello") {
		if child.GetUID() != before[i].GetUID() || child.GetGeneration() != before[i].GetGeneration() || child.GetDeletionTimestamp() != nil {
			s.Errorf("%T is not what it was: %v", child, child)
		}
		refs := child.GetOwnerReferences()
		if owner == nil && len(refs) > 0 || owner != nil && (len(refs) != 1 || !metav1.IsControlledBy(child, owner)) {
			s.Errorf("%T is owned by %v, not by %v", child, refs, owner)
		}
	}
}

// Who deletes a Welcome with --cascade=orphan keeps what it has made, and nothing else. A Welcome of that
// name takes it over.
func TestOrphan(t *testing.T) {
	for name, down := range map[string]bool{"while the operator runs": false, "while the operator is down": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.collectGarbage()
			only := settings{namespaces: []string{s.namespace}}
			operator := s.ownOperator(only)
			cr := s.deploy("hello", kit.Greet("before"))
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.settled(operator)
			s.awaitCollected() // the records, too
			before := s.objectsOf("hello")
			if down {
				operator.Stop()
			}
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=orphan", "--wait=false")
			s.must(err)
			if down {
				s.await("the garbage collector is done", func() error {
					if got := s.welcome("hello").GetFinalizers(); !slices.Equal(got, []string{"uninstall-helm-release"}) {
						return fmt.Errorf("the Welcome has finalizers %v", got)
					}
					return nil
				})
				for _, record := range s.records("hello") {
					if len(record.OwnerReferences) > 0 {
						t.Errorf("the case is broken: record %s is owned by %v", record.Name, record.OwnerReferences)
					}
				}
				operator = s.ownOperator(only)
			}
			s.awaitGone(cr, "hello")
			s.keptSince(before, nil)
			s.must(s.hasRecords("hello", 0))
			s.awaitEvent("hello", "Orphaned", "Deployment hello")

			again := s.deploy("hello", kit.Greet("after"))
			s.keptSince(before, again)
			s.settled(operator)
			s.delete(s.welcome("hello"))
			s.awaitGone(&appsv1.Deployment{}, "hello")
		})
	}
}

// The hooks of an orphaned release are made anew for the Welcome that takes it over, at its installation and
// later, and not if they are no longer marked as of it.
func TestOrphanWithHooks(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.ownOperator(s.hooked(nil, []string{"post-install", "pre-upgrade", "pre-delete"}))
	cr := s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitCollected()
	_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=orphan")
	s.must(err)
	s.awaitGone(cr, "hello")
	anew := func(event, greeted string) {
		t.Helper()
		s.ran(&corev1.ConfigMap{}, event, greeted)
		hook := &corev1.ConfigMap{}
		if s.get(hook, "hello-"+event); !metav1.IsControlledBy(hook, s.welcome("hello")) {
			t.Errorf("the %s hook is owned by %v", event, hook.OwnerReferences)
		}
	}
	s.deploy("hello", kit.Greet("again"))
	anew("post-install", "again")

	mark := func(annotation string) {
		t.Helper()
		_, err := s.kubectl("", "annotate", "configmap", "hello-pre-upgrade", annotation)
		s.must(err)
	}
	mark("meta.helm.sh/release-name-")
	s.edit("hello", kit.Greet("upgraded"))
	s.awaitReason("hello", "ObjectInTheWay", `ConfigMap "hello-pre-upgrade"`)
	mark("meta.helm.sh/release-name=hello")
	s.awaitGreeting("hello", "upgraded")
	s.awaitDeployed("hello")
	anew("pre-upgrade", "upgraded")

	left := kit.Object("v1", "ConfigMap")
	s.get(left, "hello-pre-upgrade")
	left.SetName("hello-pre-delete")
	s.restore(left, false)
	s.delete(s.welcome("hello"))
}

// A claim is not made anew though it is a hook: what is stored in it would be lost.
func TestOrphanWithAClaimOfAHook(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.grant("", "persistentvolumeclaims")
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{ .Release.Name }}, annotations: {helm.sh/hook: pre-install}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)})
	cr := s.deploy("hello")
	claim := &corev1.PersistentVolumeClaim{}
	s.get(claim, "hello")
	uid := claim.UID
	_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=orphan")
	s.must(err)
	s.awaitGone(cr, "hello")
	s.must(env.Client.Create(ctx, kit.Welcome(s.namespace, "hello")))
	s.awaitReason("hello", "ObjectInTheWay", `PersistentVolumeClaim "hello"`)
	if s.get(claim, "hello"); claim.UID != uid || claim.DeletionTimestamp != nil {
		t.Errorf("the claim was made anew: %v", claim.ObjectMeta)
	}
}

// A child that somebody takes from a Welcome that stays is theirs.
func TestChildTakenAway(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.settled(operator)
	s.changeDeployment(func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	taken := &appsv1.Deployment{}
	s.get(taken, "hello")
	s.awaitCondition("hello", "Irreconcilable", "True", `Deployment "hello"`, "not controlled by this custom resource")
	s.edit("hello", kit.Greet("after"))
	s.awaitCondition("hello", "ReleaseFailed", "True", `Deployment "hello"`, "not controlled by this custom resource")
	s.delete(s.welcome("hello"))
	s.unharmed(taken)
}

// A child of a healthy Welcome whose owner reference somebody rewrites is the Welcome's again by its name, before
// the garbage collector looks for an owner of the other name, finds none, and deletes it. One that is given to
// another Welcome is that one's, and the Welcome says so.
func TestOwnerReferenceIsRewritten(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	hello, other := s.deploy("hello"), s.deploy("other")
	s.runsAll("hello")
	s.awaitCondition("hello", "Ready", "True")
	s.settled(operator)
	s.changeDeployment(func(d *appsv1.Deployment) { d.OwnerReferences[0].Name = "somebody" })
	s.awaitDeployment("hello", "it names its owner again", func(d *appsv1.Deployment) error {
		if refs := d.OwnerReferences; len(refs) != 1 || refs[0].Name != "hello" || !metav1.IsControlledBy(d, hello) {
			return fmt.Errorf("it is owned by %v", refs)
		}
		return nil
	})
	s.awaitEvent("hello", "DriftCorrected", `Deployment "hello"`, "metadata.ownerReferences[0].name")
	s.settled(operator)
	s.changeDeployment(func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, other.GroupVersionKind())}
	})
	s.awaitCondition("hello", "Irreconcilable", "True", `Deployment "hello"`, `by Welcome "other"`)
}

// What the garbage collector has orphaned already is left as it is, and its records go, though a record was
// written since, of an upgrade that was under way.
func TestOrphanInTheMiddle(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello", kit.Greet("before"))
	asked, letGo := s.hold(admissionregistrationv1.Create, "", "configmaps", func(probe context.Context) error {
		return env.Client.Create(probe, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
	})
	s.edit("hello", kit.Greet("after"))
	asked()
	s.must(env.Client.Delete(ctx, cr, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.await("its objects are orphaned", func() error {
		if finalizers := s.welcome("hello").GetFinalizers(); slices.Contains(finalizers, metav1.FinalizerOrphanDependents) {
			return fmt.Errorf("not yet: %v", finalizers)
		}
		return nil
	})
	letGo()
	s.awaitGone(cr, "hello")
	s.must(s.hasRecords("hello", 0))
	s.get(&appsv1.Deployment{}, "hello")
}

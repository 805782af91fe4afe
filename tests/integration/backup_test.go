package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// backup are the objects of the Welcome "hello" as a backup has them, in the order in which they are
// restored: its release records, its children, and itself.
func (s *scene) backup() (objects []*unstructured.Unstructured) {
	s.Helper()
	for _, kind := range []*unstructured.UnstructuredList{
		kit.List("v1", "ConfigMap"), kit.List("v1", "Service"), kit.List("apps/v1", "Deployment"), kit.List("networking.k8s.io/v1", "NetworkPolicy"), kit.Welcomes(),
	} {
		s.must(env.Client.List(ctx, kind, client.InNamespace(s.namespace)))
		for _, object := range kind.Items {
			if strings.Contains(object.GetName(), "hello") {
				objects = append(objects, &object)
			}
		}
	}
	return objects
}

// restore creates an object of a backup again with what Velero keeps: name, labels, annotations, and no
// status; with its owner references if withOwners.
func (s *scene) restore(backup *unstructured.Unstructured, withOwners bool) *unstructured.Unstructured {
	s.Helper()
	object := backup.DeepCopy()
	delete(object.Object, "status")
	object.Object["metadata"] = map[string]any{"namespace": s.namespace, "name": backup.GetName()}
	object.SetLabels(backup.GetLabels())
	object.SetAnnotations(backup.GetAnnotations())
	if withOwners {
		object.SetOwnerReferences(backup.GetOwnerReferences())
	}
	s.must(env.Client.Create(ctx, object))
	return object
}

// What is restored from a backup is a Welcome's again: its children keep their pods, and its release begins anew.
func TestRestoredFromABackup(t *testing.T) {
	for name, withOwners := range map[string]bool{"without owner references": false, "with owner references": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
			cr := s.deploy("hello", kit.Greet("before"), kit.Set("networkPolicy.enabled", true))
			s.edit("hello", kit.Greet("after"))
			s.awaitGreeting("hello", "after")
			s.awaitDeployed("hello")
			s.settled(operator)
			backup := s.backup()
			if len(backup) != 6 {
				t.Fatalf("the backup has %d objects, not 2 records, 3 children and a Welcome", len(backup))
			}
			s.delete(cr)
			s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")

			var restored *unstructured.Unstructured
			for _, object := range backup {
				restored = s.restore(object, withOwners)
			}
			policy := &networkingv1.NetworkPolicy{}
			s.get(policy, "hello")
			before := s.objectsOf("hello")
			s.awaitDeployed("hello")
			s.settled(operator)
			s.keptSince(before, restored)
			uid := policy.UID
			s.get(policy, "hello")
			if policy.UID != uid || !metav1.IsControlledBy(policy, restored) {
				t.Errorf("the NetworkPolicy was made anew, or is not owned: %v", policy.ObjectMeta)
			}
			records := s.records("hello")
			if len(records) != 1 || !metav1.IsControlledBy(&records[0], restored) || records[0].Name != "sh.helm.release.v1.hello.v1" {
				t.Errorf("the release did not begin anew: %v", names(records))
			}
			s.edit("hello", kit.Greet("again"), kit.Set("networkPolicy.enabled", false))
			s.awaitGreeting("hello", "again")
			s.awaitDeployed("hello")
			s.awaitGone(policy, "hello")
			s.bringUp("hello")
		})
	}
}

// What the chart makes by chance is made anew after a restore, over what was restored, whether records and
// status are restored or not. A restored status keeps the hooks of an installation from running again, and
// what driftDetection leaves to others stays.
func TestRestoredFromABackupByChance(t *testing.T) {
	const hook = `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-hooked, annotations: {helm.sh/hook: post-install}}`
	for name, c := range map[string]struct{ withStatus, ignored bool }{"without a status": {}, "with its status": {withStatus: true}, "left to others": {ignored: true}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			settings := settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, withPassword+hook)}
			if c.ignored {
				settings.watches += "  driftDetection: {ignore: [{target: {kind: ConfigMap}, paths: [/data/password]}]}\n"
			}
			operator := s.ownOperator(settings)
			cr := s.deploy("hello")
			s.settled(operator)
			password := s.generated("password")
			backup := s.backup()
			s.delete(cr)
			s.awaitGone(&corev1.ConfigMap{}, "hello-generated")
			operator.Stop()
			s.must(client.IgnoreNotFound(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-hooked")}))) // or the garbage collector would

			var restored *unstructured.Unstructured
			for _, object := range backup {
				if object.GetName() == "hello-hooked" {
					continue
				}
				restored = s.restore(object, false)
				if status, ok := object.Object["status"]; ok && c.withStatus && object.GetKind() == "Welcome" {
					restored.Object["status"] = status
					s.must(env.Client.Status().Update(ctx, restored))
				}
			}
			operator = s.ownOperator(settings)
			s.await("the release begins anew", func() error {
				records := s.records("hello")
				if len(records) != 1 || !metav1.IsControlledBy(&records[0], restored) {
					return fmt.Errorf("the records are %v", names(records))
				}
				return nil
			})
			s.settled(operator)
			s.awaitDeployed("hello")
			if kept := s.generated("password") == password; kept != c.ignored {
				t.Errorf("the password was kept: %t", kept)
			}
			if ran := s.find(&corev1.ConfigMap{}, "hello-hooked") == nil; ran == c.withStatus {
				t.Errorf("the hook has run: %t", ran)
			}
		})
	}
}

// The garbage collector removes what a restored owner reference gives to an owner that is gone. It is made anew.
func TestRestoredFromABackupWhileGarbageIsCollected(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello", kit.Greet("myfriends"))
	s.settled(operator)
	backup := s.backup()
	s.delete(cr)
	var restored *unstructured.Unstructured
	for _, object := range backup {
		restored = s.restore(object, true)
	}
	// What the garbage collector takes first is made anew, without a status.
	s.await("the children are of the Welcome of now", func() error {
		for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			if err := s.find(child, "hello"); err != nil {
				return err
			}
			if !metav1.IsControlledBy(child, restored) {
				return fmt.Errorf("%T is owned by %v", child, child.GetOwnerReferences())
			}
		}
		return nil
	})
	s.bringUp("hello")
}

// What does not say that it is of this Welcome is left alone, and the condition says what it lacks.
func TestRestoredObjectWithoutItsMarks(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello", kit.Greet("myfriends"))
	s.settled(operator)
	backup := s.backup()
	s.delete(cr)
	for _, object := range backup {
		if object.GetKind() == "Service" {
			labels := object.GetLabels()
			delete(labels, "welcome")
			object.SetLabels(labels)
		}
		s.restore(object, false)
	}
	before := s.objectsOf("hello")
	s.awaitReason("hello", "ObjectInTheWay", `Service "hello"`, "not controlled by this custom resource", "label welcome=hello")
	s.keptSince(before, nil)

	_, err := s.kubectl("", "label", "service", "hello", "welcome=hello")
	s.must(err)
	s.awaitDeployed("hello")
	s.keptSince(before, s.welcome("hello"))
}

// An object that is restored while its Welcome lives is in the way. The condition says how to give it back to
// the Welcome, instead of deleting it with what is in it.
func TestRestoredWhileItsWelcomeLives(t *testing.T) {
	s := newScene(t)
	s.grant("", "persistentvolumeclaims")
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{ .Release.Name }}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)})
	s.deploy("hello")
	s.settled(operator)
	s.pause()
	claim := kit.Object("v1", "PersistentVolumeClaim")
	s.get(claim, "hello")
	backup := claim.DeepCopy()
	claim.SetFinalizers(nil) // nobody else takes kubernetes.io/pvc-protection off
	s.must(env.Client.Update(ctx, claim))
	s.must(env.Client.Delete(ctx, claim))
	restored := s.restore(backup, false)
	s.edit("hello", kit.Pause(false))
	const kept, kind = policyOfHelm + "=keep", madeForKind + "=Welcome." + kit.Group
	s.awaitReason("hello", "ObjectInTheWay", `PersistentVolumeClaim "hello"`, "mark it, and it is taken over: annotation "+kind+", annotation "+kept)

	for _, annotations := range [][]string{{kept, kind}, {policyOfHelm + "-"}} {
		_, err := s.kubectl("", append([]string{"annotate", "persistentvolumeclaim", "hello"}, annotations...)...)
		s.must(err)
		s.awaitDeployed("hello")
	}
	s.await("it is the Welcome's", func() error {
		s.get(claim, "hello")
		if claim.GetUID() != restored.GetUID() || !metav1.IsControlledBy(claim, s.welcome("hello")) {
			return fmt.Errorf("it was made anew, or is not owned: %v", claim)
		}
		return nil
	})
}

// What is restored into another namespace still says in which one it was, and is taken over once it says where it is.
func TestRestoredIntoAnotherNamespace(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Greet("myfriends"), kit.Set("service.type", "ClusterIP"))
	s.settled(operator)
	backup := s.backup()
	s.namespace = s.newNamespace("another-")
	for _, object := range backup {
		for _, assigned := range []string{"clusterIP", "clusterIPs"} { // which Velero leaves out
			unstructured.RemoveNestedField(object.Object, "spec", assigned)
		}
		s.restore(object, false)
	}
	s.awaitReason("hello", "ObjectInTheWay", "meta.helm.sh/release-namespace="+s.namespace)
	before := s.objectsOf("hello")
	_, err := s.kubectl("", "annotate", "deployments,services", "--selector=webapp.demo.welcome.domain/managed-by=welcome-operator", "--overwrite", "meta.helm.sh/release-namespace="+s.namespace)
	s.must(err)
	s.awaitDeployed("hello")
	for i, child := range s.objectsOf("hello") {
		if child.GetUID() != before[i].GetUID() || !metav1.IsControlledBy(child, s.welcome("hello")) {
			t.Errorf("%T was made anew, or is not owned: %v", child, child)
		}
	}
}

// An object with all marks that somebody else owns is theirs.
func TestMarkedObjectOfAnotherOwner(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	cr := s.deploy("hello", kit.Greet("myfriends"))
	s.settled(operator)
	backup := s.backup()
	s.delete(cr)
	other := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "other")}
	s.must(env.Client.Create(ctx, other))
	for _, object := range backup {
		if object.GetKind() == "Deployment" {
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: other.UID}})
		}
		s.restore(object, object.GetKind() == "Deployment")
	}
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	s.awaitReason("hello", "ObjectInTheWay", `Deployment "hello"`)
	s.delete(s.welcome("hello"))
	s.unharmed(deployment)
}

// A ConfigMap with the name of a release record, that the operator did not make, is not touched.
func TestForeignRecordInTheWay(t *testing.T) {
	s := newScene(t)
	s.operator()
	foreign := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "sh.helm.release.v1.hello.v1"), Data: map[string]string{"release": "helm install hello"}}
	foreign.Labels = map[string]string{"owner": "helm", "name": "hello", "status": "deployed", "version": "1"}
	s.must(env.Client.Create(ctx, foreign))
	cr := s.create("hello")
	s.awaitReason("hello", "ObjectInTheWay", fmt.Sprintf("ConfigMap %q", foreign.Name), "not controlled by this custom resource")
	s.delete(cr)
	s.unharmed(foreign)
	if slices.ContainsFunc(s.records("hello"), func(record corev1.ConfigMap) bool { return record.Name != foreign.Name }) {
		t.Errorf("there are other records: %v", names(s.records("hello")))
	}
}

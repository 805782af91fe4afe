package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	policyOfHelm = "helm.sh/resource-policy"
	madeForKind  = kit.Group + "/custom-resource"
)

// keeper returns the settings of an operator that makes tests/charts/keep of a Welcome, with the rights for
// that.
func (s *scene) keeper() settings {
	s.Helper()
	s.grant("", "persistentvolumeclaims")
	return settings{namespaces: []string{s.namespace}, watches: strings.Replace(watchesWith(""), "helm-charts/welcome", kit.File("tests/charts/keep"), 1)}
}

// keeping is a scene with the Welcome "hello" of that chart, the objects that it keeps, and a garbage
// collector.
func keeping(t *testing.T) (s *scene, only settings, operator *process, before []client.Object) {
	t.Helper()
	s = newScene(t)
	s.collectGarbage()
	only = s.keeper()
	operator = s.ownOperator(only)
	s.deploy("hello")
	s.settled(operator)
	return s, only, operator, s.kept()
}

// kept are the objects that the chart of the Welcome "hello" keeps, as they are now.
func (s *scene) kept() []client.Object {
	s.Helper()
	kept := []client.Object{&corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}}
	for _, object := range kept {
		s.get(object, "hello-kept")
	}
	return kept
}

// keptBy fails unless the kept objects are those of before, have no owner, and are in the status of the
// Welcome "hello" if that exists.
func (s *scene) keptBy(welcome bool, before []client.Object) {
	s.Helper()
	var want []string
	for i, object := range s.kept() {
		if object.GetUID() != before[i].GetUID() || object.GetDeletionTimestamp() != nil || len(object.GetOwnerReferences()) > 0 {
			s.Errorf("%T is not what it was, %s without an owner, but %+v", object, before[i].GetUID(), object)
		}
		want = append(want, fmt.Sprintf("v1 %s hello-kept %s", []string{"ConfigMap", "PersistentVolumeClaim"}[i], object.GetUID()))
	}
	if welcome {
		s.await("the status proves it", func() error { return s.unowned(want...) })
	}
}

// unowned is nil if the status of the Welcome "hello" lists exactly these objects as those without an owner
// reference.
func (s *scene) unowned(want ...string) error {
	listed, _, _ := unstructured.NestedSlice(s.welcome("hello").Object, "status", "release", "unowned")
	var got []string
	for _, item := range listed {
		fields := item.(map[string]any)
		got = append(got, fmt.Sprintf("%v %v %v %v", fields["apiVersion"], fields["kind"], fields["name"], fields["uid"]))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("it lists %q, not %q", got, want)
	}
	return nil
}

// call changes whom the Welcome "hello" greets, which the kept objects say, and waits until that is applied.
func (s *scene) call(name string) {
	s.Helper()
	s.edit("hello", kit.Greet(name))
	s.await("the edit is applied", func() error { return kit.Seen(s.welcome("hello")) })
	s.awaitDeployed("hello")
}

// changeKept changes a kept ConfigMap.
func (s *scene) changeKept(change func(*corev1.ConfigMap)) {
	s.Helper()
	config := s.kept()[0].(*corev1.ConfigMap)
	before := config.DeepCopy()
	change(config)
	s.must(env.Client.Patch(ctx, config, client.MergeFrom(before)))
}

// What a chart keeps outlives its Welcome, however that is deleted, and one of the same name takes it back
// with what is in it.
func TestKeptObjectsOutliveTheirWelcome(t *testing.T) {
	for name, remove := range map[string]func(s *scene, operator *process){
		"deleted": func(s *scene, _ *process) {
			_, err := s.kubectl("", "delete", "welcome", "hello")
			s.must(err)
			s.awaitEvent("hello", "Uninstalled", "Deleted: Deployment hello, ConfigMap hello; kept: ", "ConfigMap hello-kept", "PersistentVolumeClaim hello-kept")
		},
		"in the foreground": func(s *scene, _ *process) {
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=foreground")
			s.must(err)
		},
		"in the foreground, and the garbage collector is faster": func(s *scene, operator *process) {
			s.must(operator.Freeze())
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=foreground", "--wait=false")
			s.must(err)
			s.awaitGone(&appsv1.Deployment{}, "hello")
			s.must(operator.Thaw())
		},
		"by force": func(s *scene, operator *process) {
			operator.Stop()
			_, err := s.kubectl("", "delete", "welcome", "hello", "--wait=false")
			s.must(err)
			_, err = s.kubectl("", "patch", "welcome", "hello", "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
			s.must(err)
		},
		"as an orphan": func(s *scene, _ *process) {
			_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=orphan")
			s.must(err)
			s.must(env.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: objectMeta(s.namespace, "hello")}))
			s.must(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, only, operator, before := keeping(t)
			s.keptBy(true, before)
			s.changeKept(func(c *corev1.ConfigMap) { c.Data["theirs"] = "precious" })
			remove(s, operator)
			s.awaitGone(kit.Welcome(s.namespace, "hello"), "hello")
			s.awaitGone(&appsv1.Deployment{}, "hello")
			s.awaitGone(&corev1.ConfigMap{}, "hello")
			s.await("the records are gone", func() error { return s.hasRecords("hello", 0) })
			s.keptBy(false, before)

			if operator.HasEnded() {
				s.ownOperator(only)
			}
			s.deploy("hello")
			s.keptBy(true, before)
			if config := s.kept()[0].(*corev1.ConfigMap); !maps.Equal(config.Data, map[string]string{"from": "chart", "theirs": "precious"}) {
				t.Errorf("the data are %v", config.Data)
			}
		})
	}
}

// What a new version of the chart, or another spec, no longer has stays, without an owner and without a claim
// on it, until it is wanted again.
func TestUpgradeThatDropsWhatIsKept(t *testing.T) {
	s, only, operator, before := keeping(t)
	operator.Stop() // and let it be of an older version
	s.changeKept(func(c *corev1.ConfigMap) {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.welcome("hello"), s.welcome("hello").GroupVersionKind())}
		delete(c.Annotations, madeForKind)
	})
	s.edit("hello", kit.Greet("dropped"))
	s.ownOperator(only)
	s.await("the status no longer lists it", func() error { return s.unowned() })
	s.keptBy(false, before)

	s.call("again")
	s.keptBy(true, before)
	s.call("dropped")
	s.delete(s.welcome("hello"))
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.keptBy(false, before)
}

// What a chart keeps no longer is the Welcome's, as all else, and goes with it.
func TestChartThatKeepsNoLonger(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.ownOperator(s.keeper())
	s.deploy("hello")
	before := s.kept()
	s.call("owned")
	s.await("no object is without an owner", func() error { return s.unowned() })
	for i, object := range s.kept() {
		if object.GetUID() != before[i].GetUID() || !metav1.IsControlledBy(object, s.welcome("hello")) || object.GetAnnotations()[policyOfHelm] != "" || object.GetAnnotations()[madeForKind] != "" {
			t.Errorf("%T is not the Welcome's: %+v", object, object)
		}
	}
	s.call("kept again")
	s.keptBy(true, before)

	s.call("owned")
	s.await("no object is without an owner", func() error { return s.unowned() })
	s.delete(s.welcome("hello"))
	s.awaitGone(&corev1.ConfigMap{}, "hello-kept")
	s.await("the claim goes", func() error { // it has a finalizer, for which nobody works here
		claim := &corev1.PersistentVolumeClaim{}
		if err := s.find(claim, "hello-kept"); err == nil && claim.DeletionTimestamp == nil {
			return errors.New("it is not deleted")
		}
		return nil
	})
}

// What is kept is looked after like everything else, also by the next process, which knows it by its UID,
// whatever marks it has lost. It costs nothing where nothing is to be done.
func TestDriftOfWhatIsKept(t *testing.T) {
	s := newScene(t)
	only := s.keeper()
	operator := s.ownOperator(only)
	s.deploy("hello")
	s.settled(operator)
	before := s.kept()
	s.keptBy(true, before)
	repaired := func(what string, change func(*corev1.ConfigMap)) {
		t.Helper()
		s.changeKept(change)
		s.await(what+" is put back", func() error {
			config := s.kept()[0].(*corev1.ConfigMap)
			if config.Data["from"] != "chart" || config.Labels["app"] != "hello" || config.Labels[kit.ManagedBy] != "welcome-operator" || config.Annotations[policyOfHelm] != "keep" || config.Annotations["meta.helm.sh/release-name"] != "hello" || config.Annotations[madeForKind] != "Welcome."+kit.Group {
				return fmt.Errorf("%v %v %v", config.Data, config.Labels, config.Annotations)
			}
			return nil
		})
	}
	for range 2 { // a fourth repair within a minute would be one too many: see TestFightHasAnEnd
		repaired("a value", func(c *corev1.ConfigMap) { c.Data["from"] = "somebody" })
		repaired("the operator's label", func(c *corev1.ConfigMap) { delete(c.Labels, kit.ManagedBy) })
		repaired("all annotations", func(c *corev1.ConfigMap) { c.Annotations = nil })
		s.settled(operator)
		s.keptBy(true, before)

		operator.Stop()
		from := s.record()
		operator = s.ownOperator(only)
		s.await("it is reconciled", func() error { return atLeast(operator.reconciles(t), 1) })
		s.settled(operator)
		for _, request := range from.of(operator) {
			if strings.HasPrefix(request.ObjectRef.Name, "hello") || request.Writes() {
				t.Errorf("a restart asks: %s", request)
			}
		}
	}

	from, reconciles := s.record(), operator.reconciles(t)
	s.edit("hello", kit.Annotate("example.com/poke", "now"))
	s.await("the edit is reconciled", func() error { return atLeast(operator.reconciles(t)-reconciles, 1) })
	s.settled(operator)
	if requests := from.of(operator); len(requests) > 0 {
		t.Errorf("an idle reconcile asks the API server: %s", requests)
	}

	// Stripped of all while nobody looked.
	operator.Stop()
	s.changeKept(func(c *corev1.ConfigMap) { c.Annotations = nil })
	operator = s.ownOperator(only)
	repaired("what was lost", func(*corev1.ConfigMap) {})
	s.keptBy(true, before)

	s.must(env.Client.Delete(ctx, before[0]))
	s.await("it is there again", func() error {
		again := &corev1.ConfigMap{}
		if err := s.find(again, "hello-kept"); err != nil {
			return err
		}
		before[0] = again
		return nil
	})
	s.keptBy(true, before)
	s.settled(operator)
	s.must(s.hasRecords("hello", 1))
}

// The operator was killed when it had made what is to be kept, and before it could write down that it had.
func TestKilledBeforeWhatIsKeptIsProven(t *testing.T) {
	s := newScene(t)
	only := s.keeper()
	first := s.ownOperator(only)
	asked, letGo := s.holdDeployments()
	s.create("hello")
	asked()
	s.killWaiting(first)
	letGo()
	before := s.kept()
	s.must(s.unowned())
	s.ownOperator(only)
	s.awaitDeployed("hello")
	s.keptBy(true, before)
}

// Never deployed, a Welcome leaves what it has made to be kept.
func TestFailedInstallationLeavesWhatIsKept(t *testing.T) {
	s := newScene(t)
	only := s.keeper()
	s.ownOperator(only)
	lift := s.none("count/deployments.apps", probeDeployment(s.namespace))
	s.create("hello")
	s.awaitCondition("hello", "Ready", "False", "quota")
	before := s.kept()
	s.delete(s.welcome("hello"))
	s.keptBy(false, before)
	lift()
	s.deploy("hello")
	s.keptBy(true, before)
}

// An owner reference that is still there, as an older version of the operator has made it, is taken off: when
// the object is looked at, and at the latest before its Welcome goes.
func TestKeptObjectWithAnOwnerReference(t *testing.T) {
	for name, deleted := range map[string]bool{"it stays": false, "it is deleted": true} {
		t.Run(name, func(t *testing.T) {
			s, only, operator, before := keeping(t)
			operator.Stop()
			welcome := s.welcome("hello")
			s.changeKept(func(c *corev1.ConfigMap) {
				c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(welcome, welcome.GroupVersionKind())}
				delete(c.Annotations, madeForKind)
			})
			if deleted {
				s.must(env.Client.Delete(ctx, welcome))
			}
			s.ownOperator(only)
			if deleted {
				s.awaitGone(welcome, "hello")
				s.awaitGone(&appsv1.Deployment{}, "hello")
			} else {
				s.await("it is nobody's", func() error {
					if owners := s.kept()[0].GetOwnerReferences(); len(owners) > 0 {
						return fmt.Errorf("%v", owners)
					}
					return nil
				})
			}
			s.keptBy(!deleted, before)
		})
	}
}

// Who annotates an object of a Welcome keeps it, and no longer does who takes the annotation off.
func TestKeptByHand(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.ownOperator(s.keeper())
	s.deploy("hello")
	owners := func(want int) {
		s.Helper()
		s.await(fmt.Sprintf("it has %d owners", want), func() error {
			config := &corev1.ConfigMap{}
			s.get(config, "hello")
			if len(config.OwnerReferences) != want {
				return fmt.Errorf("%v", config.OwnerReferences)
			}
			return nil
		})
	}
	owners(1)
	_, err := s.kubectl("", "annotate", "configmap", "hello", policyOfHelm+"=keep")
	s.must(err)
	owners(0)
	_, err = s.kubectl("", "annotate", "configmap", "hello", policyOfHelm+"-")
	s.must(err)
	owners(1)
	_, err = s.kubectl("", "annotate", "configmap", "hello", policyOfHelm+"=keep")
	s.must(err)
	owners(0)
	_, err = s.kubectl("", "delete", "welcome", "hello", "--cascade=foreground")
	s.must(err)
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.get(&corev1.ConfigMap{}, "hello")
}

// Somebody's own object is not taken for a kept one, nor is that of a custom resource of the same name and another kind.
func TestKeptObjectOfSomebodyElse(t *testing.T) {
	s := newScene(t)
	s.ownOperator(s.keeper())
	foreign := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, "hello-kept"), Data: map[string]string{"from": "somebody"}}
	foreign.Annotations = map[string]string{policyOfHelm: "keep"}
	s.must(env.Client.Create(ctx, foreign))
	cr := s.create("hello")
	s.awaitReason("hello", "ObjectInTheWay", `ConfigMap "hello-kept"`)
	s.delete(cr)
	s.unharmed(foreign)
}

// Many charts write into labels which version of theirs, which revision or which value an object is of. The labels of what is there
// are then others than the chart wants, when a Welcome is made again: what is kept is known by its marks, and what was orphaned by
// the other labels.
func TestTakingBackWhatHasOtherLabelsByNow(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	const labels = `
  labels: {app: {{ .Release.Name }}, helm.sh/revision: {{ .Release.Revision | quote }}, chart: {{ .Chart.Name }}-{{ .Release.Revision }}`
	s.ownOperator(settings{namespaces: []string{s.namespace}, watches: watchesWithMore(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kept
  annotations: {helm.sh/resource-policy: keep}`+labels+`, greets: {{ .Values.name }}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-more`+labels+`}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: "post-install,post-upgrade"}`+labels+`}`)})
	uids := func() (uids []types.UID) {
		s.Helper()
		for _, name := range []string{"hello-kept", "hello-more"} {
			config := &corev1.ConfigMap{}
			s.get(config, name)
			uids = append(uids, config.UID)
		}
		return uids
	}
	cr := s.deploy("hello", kit.Greet("before"))
	s.call("after")
	s.awaitCollected()
	before := uids()
	_, err := s.kubectl("", "delete", "welcome", "hello", "--cascade=orphan")
	s.must(err)
	s.awaitGone(cr, "hello")
	s.deploy("hello", kit.Greet("again"))
	if after := uids(); !slices.Equal(after, before) {
		t.Errorf("objects %v became %v", before, after)
	}
	kept := &corev1.ConfigMap{}
	if s.get(kept, "hello-kept"); kept.Labels["greets"] != "again" || kept.Labels["helm.sh/revision"] != "1" {
		t.Errorf("what is kept has the labels %v", kept.Labels)
	}
}

// Two kinds have custom resources of one name, one after the other. What the chart of the first keeps is not the second's.
func TestKeptObjectOfANamesake(t *testing.T) {
	s := newScene(t)
	only := s.keeper()
	welcomes := &apiextensionsv1.CustomResourceDefinition{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: kit.CRD}, welcomes))
	others := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "others." + kit.Group}, Spec: welcomes.Spec}
	others.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Other", ListKind: "OtherList", Plural: "others", Singular: "other"}
	s.must(env.Client.Create(ctx, others))
	s.Cleanup(func() { s.must(env.Client.Delete(ctx, others)) })
	// config/policy bounds the account of the deployed operator to the kinds of its watches.yaml.
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, s.namespace)}))
	s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", s.namespace), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: s.namespace}},
	}))
	only.account = s.namespace
	only.watches += strings.Replace(only.watches, "kind: Welcome", "kind: Other", 1)
	other := kit.Object(kit.Group+"/v1", "Other")
	other.SetNamespace(s.namespace)
	other.SetName("hello")
	s.await("the API server serves it", func() error { return env.Client.Create(ctx, other.DeepCopy(), client.DryRunAll) })
	s.ownOperator(only)
	s.deploy("hello")
	before := s.kept()
	s.delete(s.welcome("hello"))
	s.keptBy(false, before)

	s.must(env.Client.Create(ctx, other))
	s.await("it is refused by name", func() error {
		s.get(other, "hello")
		ready, err := kit.Condition(other, "Ready")
		if err != nil {
			return err
		}
		return says(ready.Message, []string{`"hello-kept"`, "annotation " + madeForKind + "=Other." + kit.Group})
	})
	s.must(env.Client.Delete(ctx, other))
	s.awaitGone(other, "hello")
	after := s.kept()
	for i, object := range after {
		if object.GetResourceVersion() != before[i].GetResourceVersion() {
			t.Errorf("%T was changed: %+v", object, object)
		}
	}
	s.deploy("hello")
	s.keptBy(true, before)
}

// Restored from a backup, what is kept has another UID than the one in the status, if that was restored: its marks decide.
func TestKeptObjectsRestoredFromABackup(t *testing.T) {
	s := newScene(t)
	only := s.keeper()
	operator := s.ownOperator(only)
	s.deploy("hello")
	s.settled(operator)
	config := s.kept()[0].(*corev1.ConfigMap)
	operator.Stop()
	s.must(env.Client.Delete(ctx, config))
	restored := &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, config.Name), Data: map[string]string{"from": "backup", "theirs": "precious"}}
	restored.Labels, restored.Annotations = config.Labels, config.Annotations
	s.must(env.Client.Create(ctx, restored))
	before := s.kept()
	s.ownOperator(only)
	s.keptBy(true, before)
	s.awaitDeployed("hello")
	if data := s.kept()[0].(*corev1.ConfigMap).Data; !maps.Equal(data, map[string]string{"from": "chart", "theirs": "precious"}) {
		t.Errorf("its data are %v", data)
	}
}

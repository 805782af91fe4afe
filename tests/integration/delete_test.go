package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Nothing collects garbage here: what is gone, Helm has uninstalled.
func TestDelete(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	cr := s.create("hello", kit.Set("networkPolicy.enabled", true))
	s.create("other")
	s.awaitDeployed("hello")
	s.awaitDeployed("other")
	s.edit("hello", kit.Greet("two revisions"))
	s.await("a second record", func() error { return s.hasRecords("hello", 2) })
	s.awaitDeployed("hello")
	s.settled(operator)

	before := s.record()
	s.delete(cr)
	requests := before.of(operator)
	t.Logf("a deletion costs %s", requests)
	for _, request := range requests {
		if request.Verb == "get" && request.ObjectRef.Name == "sh.helm.release.v1.hello.v1" {
			t.Error("a record of before is read to be deleted")
		}
	}
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.awaitGone(&corev1.Service{}, "hello")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello")
	s.must(s.hasRecords("hello", 0))

	s.get(&appsv1.Deployment{}, "other")
	s.get(&corev1.Service{}, "other")
	s.must(s.hasRecords("other", 1))
}

// An object that somebody deletes in the foreground, as the garbage collector does where Argo CD deletes its Welcome, is not
// deleted once more: the API server answers to that with a conflict until it is gone, and each would be told as a failure.
func TestDeleteWhatIsBeingDeleted(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	cr := s.deploy("hello")
	s.settled(operator)
	_, err := s.kubectl("", "delete", "deployment", "hello", "--cascade=foreground", "--wait=false") // nobody collects garbage: it stays
	s.must(err)
	before := s.record()
	s.delete(cr)
	for _, request := range before.of(operator) {
		if request.ResponseStatus.Code == http.StatusConflict {
			t.Errorf("it asks for %s", request)
		}
	}
}

// A name can be used again at once, although the first one's objects are just going.
func TestDeleteAndCreateAgain(t *testing.T) {
	s := newScene(t)
	s.operator()
	for _, greeting := range []string{"first", "second", "third"} {
		cr := s.create("hello", kit.Greet(greeting))
		s.awaitGreeting("hello", greeting)
		s.awaitDeployed("hello")
		s.delete(cr)
	}
}

// One that is gone before its objects are made, although it had the finalizer, leaves nothing. The API server
// deletes what had none when it looked.
func TestGoneWhileItIsInstalled(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	asked, letGo := s.holdDeployments()
	s.create("hello")
	asked()
	s.forceOff("hello")
	letGo()
	s.awaitGone(&appsv1.Deployment{}, "hello")
	s.awaitGone(&corev1.Service{}, "hello")
	s.await("its record is gone", func() error { return s.hasRecords("hello", 0) })

	s.deploy("hello")
	if err := s.hasRecords("hello", 1); err != nil {
		t.Error(err)
	}
}

// A hundred Welcomes that are deleted and kept by the finalizer of somebody else, who writes to them now and
// then, hold up nobody.
func TestForeignFinalizersHoldUpNobody(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	const theirs = "example.com/stays"
	setFinalizers := func(name string, finalizers ...string) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		s.must(err)
		s.must(env.Client.Patch(ctx, kit.Welcome(s.namespace, name), client.RawPatch(types.MergePatchType, patch)))
	}
	var kept []string
	for i := range 100 {
		name := fmt.Sprintf("kept-%d", i)
		s.create(name, func(w *unstructured.Unstructured) { w.SetFinalizers([]string{theirs}) })
		kept = append(kept, name)
	}
	for _, name := range kept {
		s.awaitDeployed(name)
		s.must(env.Client.Delete(ctx, kit.Welcome(s.namespace, name)))
	}
	for _, name := range kept {
		s.awaitGone(&appsv1.Deployment{}, name)
	}
	for round := range 3 {
		for _, name := range kept {
			s.edit(name, kit.Annotate("example.com/round", fmt.Sprint(round)))
		}
		name := fmt.Sprintf("hello-%d", round)
		start := time.Now()
		s.create(name)
		s.awaitExists(&appsv1.Deployment{}, name)
		if took := time.Since(start); took > 25*time.Second { // 1 s on a machine that has nothing else to do; who waits for them does so for 30 s
			t.Errorf("the Deployment of a new Welcome took %s", took)
		}
	}
	for _, name := range kept {
		setFinalizers(name)
		s.awaitGone(kit.Welcome(s.namespace, name), name)
	}
}

// Nor do those on release records, of a tenant or of a controller that puts them on every ConfigMap. What
// they keep counts for nothing, but that it has its name.
func TestFinalizersOfRecordsHoldUpNobody(t *testing.T) {
	s := newScene(t)
	s.ownOperator(settings{namespaces: []string{s.namespace}})
	setFinalizers := func(record corev1.ConfigMap, finalizers ...string) {
		before := record.DeepCopy()
		record.Finalizers = finalizers
		s.must(env.Client.Patch(ctx, &record, client.MergeFrom(before)))
	}
	var kept []corev1.ConfigMap
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("kept-%d", i))
		s.create(names[i])
	}
	for _, name := range names {
		s.awaitDeployed(name)
		s.edit(name, kit.Greet("again"))
		s.awaitGreeting(name, "again")
		s.await("there are two revisions", func() error { return s.hasRecords(name, 2) })
		kept = append(kept, s.records(name)...)
	}
	forged := kept[0].DeepCopy() // of a revision that nobody has made
	forged.ObjectMeta = objectMeta(s.namespace, strings.TrimSuffix(kept[0].Name, ".v1")+".v3000000")
	forged.Labels, forged.OwnerReferences = kept[0].Labels, kept[0].OwnerReferences
	s.must(env.Client.Create(ctx, forged))
	kept = append(kept, *forged)
	for _, record := range kept {
		setFinalizers(record, "example.com/stays")
	}
	start := time.Now()
	s.edit(names[0], kit.Greet("edited"))
	s.awaitGreeting(names[0], "edited")
	for _, name := range names {
		s.must(env.Client.Delete(ctx, kit.Welcome(s.namespace, name)))
	}
	for _, name := range names {
		s.awaitGone(kit.Welcome(s.namespace, name), name)
	}
	s.deploy("another")
	if took := time.Since(start); took > 25*time.Second { // with a wait for each it were 30 s, and more each time
		t.Errorf("it took %s", took)
	}
	s.create(names[1])
	s.awaitCondition(names[1], "Ready", "False", "sh.helm.release.v1."+names[1]+".v1", "is being deleted", "these finalizers keep it: example.com/stays")
	for _, name := range names {
		for _, record := range s.records(name) {
			setFinalizers(record)
		}
	}
	s.awaitDeployed(names[1])
}

// Somebody's policy does not let an object go. The custom resource says so, is tried again, but not all the time, and goes
// when it can.
func TestDeleteRefused(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	cr := s.deploy("hello")
	lift := s.refuse(admissionregistrationv1.Delete, "", "services", "Services stay", func() error {
		return env.Client.Delete(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello")}, client.DryRunAll)
	})
	s.settled(operator)

	before, reconciles := s.record(), operator.reconciles(t)
	s.must(env.Client.Delete(ctx, cr))
	s.awaitCondition("hello", "ReleaseFailed", "True", "Services stay")
	s.awaitCondition("hello", "Ready", "False", "Services stay")
	s.await("it is tried again", func() error { return atLeast(operator.reconciles(t)-reconciles, 5) })
	if written := before.of(operator).Statuses(); len(written) > 4 { // fewer than reconciles; mostly three
		t.Errorf("%d reconciles wrote %d statuses, each of which causes one more reconcile", operator.reconciles(t)-reconciles, len(written))
	}

	lift()
	s.awaitGone(cr, "hello")
	s.awaitGone(&corev1.Service{}, "hello")
}

func TestDeleteWithoutRelease(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.must(env.Client.Create(ctx, &corev1.Service{ObjectMeta: objectMeta(s.namespace, "hello"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	cr := s.create("hello") // can never be installed
	s.awaitCondition("hello", "Deployed", "False")
	s.delete(cr)
	s.get(&corev1.Service{}, "hello")
}

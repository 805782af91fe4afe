package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// movers is how many custom resources move from each stock operator, under load.
var movers = flag.Int("movers", 4, "custom resources in each migration")

// stockOperators are those of operator-sdk and helm-operator-plugins: their arguments, and the settings of an
// entry by which they watch the objects that they have created.
var stockOperators = map[string]struct {
	program, settings, finalizer string
}{
	"operator-sdk":          {"helm-operator", "", "helm.sdk.operatorframework.io/uninstall-release"},
	"helm-operator-plugins": {"helm-operator-plugins", "  watchDependentResources: false\n", "uninstall-helm-release"},
}

const welcomePins = "  overrideValues: {image: " + image + ", imagePullPolicy: IfNotPresent}\n"

// stockOperator runs a stock operator for one kind until the test, or its caller, stops it.
func (s *scene) stockOperator(name, kind, chart, settings string) *controlplane.Operator {
	s.Helper()
	kubeconfig, err := env.Kubeconfig(s.namespace, env.Admin)
	s.must(err)
	watches := s.write("watches.yaml", entryOf(kind, chart, settings+stockOperators[name].settings))
	stock, err := env.RunOperator(name+".log", []string{"KUBECONFIG=" + kubeconfig, "WATCH_NAMESPACE=" + s.namespace}, kit.File("bin", stockOperators[name].program),
		"run", "--watches-file="+watches, "--max-concurrent-reconciles=4", "--reconcile-period=10h")
	s.must(err)
	s.Cleanup(func() {
		stock.Stop()
		if s.Failed() {
			s.Logf("last lines of %s:\n%s", name, stock.LastLines(30))
		}
	})
	s.await(name+" is ready", func() error { return stock.Ready(ctx) })
	return stock
}

// runPods plays a node: it sets pods to running and ready, and ends those that are deleted.
func (s *scene) runPods() {
	s.Helper()
	stop, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for stop.Err() == nil {
			pods := &corev1.PodList{}
			if env.Client.List(ctx, pods, client.InNamespace(s.namespace)) != nil {
				continue
			}
			for _, pod := range pods.Items {
				if pod.DeletionTimestamp != nil {
					_ = env.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0)) // gone already
				} else if pod.Status.Phase != corev1.PodRunning {
					pod.Status.Phase = corev1.PodRunning
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
					_ = env.Client.Status().Update(ctx, &pod) // the next round does
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	s.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// identities are the UIDs of all that runs in the namespace, including pods and the hashes of their
// templates.
func (s *scene) identities() map[string]types.UID {
	s.Helper()
	found := map[string]types.UID{}
	for _, list := range []*unstructured.UnstructuredList{
		kit.List("apps/v1", "Deployment"), kit.List("apps/v1", "ReplicaSet"), kit.List("v1", "Pod"), kit.List("v1", "Service"), kit.List("v1", "ServiceAccount"), kit.List("v1", "PersistentVolumeClaim"),
	} {
		s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace)))
		for _, object := range list.Items {
			found[object.GetKind()+"/"+object.GetName()] = object.GetUID()
		}
	}
	delete(found, "ServiceAccount/default") // each namespace has it
	return found
}

// sameSince fails unless exactly the same runs as before, and logs how much that is.
func (s *scene) sameSince(what string, before map[string]types.UID) {
	s.Helper()
	now := s.identities()
	pods, changed := 0, 0
	for name, uid := range now {
		if strings.HasPrefix(name, "Pod/") {
			pods++
		}
		if before[name] != uid {
			changed++
			s.Errorf("%s: %s is new", what, name)
		}
	}
	for name := range before {
		if now[name] == "" {
			changed++
			s.Errorf("%s: %s is gone", what, name)
		}
	}
	s.Logf("%s: %d objects, %d of them pods: %d restarted or made anew", what, len(now), pods, changed)
}

// load edits fields of custom resources that do not concern pods, until it is stopped.
func (s *scene) load(kind string, names []string) (stop func()) {
	stopped, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for stopped.Err() == nil {
			name := names[rand.IntN(len(names))]
			patch := fmt.Sprintf(`{"spec":{"service":{"externalTrafficPolicy":%q}}}`, []string{"Local", "Cluster"}[rand.IntN(2)])
			object := kit.Object(kindsGroup+"/v1", kind)
			object.SetNamespace(s.namespace)
			object.SetName(name)
			if err := env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
				s.Errorf("edit %s: %v", name, err)
			}
			time.Sleep(4 * time.Second / time.Duration(len(names)))
		}
	})
	return func() { cancel(); done.Wait() }
}

// awaitAllRun waits until each custom resource is Ready with its current spec, and its Service matches that.
func (s *scene) awaitAllRun(kind string, names []string) {
	s.Helper()
	s.await("all are Ready", func() error {
		var errs []error
		for _, name := range names {
			object := s.of(kind, name)
			ready, err := kit.Condition(object, "Ready")
			if err == nil && (ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.GetGeneration()) {
				err = fmt.Errorf("%s is %+v", name, ready)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	for _, name := range names {
		service := &corev1.Service{}
		s.get(service, name)
		if want, found, _ := unstructured.NestedString(s.of(kind, name).Object, "spec", "service", "externalTrafficPolicy"); found && string(service.Spec.ExternalTrafficPolicy) != want {
			s.Errorf("Service %s has %s, not %s", name, service.Spec.ExternalTrafficPolicy, want)
		}
	}
}

func (s *scene) awaitPods(count int) {
	s.Helper()
	s.awaitWithin(2*time.Minute, "all pods run", func() error {
		deployments := &appsv1.DeploymentList{}
		s.must(env.Client.List(ctx, deployments, client.InNamespace(s.namespace)))
		if len(deployments.Items) != count {
			return fmt.Errorf("%d Deployments", len(deployments.Items))
		}
		for _, d := range deployments.Items {
			if d.Status.AvailableReplicas == 0 || d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("%s is %+v", d.Name, d.Status)
			}
		}
		return nil
	})
}

// What a stock Helm operator has made goes on as it is under this one, and then as plain Helm releases, while
// people edit it. No pod starts anew, no object is made anew. Should somebody forget to stop the stock
// operator, nothing is done before that has happened.
func TestMoveFromAStockOperator(t *testing.T) {
	controllers, err := env.RunControllers("deployment-controller", "replicaset-controller", "garbage-collector-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(controllers.Stop)
	for stock, kind := range map[string]string{"operator-sdk": "Settler", "helm-operator-plugins": "Pioneer"} {
		t.Run(stock, func(t *testing.T) {
			t.Parallel() // to one another: they wait for most of their time
			s := newScene(t)
			s.serveKind(kind)
			s.runPods()
			old := s.stockOperator(stock, kind, kit.File("helm-charts/welcome"), welcomePins)
			var names []string
			for i := range *movers {
				names = append(names, fmt.Sprintf("hello-%d", i))
				s.createOf(kind, names[i], kit.Greet("world"))
			}
			s.awaitPods(len(names))
			s.await("the stock operator has its finalizers", func() error {
				for _, name := range names {
					if got := s.of(kind, name).GetFinalizers(); !slices.Equal(got, []string{stockOperators[stock].finalizer}) {
						return fmt.Errorf("%s has %q", name, got)
					}
				}
				return nil
			})
			before := s.identities()
			own := settings{namespaces: []string{s.namespace}, account: s.accountForKinds(), watches: entryOf(kind, kit.File("helm-charts/welcome"), welcomePins)}
			releases := stock == "operator-sdk" // for which the operator has to publish what it was started with, and only one can at once
			if releases {
				s.publisher(own)
			} else {
				s.ownOperator(own)
			}
			s.awaitEvent(names[0], "StandsBack", "stock Helm operator", "Stop it")
			for _, name := range names {
				if service := (&corev1.Service{}); s.find(service, name) != nil || service.Labels[kit.ManagedBy] != "" {
					t.Errorf("%s was touched while the stock operator lives: %v", name, service)
				}
			}
			// Not before: a stock operator that is busy with edits may not answer in the 10 s that it has.
			stop := s.load(kind, names)
			defer stop()
			start := time.Now()
			old.Stop()
			s.awaitWithin(2*time.Minute, "all are taken over", func() error {
				for _, name := range names {
					operator, _, _ := unstructured.NestedString(s.of(kind, name).Object, "status", "operator")
					if got := s.of(kind, name).GetFinalizers(); !slices.Equal(got, []string{"uninstall-helm-release"}) || operator == "" {
						return fmt.Errorf("%s has %q, and is of %q", name, got, operator)
					}
				}
				return nil
			})
			t.Logf("taken over within %s of the end of %s", time.Since(start).Round(time.Second), stock)
			stop()
			s.awaitAllRun(kind, names)
			s.sameSince("from "+stock, before)
			s.awaitEvent(names[0], "TakenOver", "Revisions begin with 1")

			if stock == "operator-sdk" { // somebody starts it again
				again := s.stockOperator(stock, kind, kit.File("helm-charts/welcome"), welcomePins)
				for _, name := range names {
					s.await("the stock operator has it back", func() error {
						if operator, _, _ := unstructured.NestedString(s.of(kind, name).Object, "status", "operator"); operator != "" {
							return fmt.Errorf("%s is of %q", name, operator)
						}
						return nil
					})
				}
				s.editOf(kind, names[1], kit.Set("service.annotations", map[string]any{"plain": "again"}))
				s.await("it serves an edit", func() error {
					service := &corev1.Service{}
					s.get(service, names[1])
					if service.Annotations["plain"] != "again" {
						return fmt.Errorf("the annotations are %v", service.Annotations)
					}
					return nil
				})
				s.sameSince("back to "+stock, before)
				again.Stop()
			}

			// The records of the stock operator go with their custom resource.
			secrets := func() []string {
				list := &corev1.SecretList{}
				s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm", "name": names[0]}))
				found := map[string]bool{}
				for _, secret := range list.Items {
					found[secret.Name] = true
				}
				return slices.Sorted(maps.Keys(found))
			}
			if len(secrets()) == 0 {
				t.Error("the case is broken: there were no records")
			}
			s.must(env.Client.Delete(ctx, s.of(kind, names[0])))
			// It is left a minute to an operator that has answered.
			s.awaitWithin(time.Minute+patience, "the deletion is not left for ever to a stock operator that has answered", func() error { return s.isGone(kit.Object(kindsGroup+"/v1", kind), names[0]) })
			s.await("the records of the stock operator are gone", func() error {
				if left := secrets(); len(left) > 0 {
					return fmt.Errorf("there are %q", left)
				}
				return nil
			})
			s.awaitGone(&appsv1.Deployment{}, names[0])

			s.await("what the deleted one had is gone", func() error {
				if before = s.identities(); len(before) != 4*(len(names)-1) { // a Deployment, a ReplicaSet, a pod, a Service
					return fmt.Errorf("there are %v", before)
				}
				return nil
			})
			s.await("they are taken over for good", func() error {
				var errs []error
				for _, name := range names[1:] {
					if operator, _, _ := unstructured.NestedString(s.of(kind, name).Object, "status", "operator"); operator == "" {
						errs = append(errs, fmt.Errorf("%s is nobody's", name))
					}
				}
				return errors.Join(errs...)
			})
			if !releases {
				return
			}
			for _, name := range names[1:] {
				s.expect(s.pluginAs(s.namespace, env.Admin, "release", strings.ToLower(kind)+"s."+kindsGroup+"/"+name, "--yes"), 0, "plain Helm release")
				s.releasedByHelm(name)
			}
			s.sameSince("out of this operator", before)
			s.upgradeByHelm(names[1])
			s.sameSince("helm upgrade", before)
			_, err := s.helmCommand("uninstall", names[1])
			s.must(err)
			s.awaitGone(&appsv1.Deployment{}, names[1])
		})
	}
}

// stockMade makes an object look as if a stock operator had created it for a custom resource.
func stockMade(object client.Object, owner *unstructured.Unstructured, kept bool) {
	object.SetNamespace(owner.GetNamespace())
	object.SetLabels(map[string]string{"helm.sdk.operatorframework.io/chart": "house", "app.kubernetes.io/managed-by": "Helm"})
	annotations := map[string]string{"meta.helm.sh/release-name": owner.GetName(), "meta.helm.sh/release-namespace": owner.GetNamespace()}
	if kept {
		annotations["helm.sh/resource-policy"] = "keep"
		annotations["operator-sdk/primary-resource"] = owner.GetNamespace() + "/" + owner.GetName()
		annotations["operator-sdk/primary-resource-type"] = owner.GroupVersionKind().GroupKind().String()
	} else {
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	object.SetAnnotations(annotations)
}

// What nobody would expect to be taken over is: what is kept, what the chart of today no longer makes, and a
// custom resource that was deleted while no operator ran. Annotations of the stock operators work, or are
// told to have no effect.
func TestWhatAStockOperatorLeaves(t *testing.T) {
	s := newScene(t)
	s.serveKind("Heir")
	hook := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: '{{ .Release.Name }}-hook', annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}\n" +
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n"
	house := chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: house, version: 0.1.0}",
		"templates/hook.yaml": hook,
		"templates/kept.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-kept', annotations: {helm.sh/resource-policy: keep}}\ndata: {colour: red}\n",
	})
	account := s.accountForCharts()
	heir := s.createOf("Heir", "hello", func(o *unstructured.Unstructured) {
		o.SetFinalizers([]string{"helm.sdk.operatorframework.io/uninstall-release"})
		o.SetAnnotations(map[string]string{
			"helm.sdk.operatorframework.io/install-disable-hooks": "true", "helm.sdk.operatorframework.io/install-description": "moved in",
			"helm.sdk.operatorframework.io/upgrade-force": "true", "helm.sdk.operatorframework.io/reconcile-period": "1m",
		})
	})
	gone := s.createOf("Heir", "gone", func(o *unstructured.Unstructured) { o.SetFinalizers(heir.GetFinalizers()) })
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: objectMeta(s.namespace, name)}
	}
	kept, dropped, foreign := config("hello-kept"), config("hello-dropped"), config("foreign")
	stockMade(kept, heir, true)
	stockMade(dropped, heir, false)
	for _, object := range []client.Object{kept, dropped, foreign} {
		s.must(env.Client.Create(ctx, object))
	}
	uid := kept.UID
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello-dropped}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: foreign}\n" +
		"---\napiVersion: gone.example.com/v1\nkind: Gone\nmetadata: {name: gone}\n"
	heir.Object["status"] = map[string]any{
		"conditions":      []any{map[string]any{"type": "Deployed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
		"deployedRelease": map[string]any{"name": "hello", "manifest": manifest},
	}
	s.must(env.Client.Status().Update(ctx, heir))
	s.must(env.Client.Delete(ctx, gone))

	// What it has applied is known to the next process, too, if this one succeeds in nothing.
	broken := chartOf(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: house, version: 0.0.1}", "templates/broken.yaml": `{{ fail "not yet" }}`})
	first := s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: entryOf("Heir", broken, "")})
	s.awaitOf("Heir", "hello", "Stalled", "not yet")
	first.Kill()

	s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: entryOf("Heir", house, "  allow: {options: [disable-hooks]}\n")})
	s.awaitGone(gone, "gone")
	s.awaitOf("Heir", "hello", "Ready")
	s.get(kept, "hello-kept")
	if kept.UID != uid || kept.Data["colour"] != "red" || len(kept.OwnerReferences) > 0 {
		t.Errorf("what is kept is %+v", kept)
	}
	s.awaitGone(dropped, "hello-dropped")
	s.get(foreign, "foreign")
	s.must(s.helmHas(map[string]string{"hello": "hello-kept"}))
	s.awaitOf("Heir", "hello", "IgnoredAnnotations", "upgrade-force (recreate in", "reconcile-period (the operator's watches.yaml has to allow it: allow: {options: [reconcile-period]})")
	if condition, _ := kit.Condition(s.of("Heir", "hello"), "IgnoredAnnotations"); strings.Contains(condition.Message, "hooks") || strings.Contains(condition.Message, "description") {
		t.Errorf("what has an effect is told as %q", condition.Message)
	}
	if status := fmt.Sprint(s.of("Heir", "hello").Object["status"]); strings.Contains(status, "hello-dropped") {
		t.Errorf("the status still has a manifest: %s", status)
	}
	s.editOf("Heir", "hello", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
	s.await("nothing is told of annotations that are gone", func() error {
		if condition, err := kit.Condition(s.of("Heir", "hello"), "IgnoredAnnotations"); err == nil {
			return fmt.Errorf("it is %+v", condition)
		}
		return nil
	})
	s.delete(s.of("Heir", "hello"))
	s.get(kept, "hello-kept")
}

// The records of a stock operator have the names that those of a kind with Secrets have: they give way.
func TestSecretsOfAStockOperator(t *testing.T) {
	s := newScene(t)
	s.serveKind("Trustee")
	s.collectGarbage()
	hello := s.createOf("Trustee", "hello", kit.Set("note", "a"))
	record := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "sh.helm.release.v1."+name+".v1"), Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte("e30=")}}
	}
	theirs := record("hello")
	theirs.Labels = map[string]string{"owner": "helm", "name": "hello", "status": "deployed", "version": "1"}
	theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(hello, hello.GroupVersionKind())}
	s.must(env.Client.Create(ctx, theirs))
	other := record("other")
	s.must(env.Client.Create(ctx, other)) // somebody's plain release
	s.createOf("Trustee", "other", kit.Set("note", "b"))
	s.publisher(settings{account: s.accountForCharts(), watches: entryOf("Trustee", noteChart(t), "  secrets: true\n")})
	s.awaitOf("Trustee", "hello", "Ready")
	s.get(theirs, theirs.Name)
	if theirs.Labels[kit.ManagedBy] == "" {
		t.Errorf("the record is still %v", theirs.ObjectMeta)
	}
	s.awaitOf("Trustee", "other", "Stalled", "sh.helm.release.v1.other.v1")
	s.get(other, other.Name)

	// As a plain release, it has a record of Helm's, and none of the operator's.
	s.expect(s.pluginAs(s.namespace, env.Admin, "release", "trustees."+kindsGroup+"/hello", "--yes"), 0, "revision 2 of a plain Helm release")
	s.awaitGone(theirs, theirs.Name)
	if out, err := s.helmCommand("get", "manifest", "hello"); err != nil || !strings.Contains(out, "name: 'hello-a'") && !strings.Contains(out, "name: hello-a") {
		t.Errorf("helm get manifest says %s, %v", out, err)
	}
	_, err := s.helmCommand("uninstall", "hello")
	s.must(err)
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-a")
}

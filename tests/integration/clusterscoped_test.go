package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// inCluster are the settings that the chart tests/charts/cluster needs in its entry of watches.yaml.
func inCluster(t *testing.T) string {
	t.Helper()
	entry, err := kit.EntryOf(kit.File("tests/charts/cluster"))
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// serveClusterScoped starts an operator that serves a kind of tests/charts/cluster.
func (s *scene) serveClusterScoped(kind, account, entry string) *process {
	s.Helper()
	s.serveKind(kind)
	return s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: entryOf(kind, kit.File("tests/charts/cluster"), entry)})
}

// inNoNamespace are the cluster-scoped objects of "hello", by their names.
func (s *scene) inNoNamespace() map[string]client.Object {
	begin := s.namespace + ".hello-"
	return map[string]client.Object{begin + "reader": &rbacv1.ClusterRole{}, begin + "class": &networkingv1.IngressClass{}}
}

// What is cluster-scoped is made, proven by its UID in the status, put back, idle, and removed at the end:
// also if the operator was killed when it had just made it, so that nothing but its marks tells.
func TestClusterScopedObjects(t *testing.T) {
	s := newScene(t)
	operator := s.serveClusterScoped("Cluster", s.accountForCharts(), inCluster(t))
	s.createOf("Cluster", "hello")
	s.awaitOf("Cluster", "hello", "Ready")
	binding := &rbacv1.ClusterRoleBinding{}
	s.get(binding, s.namespace+".hello-reader")
	proven := map[string]bool{}
	listed, _, _ := unstructured.NestedSlice(s.of("Cluster", "hello").Object, "status", "release", "unowned")
	for _, item := range listed {
		proven[fmt.Sprint(item.(map[string]any)["uid"])] = true
	}
	if len(proven) != 3 || !proven[string(binding.UID)] {
		t.Errorf("the status proves %v", listed)
	}
	s.costsNothing(operator, "Cluster")
	for name, object := range s.inNoNamespace() {
		s.get(object, name)
		if len(object.GetOwnerReferences()) > 0 {
			t.Errorf("%s has an owner, and would be deleted by the garbage collector: %v", name, object.GetOwnerReferences())
		}
		s.comesBack(object)
	}
	role := &rbacv1.ClusterRole{}
	s.get(role, s.namespace+".hello-reader")
	role.Rules[0].Verbs = []string{"*"}
	s.must(env.Client.Update(ctx, role))
	s.await("the rules are put back", func() error {
		s.get(role, s.namespace+".hello-reader")
		if len(role.Rules[0].Verbs) != 2 {
			return fmt.Errorf("they are %v", role.Rules)
		}
		return nil
	})
	s.awaitOf("Cluster", "hello", "Ready")
	s.settled(operator)

	operator.Stop()
	cr := s.of("Cluster", "hello")
	unstructured.RemoveNestedField(cr.Object, "status", "release", "unowned")
	s.must(env.Client.Status().Update(ctx, cr))
	s.must(env.Client.Delete(ctx, cr))
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.namespace, watches: entryOf("Cluster", kit.File("tests/charts/cluster"), inCluster(t))})
	s.awaitGone(cr, "hello")
	for name, object := range s.inNoNamespace() {
		s.awaitGone(object, name)
	}
	s.awaitGone(&rbacv1.ClusterRoleBinding{}, s.namespace+".hello-reader")
}

// comesBack deletes an object, and waits until there is another one in its place.
func (s *scene) comesBack(object client.Object) {
	s.Helper()
	name, uid := object.GetName(), object.GetUID()
	s.must(env.Client.Delete(ctx, object))
	s.await(name+" is back", func() error {
		if err := s.find(object, name); err != nil || object.GetUID() == uid {
			return errors.Join(errors.New("it is not"), err)
		}
		return nil
	})
}

// What is in no namespace is seen by every operator. One that does not serve the namespace of its custom resource
// has nothing to do with it: it fails at nothing.
func TestClusterScopedObjectsOfAnotherOperator(t *testing.T) {
	s := newScene(t)
	s.serveKind("Neighbour")
	elsewhere, account := s.newNamespace("elsewhere-"), s.accountForCharts()
	serve := func(namespace string) *process {
		return s.ownOperator(settings{namespaces: []string{namespace}, account: account, watches: entryOf("Neighbour", kit.File("tests/charts/cluster"), inCluster(t))})
	}
	serve(s.namespace)
	bystander := serve(elsewhere)
	s.createOf("Neighbour", "theirs", func(theirs *unstructured.Unstructured) { theirs.SetNamespace(elsewhere) })
	s.await("the other operator watches such objects", func() error {
		return env.Client.Get(ctx, client.ObjectKey{Name: elsewhere + ".theirs-reader"}, &rbacv1.ClusterRoleBinding{})
	})
	s.createOf("Neighbour", "hello")
	s.awaitOf("Neighbour", "hello", "Ready")
	s.settled(bystander)
	role := &rbacv1.ClusterRole{}
	s.get(role, s.namespace+".hello-reader")
	s.comesBack(role)
	s.delete(s.of("Neighbour", "hello"))
	s.settled(bystander)
	if failed := bystander.metric(t, "controller_runtime_reconcile_errors_total", ""); failed > 0 {
		t.Errorf("%v reconciles of the other operator have failed\n%s", failed, bystander.LastLines(3))
	}
}

// A fight over one has an end, too.
func TestFightInNoNamespace(t *testing.T) {
	s := newScene(t)
	operator := s.serveClusterScoped("Fought", s.accountForCharts(), inCluster(t))
	s.createOf("Fought", "hello")
	s.awaitOf("Fought", "hello", "Ready")
	s.settled(operator)
	before, role := s.record(), &rbacv1.ClusterRole{}
	stop := s.fightOver(role, s.namespace+".hello-reader", func() bool {
		changes := len(role.Rules[0].Verbs) != 1
		role.Rules[0].Verbs = []string{"get"}
		return changes
	})
	s.awaitOf("Fought", "hello", "DriftLoop", "cluster-scoped ClusterRole", `"test-controller"`)
	s.settled(operator)
	if requests := before.of(operator); len(requests) > 40 {
		t.Errorf("%d requests until they rest", len(requests))
	}
	stop()
}

// What another chart or somebody else has made under such a name is left alone, and named. Two custom
// resources of one name, in two namespaces, do not meet.
func TestForeignClusterScopedObject(t *testing.T) {
	s := newScene(t)
	foreign := &rbacv1.ClusterRole{ObjectMeta: objectMeta("", s.namespace+".hello-reader"), Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/healthz"}, Verbs: []string{"get"}}}}
	s.must(env.Client.Create(ctx, foreign))
	t.Cleanup(func() { s.must(client.IgnoreNotFound(env.Client.Delete(ctx, foreign))) })
	s.serveClusterScoped("Foreigner", s.accountForCharts(), inCluster(t))
	s.createOf("Foreigner", "hello")
	s.awaitOf("Foreigner", "hello", "Stalled", "ObjectInTheWay", `cluster-scoped ClusterRole "`+foreign.Name+`"`)
	s.must(s.isGone(&rbacv1.ClusterRoleBinding{}, foreign.Name))
	s.unharmed(foreign)
	s.createOf("Foreigner", "other")
	s.awaitOf("Foreigner", "other", "Ready")

	// One that somebody makes in place of the custom resource's own is not deleted with it.
	s.must(env.Client.Delete(ctx, foreign))
	s.awaitOf("Foreigner", "hello", "Ready")
	s.whileFrozen(func() {
		own := &rbacv1.ClusterRole{}
		s.get(own, foreign.Name)
		s.must(env.Client.Delete(ctx, own))
		foreign.ResourceVersion = ""
		s.must(env.Client.Create(ctx, foreign))
	})
	s.delete(s.of("Foreigner", "hello"))
	s.awaitGone(&networkingv1.IngressClass{}, s.namespace+".hello-class")
	now := &rbacv1.ClusterRole{}
	s.get(now, foreign.Name)
	if now.UID != foreign.UID {
		t.Errorf("it was made anew: %+v", now)
	}
	s.awaitEvent("hello", "ForeignObject", foreign.Name)
}

// whileFrozen calls do while the operators of the test are frozen.
func (s *scene) whileFrozen(do func()) {
	s.Helper()
	for _, operator := range s.operators {
		s.must(operator.Freeze())
	}
	do()
	for _, operator := range s.operators {
		s.must(operator.Thaw())
	}
}

// What the platform does not allow is refused, with what would allow it, and so is whatever the author of a
// custom resource has in it.
func TestClusterScopedObjectsThatAreNotAllowed(t *testing.T) {
	s := newScene(t)
	account := s.accountForCharts()
	serve := func(kind, entry string) {
		s.serveClusterScoped(kind, account, entry)
		s.createOf(kind, "hello")
	}
	serve("Unallowed", "")
	s.awaitOf("Unallowed", "hello", "Stalled", "NotAllowed", "overrideValues", `fullnameOverride: "{namespace}-{name}"`)
	serve("Named", "  overrideValues: {fullnameOverride: '{namespace}.{name}'}\n")
	s.awaitOf("Named", "hello", "Stalled", "NotAllowed", `allow.cluster: [{kind: ClusterRole.rbac.authorization.k8s.io, name: "{namespace}.{name}-reader"}]`)

	serve("Powerful", inCluster(t))
	s.awaitOf("Powerful", "hello", "Ready")
	role := &rbacv1.ClusterRole{}
	s.get(role, s.namespace+".hello-reader")
	for name, edit := range map[string]kit.Edit{
		"rules":          kit.Set("extraRules", []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}}),
		"aggregation":    kit.Set("labels", map[string]any{"rbac.authorization.k8s.io/aggregate-to-view": "true"}),
		"another name":   kit.Set("fullnameOverride", "system"),
		"all namespaces": func(cr *unstructured.Unstructured) { kit.Set("webhook.enabled", true)(cr) },
		"other namespace": func(cr *unstructured.Unstructured) {
			kit.Set("webhook.enabled", true)(cr)
			kit.Set("webhook.selector.matchLabels.team", "b")(cr)
		},
	} {
		spec := s.of("Powerful", "hello").Object["spec"]
		s.editOf("Powerful", "hello", edit, kit.Set("note", name))
		if name == "another name" { // it is pinned
			s.await("the edit is applied", func() error {
				config := &corev1.ConfigMap{}
				s.get(config, "hello-note")
				if config.Data["note"] != name {
					return fmt.Errorf("it says %q", config.Data["note"])
				}
				return nil
			})
			s.must(s.isGone(&rbacv1.ClusterRole{}, "system-reader"))
		} else {
			s.awaitOf("Powerful", "hello", "Stalled", "NotAllowed")
		}
		now := &rbacv1.ClusterRole{}
		s.get(now, role.Name)
		if now.ResourceVersion != role.ResourceVersion {
			t.Errorf("%s: the ClusterRole is %+v", name, now)
		}
		s.must(s.isGone(&admissionregistrationv1.ValidatingWebhookConfiguration{}, s.namespace+".hello-webhook"))
		s.editOf("Powerful", "hello", func(cr *unstructured.Unstructured) { cr.Object["spec"] = spec })
		s.awaitOf("Powerful", "hello", "Ready")
	}
	s.delete(s.of("Powerful", "hello"))
	for name, object := range s.inNoNamespace() {
		s.awaitGone(object, name)
	}
}

// A webhook is the platform's, as all that is cluster-scoped, with a certificate that the chart makes, and
// asked about its own namespace only.
func TestWebhookOfOneNamespace(t *testing.T) {
	s := newScene(t)
	operator := s.serveClusterScoped("Asked", s.accountForCharts(), strings.Replace(inCluster(t), "  allow:\n", `    webhook.enabled: "true"
    webhook.selector.matchLabels.kubernetes\.io/metadata\.name: "{namespace}"
  allow:
`, 1))
	s.createOf("Asked", "hello")
	s.awaitOf("Asked", "hello", "Ready")
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	s.get(webhook, s.namespace+".hello-webhook")
	s.settled(operator)
	s.editOf("Asked", "hello", kit.Set("note", "changed"))
	s.await("the edit is applied", func() error { return kit.Seen(s.of("Asked", "hello")) })
	s.awaitOf("Asked", "hello", "Ready")
	s.delete(s.of("Asked", "hello"))
	s.awaitGone(webhook, s.namespace+".hello-webhook")
}

// A forged record gets nothing in no namespace changed or deleted that is not the custom resource's: not
// another one's, not what has a name that it might have, and not what a cluster needs. Nor does what it
// leaves out, or says is kept, outlive the custom resource.
func TestForgedRecordInNoNamespace(t *testing.T) {
	s := newScene(t)
	s.serveClusterScoped("Forger", s.accountForCharts(), inCluster(t))
	s.createOf("Forger", "hello")
	s.createOf("Forger", "other")
	s.awaitOf("Forger", "hello", "Ready")
	s.awaitOf("Forger", "other", "Ready")
	foreign := &rbacv1.ClusterRole{ObjectMeta: objectMeta("", s.namespace+".hello-foreign")}
	s.must(env.Client.Create(ctx, foreign))
	t.Cleanup(func() { s.must(env.Client.Delete(ctx, foreign)) })
	before := map[string]*rbacv1.ClusterRole{s.namespace + ".other-reader": {}, foreign.Name: {}, "cluster-admin": {}}
	for name, role := range before {
		s.get(role, name)
	}
	forge := func(_ *corev1.ConfigMap, rel *release.Release) {
		for name := range before {
			rel.Manifest += "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + name + "}\n"
		}
	}
	s.forge("hello", forge)
	s.editOf("Forger", "hello", kit.Set("note", "after"))
	s.awaitOf("Forger", "hello", "Ready")
	s.forge("hello", func(record *corev1.ConfigMap, rel *release.Release) {
		rel.Manifest = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: " + s.namespace + ".hello-class, annotations: {helm.sh/resource-policy: keep}}\n"
		forge(record, rel)
	})
	s.delete(s.of("Forger", "hello"))
	for name, object := range s.inNoNamespace() {
		s.awaitGone(object, name)
	}
	for _, role := range before {
		s.unharmed(role)
	}
	s.awaitEvent("hello", "ForeignObject", "cluster-admin")
	s.delete(s.of("Forger", "other"))
}

// What one of the same name has left goes also if that is found out after the next one was made, which has no
// revision more for that.
func TestSuccessorThatWasFaster(t *testing.T) {
	s := newScene(t)
	operator := s.serveClusterScoped("Hasty", s.accountForCharts(), inCluster(t))
	says := func(what string) {
		s.Helper()
		s.await(fmt.Sprintf("the operator has said of both: %s", what), func() error {
			if strings.Count(operator.Text(), what) < 2 {
				return errors.New(operator.LastLines(20))
			}
			return nil
		})
	}
	successors := map[string][]kit.Edit{"hello": {kit.Set("class", false)}, "same": nil}
	for name := range successors {
		s.createOf("Hasty", name)
		s.awaitOf("Hasty", name, "Ready")
	}
	rights := &rbacv1.ClusterRoleBinding{}
	s.get(rights, s.namespace)
	s.must(env.Client.Delete(ctx, rights)) // so that the operator cannot look for a while
	s.awaitNoRight(s.namespace, rbacv1.GroupName, "clusterroles")
	for name := range successors {
		s.editOf("Hasty", name, func(hasty *unstructured.Unstructured) { hasty.SetFinalizers(nil) })
		s.delete(s.of("Hasty", name))
	}
	says("Could not delete what a custom resource has left")
	rights.ResourceVersion = ""
	s.must(env.Client.Create(ctx, rights))
	for name, edits := range successors {
		s.createOf("Hasty", name, edits...)
		s.awaitOf("Hasty", name, "Ready")
	}
	says("The custom resource went before it was uninstalled")
	s.awaitGone(&networkingv1.IngressClass{}, s.namespace+".hello-class")
	s.settled(operator)
	s.get(&networkingv1.IngressClass{}, s.namespace+".same-class")
	for name := range successors {
		if revision, _, _ := unstructured.NestedInt64(s.of("Hasty", name).Object, "status", "release", "revision"); revision != 1 {
			t.Errorf("%s has revision %d", name, revision)
		}
	}
}

// However a custom resource goes, nothing of it is left in no namespace, but for who wants to keep it: one of
// the same name has that then. What the platform no longer allows is left as it is, and told.
func TestEndsOfClusterScopedObjects(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	operator := s.serveClusterScoped("Ending", s.accountForCharts(), inCluster(t))
	make := func() {
		s.createOf("Ending", "hello")
		s.awaitOf("Ending", "hello", "Ready")
	}
	gone := func() {
		s.awaitGone(s.of("Ending", "hello"), "hello")
		for name, object := range s.inNoNamespace() {
			s.awaitGone(object, name)
		}
	}
	make()
	_, err := s.kubectl("", "delete", "endings", "hello", "--cascade=foreground")
	s.must(err)
	gone()

	// Who may edit ConfigMaps takes the records away, and nobody looks.
	make()
	s.editOf("Ending", "hello", kit.Pause(true))
	s.awaitOf("Ending", "hello", "Paused")
	_, err = s.kubectl("", "delete", "configmaps", "--selector=owner=helm")
	s.must(err)
	_, err = s.kubectl("", "delete", "endings", "hello")
	s.must(err)
	gone()

	// Or has one say that all is deleted.
	make()
	s.editOf("Ending", "hello", kit.Pause(true))
	s.awaitOf("Ending", "hello", "Paused")
	_, err = s.kubectl("", "label", "configmaps", "--selector=owner=helm", "--overwrite", "status=uninstalled")
	s.must(err)
	_, err = s.kubectl("", "delete", "endings", "hello")
	s.must(err)
	gone()

	// Somebody takes the finalizer off.
	forceOff := func() {
		_, err := s.kubectl("", "patch", "endings", "hello", "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
		s.must(err)
		_, err = s.kubectl("", "delete", "endings", "hello")
		s.must(err)
	}
	make()
	s.must(operator.Freeze())
	forceOff()
	s.must(operator.Thaw())
	gone()

	// The garbage collector takes the record before all is made.
	asked, letGo := s.hold(admissionregistrationv1.Create, "rbac.authorization.k8s.io", "roles", func(probe context.Context) error {
		return env.Client.Create(probe, &rbacv1.Role{ObjectMeta: objectMeta(s.namespace, "probe")}, client.DryRunAll)
	})
	s.createOf("Ending", "hello")
	asked()
	s.get(&rbacv1.ClusterRole{}, s.namespace+".hello-reader")
	forceOff()
	s.await("its record is gone", func() error { return s.hasRecords("hello", 0) })
	letGo()
	gone()

	// One of the same name has what is in no namespace by then, but for what it does not want.
	make()
	role := &rbacv1.ClusterRole{}
	s.get(role, s.namespace+".hello-reader")
	s.must(operator.Freeze())
	forceOff()
	s.createOf("Ending", "hello", kit.Set("class", false))
	s.must(operator.Thaw())
	s.awaitOf("Ending", "hello", "Ready")
	s.awaitGone(&networkingv1.IngressClass{}, s.namespace+".hello-class")
	successor := &rbacv1.ClusterRole{}
	if s.get(successor, role.Name); successor.UID != role.UID {
		t.Error("the ClusterRole of the next one was made anew")
	}
	s.delete(s.of("Ending", "hello"))
	gone()

	// The API server refuses it for a while.
	make()
	rights := &rbacv1.ClusterRoleBinding{}
	s.get(rights, s.namespace)
	s.must(env.Client.Delete(ctx, rights))
	s.awaitNoRight(s.namespace, rbacv1.GroupName, "clusterroles")
	forceOff()
	s.await("the operator cannot look", func() error {
		if lines := operator.LastLines(200); !strings.Contains(lines, "Could not delete what a custom resource has left") {
			return errors.New(lines)
		}
		return nil
	})
	rights.ResourceVersion = ""
	s.must(env.Client.Create(ctx, rights))
	gone()

	make()
	s.get(role, s.namespace+".hello-reader")
	_, err = s.kubectl("", "delete", "endings", "hello", "--cascade=orphan")
	s.must(err)
	now := &rbacv1.ClusterRole{}
	make()
	s.get(now, role.Name)
	if now.UID != role.UID {
		t.Error("the ClusterRole was made anew")
	}

	operator.Stop()
	operator = s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.namespace, watches: entryOf("Ending", kit.File("tests/charts/cluster"), "  overrideValues: {fullnameOverride: '{namespace}.{name}'}\n")})
	s.awaitOf("Ending", "hello", "Stalled", "NotAllowed", "allow.cluster")
	s.unharmed(role) // though it is no longer allowed
	s.delete(s.of("Ending", "hello"))
	s.awaitEvent("hello", "ForeignObject", role.Name, "allow.cluster")
	s.get(now, role.Name)
	operator.Stop()

	// Allowed again, it is taken back, and goes with its namespace.
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: s.namespace, watches: entryOf("Ending", kit.File("tests/charts/cluster"), inCluster(t))})
	make()
	s.must(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", s.namespace)}))
	s.must(env.Client.Delete(ctx, s.of("Ending", "hello"))) // as the namespace controller does, which does not run here
	gone()
}

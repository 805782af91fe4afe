package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// helmCommand runs helm as the admin, in the namespace of the test.
func (s *scene) helmCommand(args ...string) (string, error) {
	s.Helper()
	kubeconfig, err := env.Kubeconfig(s.namespace, env.Admin)
	s.must(err)
	cmd := kit.Tool(ctx, "helm", append([]string{"--kubeconfig", kubeconfig, "-n", s.namespace}, args...)...)
	cmd.Env = []string{"HOME=" + env.Dir, "HELM_DRIVER=" + os.Getenv("HELM_DRIVER")}
	return kit.Output(cmd)
}

// upgradeByHelm upgrades a release with helm, with its own values and the chart.
func (s *scene) upgradeByHelm(name string, set ...string) {
	s.Helper()
	values, err := s.helmCommand("get", "values", name)
	s.must(err)
	_, values, _ = strings.Cut(values, "\n") // its title
	args := []string{"upgrade", name, kit.File("helm-charts/welcome"), "-f", s.write("values.yaml", values)}
	for _, value := range set {
		args = append(args, "--set", value)
	}
	_, err = s.helmCommand(args...)
	s.must(err)
}

// releasedByHelm fails unless a release is known to Helm and to nobody else, and its Deployment has none of
// the operator's marks.
func (s *scene) releasedByHelm(name string) {
	s.Helper()
	out, err := s.helmCommand("ls", "--filter", "^"+name+"$", "-o", "json")
	s.must(err)
	if !strings.Contains(out, `"name":"`+name+`"`) || !strings.Contains(out, `"status":"deployed"`) {
		s.Errorf("helm ls says %s", out)
	}
	for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		s.get(child, name)
		if len(child.GetOwnerReferences()) > 0 || child.GetLabels()[kit.ManagedBy] != "" || child.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" ||
			child.GetAnnotations()["meta.helm.sh/release-name"] != name || child.GetAnnotations()["meta.helm.sh/release-namespace"] != s.namespace {
			s.Errorf("%T has %v", child, child)
		}
	}
}

// forgeRelease writes into the operator's record what a tenant would have an admin's helm run and apply. The
// manifest, which the status proves, stays.
func (s *scene) forgeRelease(name string) {
	s.Helper()
	s.forge(name, func(_ *corev1.ConfigMap, rel *release.Release) {
		rel.Hooks = []*release.Hook{{Name: "forged", Kind: "ClusterRoleBinding", Path: "forged", Events: []release.HookEvent{release.HookPreDelete}, Manifest: forgedHook}}
		rel.Config = map[string]any{"image": "forged/image", "name": "forged"}
		rel.Chart.Templates = append(rel.Chart.Templates, &chart.File{Name: "templates/forged.yaml", Data: []byte(forgedHook)})
		rel.Info.Notes, rel.Info.Description, rel.Labels = "forged", "forged", map[string]string{"forged": "forged"}
	})
}

const forgedHook = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: forged, annotations: {helm.sh/hook: pre-delete}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: system:authenticated}]
`

// nothingForged fails if Helm's record has anything of forgeRelease.
func (s *scene) nothingForged(name string) {
	s.Helper()
	list := &corev1.SecretList{}
	s.must(env.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm", "name": name}))
	if len(list.Items) != 1 {
		s.Fatalf("there are %d records", len(list.Items))
	}
	rel := s.unpack(&corev1.ConfigMap{Data: map[string]string{"release": string(list.Items[0].Data["release"])}})
	text, err := json.Marshal(rel)
	s.must(err)
	if strings.Contains(string(text), "forged") || len(rel.Hooks) > 0 || rel.Config["name"] != "after" || rel.Chart.Name() != "welcome" {
		s.Errorf("hooks %v, values %v, notes %q, labels %v", rel.Hooks, rel.Config, rel.Info.Notes, rel.Labels)
	}
	for _, file := range rel.Chart.Templates {
		if bytes.Contains(file.Data, []byte("forged")) || strings.Contains(file.Name, "forged") {
			s.Errorf("the chart has %s", file.Name)
		}
	}
}

// bystander is an object of another release, in another namespace, which a forged Helm record names.
func (s *scene) bystander(name string) *corev1.ConfigMap {
	s.Helper()
	other := s.namespace + "-other"
	s.must(env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", other)}))
	s.Cleanup(func() { _ = env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", other)}) })
	meta := objectMeta(other, "bystander")
	meta.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
	meta.Annotations = map[string]string{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": s.namespace}
	bystander := &corev1.ConfigMap{ObjectMeta: meta}
	s.must(env.Client.Create(ctx, bystander))
	record := &corev1.SecretList{}
	s.must(env.Client.List(ctx, record, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm", "name": name}))
	rel := s.unpack(&corev1.ConfigMap{Data: map[string]string{"release": string(record.Items[0].Data["release"])}})
	rel.Manifest += "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: bystander, namespace: " + other + "}}\n"
	text, err := json.Marshal(rel)
	s.must(err)
	record.Items[0].Data["release"] = []byte(pack(text))
	s.must(env.Client.Update(ctx, &record.Items[0]))
	return bystander
}

// A custom resource becomes a plain Helm release, whatever it is at and wherever that was interrupted, unless
// Helm has another one of that name or a record is not the operator's.
func TestRelease(t *testing.T) {
	s := newScene(t)
	s.collectGarbage()
	s.publisher(settings{})
	hello := s.deploy("hello", kit.Greet("before"))
	s.edit("hello", kit.Pause(true)) // by somebody else, and edited since
	s.edit("hello", kit.Greet("after"))
	s.expect(s.plugin("release", "hello", "--yes"), 1, "has changed since it was applied last", "kubectl welcome resume hello")
	s.expect(s.plugin("release", "nobody", "--yes"), 1, "not found")
	s.edit("hello", kit.Pause(false))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.expect(s.plugin("release", "hello"), 1, "nothing was done")

	// What is in the way is found out before it is paused.
	foreign := &corev1.Secret{ObjectMeta: objectMeta(s.namespace, "sh.helm.release.v1.hello.v3"), Type: "helm.sh/release.v1"}
	s.must(env.Client.Create(ctx, foreign))
	s.expect(s.plugin("release", "hello", "--yes"), 1, "write the record of the Helm release", "already exists")
	foreign.Labels = map[string]string{"owner": "helm", "name": "hello", "version": "3"}
	s.must(env.Client.Update(ctx, foreign))
	s.expect(s.plugin("release", "hello", "--yes"), 1, "there is a Helm release hello already")
	foreign.Labels[kit.Group+"/released-from"] = "6d1f9c1e-one-before"
	s.must(env.Client.Update(ctx, foreign))
	s.expect(s.plugin("release", "hello", "--yes"), 1, "one with the UID 6d1f9c1e-one-before", "kubectl delete secret -n "+s.namespace+" "+foreign.Name)
	s.must(env.Client.Delete(ctx, foreign))
	deletion := func() error { return env.Client.Delete(ctx, s.welcome("hello"), client.DryRunAll) }
	lift := s.refuse(admissionregistrationv1.Delete, kit.Group, "welcomes", "it stays", deletion)
	s.expect(s.plugin("release", "hello", "--yes"), 1, "it stays")
	lift()
	s.await("it may be deleted", deletion)
	if s.welcome("hello").GetAnnotations()[kit.Group+"/paused"] == "true" {
		t.Error("it is paused")
	}
	s.expect(s.plugin("release", "hello", "--yes", "--timeout=1ms"), 1, "not done after 1ms", "welcome/hello is paused", "To go back: kubectl welcome resume hello -n "+s.namespace)
	s.expect(s.plugin("pause", "hello", "--wait"), 0)
	before := s.objectsOf("hello")

	// Interrupted after each step: the custom resource cannot go, then it is gone, then an object cannot be patched.
	s.edit("hello", func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), "example.com/theirs")) })
	s.forgeRelease("hello")
	s.expect(s.plugin("release", "hello", "--yes", "--timeout=10s"), 1, "not done after 10s")
	s.nothingForged("hello")
	s.await("its objects are nobody's", func() error {
		for _, child := range s.objectsOf("hello") {
			if refs := child.GetOwnerReferences(); len(refs) > 0 {
				return fmt.Errorf("%T is owned by %v", child, refs)
			}
		}
		return nil
	})
	s.await("nobody else keeps it", func() error {
		if got := s.welcome("hello").GetFinalizers(); len(got) != 1 {
			return fmt.Errorf("these do: %v", got)
		}
		return nil
	})
	s.expect(s.plugin("release", "hello", "--yes", "--timeout=1s"), 1, "not done after 1s", "Waiting 1s at most (then run it again) for who takes the finalizers off welcome/hello: example.com/theirs")
	s.keptSince(before, nil)
	s.must(env.Client.Patch(ctx, s.welcome("hello"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	s.awaitGone(hello, "hello")
	bystander := s.bystander("hello")
	s.expect(s.plugin("release", "hello", "--yes"), 0, "revision", "plain Helm release")
	s.keptSince(before, nil)
	s.releasedByHelm("hello")
	s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(bystander), bystander))
	if bystander.Labels[kit.ManagedBy] == "" {
		t.Error("a forged record has the marks taken off what is somebody else's")
	}
	s.expect(s.plugin("release", "hello", "--yes"), 1, "not found")

	// Helm goes on: nothing changes where nothing has, and what is asked for does.
	s.upgradeByHelm("hello")
	s.keptSince(before, nil)
	s.upgradeByHelm("hello", "name=helm")
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if kit.Greeting(deployment) != "helm" || deployment.UID != before[0].GetUID() {
		t.Errorf("it is %v", deployment)
	}
	if _, err := s.helmCommand("rollback", "hello"); err != nil {
		t.Error(err)
	}
	_, err := s.helmCommand("uninstall", "hello")
	s.must(err)
	for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		if err := s.find(child, "hello"); !apierrors.IsNotFound(err) {
			t.Errorf("helm uninstall has left %T: %v", child, errors.Join(err, fmt.Errorf("it is %v", child)))
		}
	}
}

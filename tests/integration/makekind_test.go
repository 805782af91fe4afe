package integration

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// inCopyOfRepository copies what make kind reads and writes to a directory, and returns that.
func inCopyOfRepository(s *scene) string {
	s.Helper()
	dir := s.TempDir()
	for _, name := range []string{"config", "catalog", "helm-charts", "hack"} {
		s.must(os.CopyFS(filepath.Join(dir, name), os.DirFS(kit.File(name))))
	}
	for _, name := range []string{"watches.yaml", "PROJECT", "go.mod", "go.sum"} {
		text, err := os.ReadFile(kit.File(name))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// manifestsBinary is the program of make manifests and make kind, built when the first test needs it.
var manifestsBinary = sync.OnceValues(func() (string, error) {
	program := filepath.Join(env.Dir, "manifests")
	return program, kit.Build(program, "hack/manifests")
})

// makeManifests does in a directory what make manifests does or, with arguments, make kind.
func makeManifests(s *scene, dir string, args ...string) {
	s.Helper()
	program, err := manifestsBinary()
	s.must(err)
	cmd := exec.CommandContext(s.Context(), program, args...)
	cmd.Dir = dir
	out, err := kit.Output(cmd)
	s.must(err)
	s.Log(out)
}

// makeKind makes a kind of a chart, as make kind does with PIN, and adds settings to its entry. It returns
// the directory of the repository's copy.
func makeKind(s *scene, chart, kind, pin, settings string) string {
	s.Helper()
	dir := inCopyOfRepository(s)
	makeManifests(s, dir, "kind", "-chart="+chart, "-group="+kindsGroup, "-version=v1", "-kind="+kind, "-pin="+pin)
	if settings != "" {
		file := filepath.Join(dir, "watches.yaml")
		text, err := os.ReadFile(file)
		s.must(err)
		s.must(os.WriteFile(file, append(text, settings...), 0o600))
		makeManifests(s, dir)
	}
	// What make verify asks: nothing is left to edit, or to make again.
	before := treeOf(s, dir)
	makeManifests(s, dir)
	if after := treeOf(s, dir); !slices.Equal(before, after) {
		s.Errorf("make manifests changes it:\n%s", after)
	}
	cmd := exec.Command("go", "test", "-count=1", "./hack", "-run", "TestKinds|TestSamples")
	cmd.Dir = dir
	_, err := kit.Output(cmd)
	s.must(err)
	return dir
}

// treeOf are the files of a directory, with their contents.
func treeOf(s *scene, dir string) (all []string) {
	s.Helper()
	s.must(filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, err := os.ReadFile(file)
			s.must(err)
			all = append(all, file+": "+string(text))
		}
		return err
	}))
	return all
}

// operatorOf serves the kinds of a repository in dir, with exactly the rights and policies that are written
// there.
func (s *scene) operatorOf(dir string) {
	s.Helper()
	account := s.namespace
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, account)}))
	role, err := kit.Read[rbacv1.ClusterRole](filepath.Join(dir, "config/rbac/role.yaml"))
	s.must(err)
	role.Name = account
	s.must(env.Client.Create(ctx, &role))
	for _, role := range []string{account, "metrics-auth-role"} {
		s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: objectMeta("", account+"-"+role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: account}},
		}))
	}
	policy, err := os.ReadFile(filepath.Join(dir, "config/policy/policy.yaml"))
	s.must(err)
	policy = []byte(strings.ReplaceAll(string(policy), "system:controller-manager:", "system:"+account+":"))
	beyond, err := os.ReadFile(filepath.Join(dir, "config/rbac/cluster_role.yaml"))
	s.must(err)
	policy = slices.Concat(policy, []byte("---\n"), []byte(strings.ReplaceAll(strings.ReplaceAll(string(beyond), "namespace: system", "namespace: "+operatorNamespace), "manager-cluster-role", account+"-beyond")))
	bounds, err := kit.Objects([]byte(strings.ReplaceAll(string(policy), "controller-manager", account)))
	s.must(err)
	crds, err := filepath.Glob(filepath.Join(dir, "config/crd/bases", kindsGroup+"_*.yaml"))
	s.must(err)
	for _, file := range crds {
		crd, err := kit.Read[unstructured.Unstructured](file)
		s.must(err)
		bounds = append(bounds, &crd)
	}
	for _, object := range bounds {
		s.must(env.Client.Create(ctx, object))
		if object.GetKind() == "CustomResourceDefinition" {
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			s.awaitServed(kindsGroup+"/v1", kind)
		}
	}
	watches, err := os.ReadFile(filepath.Join(dir, "watches.yaml"))
	s.must(err)
	s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: account, noPolicy: true,
		watches: strings.ReplaceAll(string(watches), "chart: helm-charts/", "chart: "+dir+"/helm-charts/"),
	})
}

// TestMakeKindOfCharts makes a kind of each chart of -charts, or of one with workloads of several kinds, and
// installs its sample.
func TestMakeKindOfCharts(t *testing.T) {
	for i, chart := range strings.Split(cmp.Or(*chartDirs, kit.File("tests/charts/workloads")), ",") {
		t.Run(filepath.Base(chart), func(t *testing.T) {
			s := newScene(t)
			kind := fmt.Sprintf("Public%c", 'a'+i)
			dir := makeKind(s, chart, kind, "", "")
			s.operatorOf(dir)
			sample, err := kit.Read[unstructured.Unstructured](filepath.Join(dir, "config/samples", "kinds_v1_"+strings.ToLower(kind)+".yaml"))
			s.must(err)
			sample.SetNamespace(s.namespace)
			s.must(env.Client.Create(ctx, &sample))
			s.awaitOf(kind, sample.GetName(), "Deployed")
		})
	}
}

// A kind is made of Helm's own chart by one command: nothing is left to edit, the sample becomes what the
// chart has, with the rights that were made, and who writes custom resources does not say what its pods run.
func TestMakeKind(t *testing.T) {
	s := newScene(t)
	chart, err := chartutil.Create("created", t.TempDir())
	s.must(err)
	dir := makeKind(s, chart, "Created", "", "")
	s.operatorOf(dir)

	sample, err := kit.Read[unstructured.Unstructured](filepath.Join(dir, "config/samples/kinds_v1_created.yaml"))
	s.must(err)
	sample.SetNamespace(s.namespace)
	s.must(env.Client.Create(ctx, &sample))
	s.awaitOf("Created", sample.GetName(), "Deployed")
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}} {
		s.get(object, sample.GetName())
		if !metav1.IsControlledBy(object, &sample) {
			t.Errorf("%T %s is not the sample's", object, object.GetName())
		}
	}

	// Its options work, with the rights that there are, and the fields that there are not have no effect.
	s.editOf("Created", sample.GetName(), kit.Set("autoscaling.enabled", true), kit.Set("podLabels.team", "web"),
		kit.Set("image.repository", "evil.example.com/image"), kit.Set("serviceAccount.name", "other"), kit.Set("livenessProbe.exec.command", []any{"sh"}))
	s.awaitExists(&autoscalingv2.HorizontalPodAutoscaler{}, sample.GetName())
	s.await("the label reaches the pods", func() error {
		deployment := &appsv1.Deployment{}
		s.get(deployment, sample.GetName())
		pod := deployment.Spec.Template
		if container := pod.Spec.Containers[0]; container.Image != "nginx:1.16.0" || container.LivenessProbe.Exec != nil || pod.Spec.ServiceAccountName != sample.GetName() {
			t.Fatalf("an author changed the pods: %+v", pod.Spec)
		}
		if pod.Labels["team"] != "web" {
			return fmt.Errorf("they have %v", pod.Labels)
		}
		return nil
	})
	for field, value := range map[string]any{
		"service.type":       "ClusterIP\n  externalIPs: [192.0.2.1]",
		"podLabels":          map[string]any{"sidecar.example.com/inject": "true"},
		"ingress.hosts":      []any{map[string]any{"host": "a", "paths": []any{map[string]any{"path": "/", "pathType": "{a: b}"}}}},
		"ingress.className":  "a: b",
		"nodeSelector.nodes": map[string]any{"not": "a text"},
	} {
		err := env.Client.Create(ctx, s.of("Created", "trap", kit.Set(field, value)), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s may be %q: %v", field, value, err)
		}
	}

	object := s.of("Created", sample.GetName())
	s.must(env.Client.Delete(ctx, object))
	s.awaitGone(object.DeepCopy(), sample.GetName())
	s.awaitGone(&appsv1.Deployment{}, sample.GetName())
}

// A kind whose role hands out rights on Secrets says which line of its entry that takes, and with that line, it is ready.
func TestMakeKindWithARoleForSecrets(t *testing.T) {
	chart := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":        "{apiVersion: v2, name: reader, version: 0.1.0}",
		"templates/it.yaml": "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: {{ .Release.Name }}}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}\n",
	} {
		file := filepath.Join(chart, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const allow = "  allow: {kinds: [Role.rbac.authorization.k8s.io]}\n"
	for _, c := range []struct{ kind, settings, condition, says string }{
		{"Readera", allow, "Stalled", "those on Secrets only with secrets: true in watches.yaml"},
		{"Readerb", allow + "  secrets: true\n", "Ready", ""},
	} {
		s := newScene(t)
		s.operatorOf(makeKind(s, chart, c.kind, "", c.settings))
		s.createOf(c.kind, "hello")
		s.awaitOf(c.kind, "hello", c.condition, c.says)
	}
}

// A kind may have what is in no namespace, and hand out rights, if its entry says so: then the operator gets
// exactly the rights for that, and to make what is not in the entry it has none.
func TestMakeKindInNoNamespace(t *testing.T) {
	s := newScene(t)
	pin, allow, _ := strings.Cut(inCluster(t), "  allow:\n")
	if !strings.Contains(pin, `fullnameOverride: "{namespace}.{name}"`) {
		t.Fatal(pin)
	}
	dir := makeKind(s, kit.File("tests/charts/cluster"), "Wide", "fullnameOverride={namespace}.{name}", "  allow:\n"+allow)
	role, err := kit.Read[rbacv1.ClusterRole](filepath.Join(dir, "config/rbac/cluster_role.yaml"))
	s.must(err)
	inNamespaces, err := kit.Read[rbacv1.ClusterRole](filepath.Join(dir, "config/rbac/role.yaml"))
	s.must(err)
	for _, rule := range slices.Concat(role.Rules, inNamespaces.Rules) {
		for _, verb := range rule.Verbs {
			if slices.Contains([]string{"*", "bind", "escalate", "impersonate"}, verb) {
				t.Errorf("the operator may %v", rule)
			}
		}
	}
	s.operatorOf(dir)
	s.createOf("Wide", "hello")
	s.awaitOf("Wide", "hello", "Ready")
	for name, object := range s.inNoNamespace() {
		s.get(object, name)
	}

	token, err := env.Token(ctx, operatorNamespace, s.namespace)
	s.must(err)
	operator, err := client.New(env.As(token), client.Options{Scheme: env.Client.Scheme()})
	s.must(err)
	mark := map[string]string{madeForKind: "Wide." + kindsGroup}
	named := func(name string, annotations map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Rules: rules}
	}
	for name, c := range map[string]struct {
		object client.Object
		says   string
	}{
		"another name":   {named("anything", mark), "a custom resource of its kinds controls"},
		"kept":           {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "anything", Labels: map[string]string{"webapp.demo.welcome.domain/managed-by": "welcome-operator"}, Annotations: map[string]string{madeForKind: "Wide." + kindsGroup, policyOfHelm: "keep"}}}, "in no namespace"},
		"no mark":        {named(s.namespace+".x-reader", nil), "a custom resource of its kinds controls"},
		"another's mark": {named(s.namespace+".x-reader", map[string]string{madeForKind: "Welcome." + kit.Group}), "a custom resource of its kinds controls"},
		"other rights":   {named(s.namespace+".x-reader", mark, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}), "attempting to grant RBAC permissions not currently held"},
		"cluster-admin":  {&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + ".x-reader", Annotations: mark}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}, "attempting to grant RBAC permissions not currently held"},
		"in a namespace": {&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "x", Annotations: mark}}, "a custom resource of its kinds controls"},
	} {
		if err := operator.Create(ctx, c.object); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name as the entry has it makes nobody's object the operator's, even if it would mark it; one of the
	// two marks does, so that the other can be put back.
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		may                 bool
	}{
		"neither mark":   {},
		"another's mark": {annotations: map[string]string{madeForKind: "Welcome." + kit.Group}},
		"the label":      {labels: map[string]string{kit.ManagedBy: "welcome-operator"}, may: true},
		"the annotation": {annotations: mark, may: true},
	} {
		object := named(s.namespace+".x-foreign", c.annotations)
		object.Labels = c.labels
		s.must(env.Client.Create(ctx, object))
		changed := named(object.Name, mark)
		changed.Labels = map[string]string{kit.ManagedBy: "welcome-operator"}
		for verb, err := range map[string]error{
			"change": operator.Patch(ctx, changed, client.Merge, client.DryRunAll), // as Helm does: there is no right to update
			"delete": operator.Delete(ctx, object, client.DryRunAll),
		} {
			if c.may && err != nil || !c.may && (err == nil || !strings.Contains(err.Error(), "a custom resource of its kinds controls")) {
				t.Errorf("%s what has %s: %v", verb, name, err)
			}
		}
		s.must(env.Client.Delete(ctx, object))
	}
	s.delete(s.of("Wide", "hello"))
	for name, object := range s.inNoNamespace() {
		s.awaitGone(object, name)
	}
}

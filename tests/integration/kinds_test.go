package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// kindsGroup is the API group of the kinds that tests serve beside Welcomes. Each test has kinds of its own,
// because the deletion of a CRD takes a while.
const kindsGroup = "kinds.example.com"

// serveKind creates a CRD whose custom resources may have any fields.
func (s *scene) serveKind(kind string) {
	s.Helper()
	plural, singular := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kindsGroup, Version: "v1", Kind: kind})
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	spec := anything
	spec.Default = &apiextensionsv1.JSON{Raw: []byte("{}")} // the library needs one
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta("", plural.Resource+"."+kindsGroup), Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: kindsGroup, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural.Resource, Singular: singular.Resource},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": anything},
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}},
	}}
	s.must(env.Client.Create(ctx, crd))
	s.awaitServed(kindsGroup+"/v1", kind)
}

// awaitServed waits until the API server serves a kind whose CRD is new: an operator that starts earlier ends
// soon, to be restarted.
func (s *scene) awaitServed(apiVersion, kind string) {
	s.Helper()
	s.await(kind+" is served", func() error { return env.Client.List(ctx, kit.List(apiVersion, kind)) })
}

// accountForKinds is an account that may serve all of kindsGroup, within the bounds of its operator's policy.
func (s *scene) accountForKinds() string {
	s.Helper()
	name := s.namespace
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, name)}))
	s.must(env.Client.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: objectMeta("", name), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{kindsGroup}, Resources: []string{"*"}, Verbs: []string{"list", "watch", "patch", "update"}},
	}}))
	for _, role := range []string{name, "manager-role", "metrics-auth-role"} {
		s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: objectMeta("", name+"-"+role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: name}},
		}))
	}
	s.must(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(operatorNamespace, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leader-election-role"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: name}},
	}))
	return name
}

// accountForCharts is an account that may create whatever charts have.
func (s *scene) accountForCharts() string {
	s.Helper()
	s.must(env.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: objectMeta(operatorNamespace, s.namespace)}))
	s.must(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: objectMeta("", s.namespace),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: s.namespace}},
	}))
	return s.namespace
}

// noteChart is a chart with a NetworkPolicy whose name the custom resource chooses.
func noteChart(t *testing.T) string {
	t.Helper()
	return chartOf(t, map[string]string{
		"Chart.yaml":          "{apiVersion: v2, name: note, version: 0.1.0}",
		"values.yaml":         "note: note",
		"templates/note.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: '{{ .Release.Name }}-{{ .Values.note }}'}\nspec: {podSelector: {matchLabels: {note: '{{ .Release.Name }}'}}}\n",
	})
}

// chartOf writes a chart, and returns its directory.
func chartOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "chart")
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// entryOf is an entry of watches.yaml, with settings indented by two.
func entryOf(kind, chart, settings string) string {
	return fmt.Sprintf("- group: %s\n  version: v1\n  kind: %s\n  chart: %s\n%s", kindsGroup, kind, chart, settings)
}

// of is a custom resource of a kind of kindsGroup, as it is in the cluster if it exists.
func (s *scene) of(kind, name string, edits ...kit.Edit) *unstructured.Unstructured {
	s.Helper()
	object := kit.Object(kindsGroup+"/v1", kind)
	if err := client.IgnoreNotFound(s.find(object, name)); err != nil {
		s.Fatal(err)
	}
	object.SetNamespace(s.namespace)
	object.SetName(name)
	for _, edit := range edits {
		edit(object)
	}
	return object
}

// createOf stores a custom resource of another kind.
func (s *scene) createOf(kind, name string, edits ...kit.Edit) *unstructured.Unstructured {
	s.Helper()
	object := s.of(kind, name, edits...)
	s.must(env.Client.Create(ctx, object))
	return object
}

// editOf changes a custom resource of another kind.
func (s *scene) editOf(kind, name string, edits ...kit.Edit) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error { return env.Client.Update(ctx, s.of(kind, name, edits...)) }))
}

// awaitOf waits until a condition of a custom resource of another kind is True, with all parts in its reason and message.
func (s *scene) awaitOf(kind, name, condition string, parts ...string) {
	s.Helper()
	s.await(fmt.Sprintf("%s %s is %s with %q", kind, name, condition, parts), func() error {
		object := s.of(kind, name)
		got, err := kit.Condition(object, condition)
		if err != nil {
			return err
		}
		if got.Status != metav1.ConditionTrue || got.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("it is %+v", got)
		}
		return says(got.Reason+": "+got.Message, parts)
	})
}

// helm reads the cluster as helm with HELM_DRIVER=driver does.
func (s *scene) helm(driver string) *action.Configuration {
	s.Helper()
	kubeconfig, err := env.Kubeconfig("admin", env.Admin)
	s.must(err)
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &s.namespace
	config := &action.Configuration{}
	s.must(config.Init(flags, s.namespace, driver, func(string, ...any) {}))
	return config
}

// helmHas is nil if helm ls lists exactly these releases, and helm history and helm get manifest have one
// revision of each, with an object.
func (s *scene) helmHas(want map[string]string) error {
	s.Helper()
	config := s.helm("configmap")
	list := action.NewList(config)
	list.All = true
	releases, err := list.Run()
	s.must(err)
	var names []string
	for _, rel := range releases {
		names = append(names, rel.Name)
		history, err := action.NewHistory(config).Run(rel.Name)
		s.must(err)
		if len(history) != 1 {
			return fmt.Errorf("helm history %s has %d revisions", rel.Name, len(history))
		}
		got, err := action.NewGet(config).Run(rel.Name)
		s.must(err)
		if object := want[rel.Name]; object == "" || got.Name != rel.Name || !strings.Contains(got.Manifest, object) {
			return fmt.Errorf("helm get manifest %s is of %q, not with %q:\n%s", rel.Name, got.Name, object, got.Manifest)
		}
	}
	if len(names) != len(want) {
		return fmt.Errorf("helm ls says %q", names)
	}
	return nil
}

// serveSecondVersion makes the API server serve a kind of serveKind as v2, too.
func (s *scene) serveSecondVersion(kind string) {
	s.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: strings.ToLower(kind) + "s." + kindsGroup}, crd))
	second := *crd.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	crd.Spec.Versions = append(crd.Spec.Versions, second)
	s.must(env.Client.Update(ctx, crd))
	s.awaitServed(kindsGroup+"/v2", kind)
}

// storeInSecondVersion has the custom resources of a kind of serveSecondVersion stored as v2, and drops v1, as
// docs/upgrade.md does.
func (s *scene) storeInSecondVersion(kind string) {
	s.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.must(env.Client.Get(ctx, client.ObjectKey{Name: strings.ToLower(kind) + "s." + kindsGroup}, crd))
	crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	s.must(env.Client.Update(ctx, crd))
	without := crd.DeepCopy()
	without.Spec.Versions = crd.Spec.Versions[1:]
	if err := env.Client.Update(ctx, without, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "status.storedVersions") {
		s.Errorf("the CRD without v1 is not refused: %v", err)
	}
	all, err := s.kubectl("", "get", crd.Name, "--output", "json")
	s.must(err)
	_, err = s.kubectl(all, "replace", "--filename", "-")
	s.must(err)
	_, err = s.kubectl("", "patch", "crd", crd.Name, "--subresource", "status", "--type", "merge", "--patch", `{"status":{"storedVersions":["v2"]}}`)
	s.must(err)
	s.must(env.Client.Get(ctx, client.ObjectKeyFromObject(crd), without))
	without.Spec.Versions = crd.Spec.Versions[1:]
	s.must(env.Client.Update(ctx, without))
	s.awaitUnknown(kind)
}

// A kind whose custom resources are served by another version of their API keeps its releases, and the next
// upgrade has the objects name their owner by that version: the garbage collector finds none by one that the
// cluster no longer serves. The former version can go then.
func TestAnotherVersionOfTheKind(t *testing.T) {
	s := newScene(t)
	s.serveKind("Brochure")
	account, chart := s.accountForKinds(), noteChart(t)
	watches := entryOf("Brochure", chart, "")
	first := s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: watches})
	brochure := s.createOf("Brochure", "hello")
	s.awaitOf("Brochure", "hello", "Ready")
	before := &networkingv1.NetworkPolicy{}
	s.get(before, "hello-note")
	first.Stop()

	s.serveSecondVersion("Brochure")
	s.ownOperator(settings{namespaces: []string{s.namespace}, account: account, watches: strings.Replace(watches, "version: v1", "version: v2", 1)})
	s.editOf("Brochure", "hello", kit.Set("more", "is set"))
	s.awaitOf("Brochure", "hello", "Ready")
	after := &networkingv1.NetworkPolicy{}
	s.await("the object names its owner by the other version", func() error {
		if s.get(after, "hello-note"); after.OwnerReferences[0].APIVersion != kindsGroup+"/v2" {
			return fmt.Errorf("it is %+v", after.OwnerReferences)
		}
		return nil
	})
	if after.UID != before.UID || len(after.OwnerReferences) != 1 || !metav1.IsControlledBy(after, brochure) {
		t.Errorf("it was %s, and is %s of %+v", before.UID, after.UID, after.OwnerReferences)
	}

	s.storeInSecondVersion("Brochure")
	hello := kit.Object(kindsGroup+"/v2", "Brochure")
	s.get(hello, "hello")
	s.must(env.Client.Patch(ctx, hello, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"note": "other"}}`))))
	s.awaitExists(after, "hello-other")
	s.awaitGone(before, "hello-note")
	s.delete(hello)
	s.must(s.isGone(after, "hello-other"))
}

// Two kinds have custom resources of the same name: with releaseName: kind, both have a release.
func TestTwoKindsWithOneName(t *testing.T) {
	s := newScene(t)
	s.serveKind("Letter")
	s.serveKind("Parcel")
	chart := noteChart(t)
	operator := s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: s.accountForKinds(),
		watches: entryOf("Letter", chart, "") + entryOf("Parcel", chart, "  releaseName: kind\n"),
	})
	letter := s.createOf("Letter", "hello", kit.Set("note", "letter"))
	parcel := s.createOf("Parcel", "hello", kit.Set("note", "parcel"))
	s.awaitOf("Letter", "hello", "Ready")
	s.awaitOf("Parcel", "hello", "Ready")
	for owner, object := range map[*unstructured.Unstructured]string{letter: "hello-letter", parcel: "hello-parcel"} {
		policy := &networkingv1.NetworkPolicy{}
		s.get(policy, object)
		if !metav1.IsControlledBy(policy, owner) || policy.Spec.PodSelector.MatchLabels["note"] != "hello" {
			t.Errorf("%s is %+v", object, policy)
		}
	}
	s.must(s.helmHas(map[string]string{"hello": "hello-letter", "hello.parcel": "hello-parcel"}))
	if name, _, _ := unstructured.NestedString(s.of("Parcel", "hello").Object, "status", "release", "name"); name != "hello.parcel" {
		t.Errorf("status.release.name is %q", name)
	}

	// An edit is an upgrade of its own release, and an idle look costs nothing.
	s.editOf("Parcel", "hello", kit.Set("note", "changed"))
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-changed")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-parcel")
	s.awaitOf("Parcel", "hello", "Ready")
	s.costsNothing(operator, "Parcel")

	// What truly collides is refused by name, and left alone.
	s.editOf("Parcel", "hello", kit.Set("note", "letter"))
	s.awaitOf("Parcel", "hello", "Stalled", "ObjectInTheWay", `NetworkPolicy "hello-letter"`)
	policy := &networkingv1.NetworkPolicy{}
	s.get(policy, "hello-letter")
	if !metav1.IsControlledBy(policy, letter) {
		t.Errorf("hello-letter is %+v", policy)
	}
	s.awaitOf("Letter", "hello", "Ready")
	s.editOf("Parcel", "hello", kit.Set("note", "parcel"))
	s.awaitOf("Parcel", "hello", "Ready")

	s.delete(s.of("Letter", "hello"))
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-letter")
	s.get(&networkingv1.NetworkPolicy{}, "hello-parcel")
	releases, err := action.NewList(s.helm("configmap")).Run()
	s.must(err)
	if len(releases) != 1 || releases[0].Name != "hello.parcel" {
		t.Errorf("helm ls says %v", releases)
	}
	s.delete(s.of("Parcel", "hello"))
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-parcel")
	s.must(s.helmHas(nil))
}

// Without, the second one is refused: it is told whose the release is, and what to do. That holds also where
// the first has come so far that the revision is free with which the second would begin, and for names with
// dots.
func TestReleaseNameIsTaken(t *testing.T) {
	s := newScene(t)
	s.serveKind("Memo")
	s.serveKind("Tab")
	s.serveKind("Sheet")
	chart := noteChart(t)
	s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: s.accountForKinds(),
		watches: entryOf("Memo", chart, "") + entryOf("Tab", chart, "") + entryOf("Sheet", chart, "  releaseName: kind\n"),
	})
	s.createOf("Memo", "hello", kit.Set("note", "memo"))
	s.awaitOf("Memo", "hello", "Ready")
	for i := range 6 {
		s.editOf("Memo", "hello", kit.Set("note", fmt.Sprintf("memo-%d", i)))
		s.awaitOf("Memo", "hello", "Ready")
	}
	s.awaitGone(&corev1.ConfigMap{}, "sh.helm.release.v1.hello.v1")
	s.createOf("Tab", "hello", kit.Set("note", "tab"))
	s.awaitOf("Tab", "hello", "Stalled", "ReleaseName", `"hello" is taken by Memo "hello"`, "rename one of the two", "releaseName: kind")
	s.must(s.isGone(&networkingv1.NetworkPolicy{}, "hello-tab"))
	s.must(s.isGone(&corev1.ConfigMap{}, "sh.helm.release.v1.hello.v1"))

	s.createOf("Memo", "a.sheet", kit.Set("note", "memo"))
	s.awaitOf("Memo", "a.sheet", "Ready")
	s.createOf("Sheet", "a", kit.Set("note", "sheet"))
	s.awaitOf("Sheet", "a", "Stalled", "ReleaseName", `"a.sheet" is taken by Memo "a.sheet"`, "rename one of the two")
	s.delete(s.of("Memo", "a.sheet"))
	s.awaitOf("Sheet", "a", "Ready")
	s.createOf("Sheet", "a.v1", kit.Set("note", "sheet"))
	s.awaitOf("Sheet", "a.v1", "Ready")

	long := strings.Repeat("a", 48)
	s.createOf("Sheet", long)
	s.awaitOf("Sheet", long, "Stalled", "ReleaseName", long+".sheet", "at most 47")
	s.createOf("Memo", long+"-and-more")
	s.awaitOf("Memo", long+"-and-more", "Stalled", "ReleaseName", "at most 53")

	s.delete(s.of("Memo", "hello"))
	s.awaitOf("Tab", "hello", "Ready")
	s.delete(s.of("Sheet", long))
}

// Who changes releaseName of a kind that has releases is told so by each of them, and nothing else is done.
func TestReleaseNameStaysAsItIs(t *testing.T) {
	s := newScene(t)
	s.serveKind("Poster")
	chart, account := noteChart(t), s.accountForKinds()
	serve := func(releaseName string) *process {
		return s.ownOperator(settings{
			namespaces: []string{s.namespace}, account: account, watches: entryOf("Poster", chart, "  releaseName: "+releaseName+"\n"),
		})
	}
	for _, c := range []struct{ name, from, to, release string }{{"one", "plain", "kind", "one"}, {"two", "kind", "plain", "two.poster"}} {
		operator := serve(c.from)
		s.createOf("Poster", c.name)
		s.awaitOf("Poster", c.name, "Ready")
		policy := &networkingv1.NetworkPolicy{}
		s.get(policy, c.name+"-note")
		operator.Stop()

		operator = serve(c.to)
		s.awaitOf("Poster", c.name, "Stalled", "ReleaseName", `"`+c.release+`"`, "back to "+c.from)
		s.must(s.helmHas(map[string]string{c.release: c.name + "-note"}))
		s.unharmed(policy)
		operator.Stop()

		operator = serve(c.from)
		s.awaitOf("Poster", c.name, "Ready")
		operator.Stop()

		// What was installed by that name is uninstalled all the same.
		operator = serve(c.to)
		s.delete(s.of("Poster", c.name))
		s.awaitGone(policy, c.name+"-note")
		s.must(s.helmHas(nil))
		operator.Stop()
	}
}

// A chart may make custom resources of another kind, or of its own, which the same operator serves: they are
// at rest together, are repaired, and go together.
func TestCustomResourcesOfACustomResource(t *testing.T) {
	s := newScene(t)
	s.serveKind("Suite")
	s.serveKind("Room")
	suite := chartOf(t, map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: suite, version: 0.1.0}",
		"values.yaml": "{note: note, rooms: 2, inner: 0, kept: false}",
		"templates/rooms.yaml": `
{{- range until (int .Values.rooms) }}
---
apiVersion: ` + kindsGroup + `/v1
kind: Room
metadata: {name: "{{ $.Release.Name }}-{{ . }}"}
spec: {note: "{{ $.Values.note }}"}
{{- end }}
{{- if .Values.kept }}
---
apiVersion: ` + kindsGroup + `/v1
kind: Room
metadata: {name: "{{ .Release.Name }}-kept", annotations: {helm.sh/resource-policy: keep}}
spec: {note: "{{ .Values.note }}"}
{{- end }}
{{- if .Values.inner }}
---
apiVersion: ` + kindsGroup + `/v1
kind: Suite
metadata: {name: "{{ .Release.Name }}-in"}
spec: {note: "{{ .Values.note }}", inner: {{ sub .Values.inner 1 }}}
{{- end }}
`,
	})
	account := s.accountForCharts()
	operator := s.ownOperator(settings{
		namespaces: []string{s.namespace}, account: account,
		watches: entryOf("Suite", suite, "  allow: {kinds: [Suite.kinds.example.com, Room.kinds.example.com]}\n") + entryOf("Room", noteChart(t), ""),
	})
	owner := s.createOf("Suite", "hello", kit.Set("note", "one"), kit.Set("kept", true))
	s.awaitOf("Suite", "hello", "Ready")
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-kept-one")
	s.costsNothing(operator, "Suite")
	s.editOf("Room", "hello-kept", kit.Set("note", "theirs"))
	s.await("the kept Room is put back", func() error {
		if note, _, _ := unstructured.NestedString(s.of("Room", "hello-kept").Object, "spec", "note"); note != "one" {
			return fmt.Errorf("its note is %q", note)
		}
		return nil
	})
	s.editOf("Suite", "hello", kit.Set("note", "one"), kit.Set("kept", false))
	s.awaitOf("Suite", "hello", "Ready")
	s.delete(s.of("Room", "hello-kept"))

	s.editOf("Suite", "hello", kit.Set("note", "one"), kit.Set("inner", int64(2)))
	s.awaitOf("Suite", "hello", "Ready")
	s.awaitOf("Suite", "hello-in-in", "Ready")
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-in-in-1-one")
	s.editOf("Suite", "hello", kit.Set("note", "two"), kit.Set("inner", int64(2)))
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-in-in-1-two")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-in-in-1-one")
	s.awaitOf("Suite", "hello", "Ready")
	s.costsNothing(operator, "Suite")

	// Somebody edits, and deletes, what the chart has made.
	s.editOf("Room", "hello-1", kit.Set("note", "theirs"))
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-1-two")
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-1-theirs")
	s.must(env.Client.Delete(ctx, s.of("Suite", "hello-in")))
	s.awaitOf("Suite", "hello", "Ready")
	s.awaitOf("Suite", "hello-in-in", "Ready")
	s.awaitExists(&networkingv1.NetworkPolicy{}, "hello-in-in-1-two")

	// The operator's token is no good for those of others.
	token, err := env.Token(ctx, operatorNamespace, account)
	s.must(err)
	thief, err := client.New(env.As(token), client.Options{Scheme: env.Client.Scheme()})
	s.must(err)
	s.createOf("Room", "mine", kit.Set("note", "mine"))
	s.awaitOf("Room", "mine", "Ready")
	patch := func(edit kit.Edit) error {
		room := s.of("Room", "mine")
		before := client.MergeFrom(room.DeepCopy())
		edit(room)
		return thief.Patch(ctx, room, before)
	}
	for what, err := range map[string]error{
		"mark it": patch(func(room *unstructured.Unstructured) {
			room.SetLabels(map[string]string{kit.ManagedBy: "welcome-operator"})
		}),
		"take it": patch(func(room *unstructured.Unstructured) {
			room.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
		}),
		"take and edit it": patch(func(room *unstructured.Unstructured) {
			room.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
			kit.Set("note", "theirs")(room)
		}),
		"edit it":   patch(kit.Set("note", "theirs")),
		"delete it": thief.Delete(ctx, s.of("Room", "mine")),
	} {
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.delete(s.of("Room", "mine"))

	s.must(env.Client.Delete(ctx, s.of("Suite", "hello")))
	for _, kind := range []string{"Suite", "Room"} {
		s.await("each "+kind+" is gone", func() error {
			list := kit.List(kindsGroup+"/v1", kind)
			if err := env.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("there are %d", len(list.Items))
			}
			return nil
		})
	}
	s.awaitGone(&networkingv1.NetworkPolicy{}, "hello-in-in-1-two")
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/internal/object"
	boot "demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// Only the values that the operator sets are taken out of those of a release.
func TestTakeOut(t *testing.T) {
	values := func() map[string]any {
		return map[string]any{"image": map[string]any{"tag": "v1"}, "a.b": "c", "service": map[string]any{"port": 80, "type": "NodePort"}, "name": "all"}
	}
	for key, c := range map[string]struct {
		had  bool
		want map[string]any
	}{
		"image.tag":    {true, map[string]any{"a.b": "c", "service": map[string]any{"port": 80, "type": "NodePort"}, "name": "all"}},
		"image":        {true, map[string]any{"a.b": "c", "service": map[string]any{"port": 80, "type": "NodePort"}, "name": "all"}},
		`a\.b`:         {true, map[string]any{"image": map[string]any{"tag": "v1"}, "service": map[string]any{"port": 80, "type": "NodePort"}, "name": "all"}},
		"service.port": {true, map[string]any{"image": map[string]any{"tag": "v1"}, "a.b": "c", "service": map[string]any{"type": "NodePort"}, "name": "all"}},
		"a.b":          {false, values()},
		"name.first":   {false, values()},
		"image.pull":   {false, values()},
	} {
		got := values()
		if had := takeOut(got, release.PathOf(key)); had != c.had || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", key, had, got)
		}
	}
}

// A release is not adopted in the middle of an action of Helm's, after its uninstallation, or if an upgrade failed: some
// of that may have been applied.
func TestDeployedOf(t *testing.T) {
	r := &helmRecords{kind: "Secret", namespace: "team-a", name: "hello"}
	records := func(statuses ...string) (found []metav1.PartialObjectMetadata) {
		for i, status := range statuses {
			labels := map[string]string{"status": status, "version": strconv.Itoa(len(statuses) - i)}
			found = append(found, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i)), Labels: labels}})
		}
		return found
	}
	for _, c := range []struct {
		records   []metav1.PartialObjectMetadata
		name, err string
	}{
		{records("deployed", "superseded"), "a", ""},
		{records("failed", "deployed", "superseded"), "", "is not deployed, but failed: helm rollback hello 2 -n team-a"},
		{records("superseded", "deployed"), "", "is not deployed, but superseded: helm rollback hello 1 -n team-a"},
		{nil, "", "there is no Helm release hello in namespace team-a"},
		{records("pending-upgrade", "deployed"), "", "is pending-upgrade: wait"},
		{records("uninstalling", "superseded"), "", "is uninstalling: wait"},
		{records("uninstalled", "superseded"), "", "is not deployed, but uninstalled"},
		{records("failed"), "", "is not deployed, but failed: helm rollback hello -n team-a"},
	} {
		got, err := r.deployedOf(c.records)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || got != nil && got.Name != c.name {
			t.Errorf("%v: %v, %v", c.records, got, err)
		}
	}
	stock := records("deployed")
	controls := true
	stock[0].OwnerReferences = []metav1.OwnerReference{{Kind: "MyApp", Name: "hello", Controller: &controls}}
	if _, err := r.deployedOf(stock); err == nil || !strings.Contains(err.Error(), "is of MyApp hello, of another Helm operator") {
		t.Error(err)
	}
}

// Where the operator's records would have the names of Helm's, nothing is begun.
func TestCheckRoom(t *testing.T) {
	secrets := boot.PublishedEntry{Kind: "Welcome", Secrets: true}
	ofKind := secrets
	ofKind.ReleaseName = record.NamesKind
	for _, c := range []struct {
		kind, as string
		entry    boot.PublishedEntry
		isRoom   bool
	}{
		{"Secret", "hello", secrets, false},
		{"ConfigMap", "hello", boot.PublishedEntry{ReleaseName: record.NamesPlain}, false},
		{"Secret", "hello", boot.PublishedEntry{}, true},
		{"ConfigMap", "hello", secrets, true},
		{"Secret", "hi", secrets, true},
		{"Secret", "hello", ofKind, true},
	} {
		r := &helmRecords{kind: c.kind, name: "hello"}
		if err := r.checkRoom(c.entry, c.as); (err == nil) != c.isRoom || err != nil && !strings.Contains(err.Error(), "releaseName: kind") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Only the revision that the caller has seen and agreed to is adopted. Its record is deleted last.
func TestRecordsOfHelm(t *testing.T) {
	ctx := context.Background()
	r := &helmRecords{kind: "Secret", namespace: "team-a", name: "hello"}
	recordOf := func(revision int, uid types.UID, status helmrelease.Status) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: record.NameOf(r.name, revision), UID: uid,
			Labels: map[string]string{"owner": "helm", "name": r.name, "version": strconv.Itoa(revision), "status": string(status)}},
			Data: map[string][]byte{"release": []byte(packed(`{"name": "hello"}`))}}
	}
	first := recordOf(1, "a", helmrelease.StatusDeployed)
	server := fake.NewClientBuilder().WithObjects(first).Build()
	r.api = server
	read := &metav1.PartialObjectMetadata{ObjectMeta: first.ObjectMeta}
	if err := r.checkStill(ctx, read); err != nil {
		t.Error(err)
	}
	anew := recordOf(1, "b", helmrelease.StatusDeployed)
	if err := errors.Join(server.Delete(ctx, first), server.Create(ctx, anew)); err != nil {
		t.Fatal(err)
	}
	if err := r.checkStill(ctx, read); err == nil || !strings.Contains(err.Error(), "Helm make revision 1 of hello meanwhile: run it again") {
		t.Error(err)
	}

	adopted, failed := recordOf(3, "c", helmrelease.StatusDeployed), recordOf(4, "f", helmrelease.StatusFailed)
	if err := errors.Join(server.Delete(ctx, anew), server.Create(ctx, recordOf(1, "d", helmrelease.StatusSuperseded)), server.Create(ctx, recordOf(2, "e", helmrelease.StatusFailed)),
		server.Create(ctx, adopted), server.Create(ctx, failed)); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	r.api = interceptor.NewClient(server, interceptor.Funcs{Delete: func(ctx context.Context, api client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
		deleted = append(deleted, obj.GetName())
		return api.Delete(ctx, obj, options...)
	}})
	taken := func(context.Context, *helmrelease.Release) error { return nil }
	if err := r.remove(ctx, adopted.Name, taken); len(deleted) > 0 || err == nil || !strings.Contains(err.Error(), "Helm make revision 4 (failed) meanwhile") {
		t.Errorf("%v are deleted, and then %v", deleted, err)
	}
	if err := server.Delete(ctx, failed); err != nil {
		t.Fatal(err)
	}
	if err := r.remove(ctx, adopted.Name, taken); err != nil || len(deleted) != 3 || deleted[2] != adopted.Name {
		t.Errorf("%v are deleted, and then %v", deleted, err)
	}
	if err := r.remove(ctx, adopted.Name, taken); err != nil {
		t.Errorf("they are gone already, and then %v", err)
	}
	hidden := recordOf(3, "g", helmrelease.StatusDeployed)
	hidden.Labels = nil
	if err := server.Create(ctx, hidden); err != nil {
		t.Fatal(err)
	}
	if err := r.remove(ctx, adopted.Name, taken); err == nil || !strings.Contains(err.Error(), "is there, and does not say by its labels") {
		t.Error(err)
	}
}

// packed is a text in the encoding of Helm's records.
func packed(text string) string {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte(text)) // to memory
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// A record that cannot be read, or is no release, is refused. It neither crashes the plugin nor fills its memory.
func TestUnreadableRecords(t *testing.T) {
	ctx := context.Background()
	for data, says := range map[string]string{
		"":                "EOF",
		"garbage!":        "illegal base64",
		packed("garbage"): "invalid character",
		packed(`{"chart": {"metadata": {"name": "welcome"}}, "hooks": [null]}`): "is no record of Helm's",
		packed("null"): "is no record of Helm's",
		packed(strings.Repeat(" ", maxHelmRecord+1)): "more than 32 MiB",
	} {
		meta := metav1.ObjectMeta{Namespace: "team-a", Name: record.NameOf("hello", 1), Labels: map[string]string{"owner": "helm", "name": "hello", "version": "1", "status": "deployed"}}
		server := fake.NewClientBuilder().WithObjects(
			&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"release": []byte(data)}}, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"release": data}}).Build()
		for _, kind := range []string{"Secret", "ConfigMap"} {
			r := &helmRecords{api: server, kind: kind, namespace: meta.Namespace, name: "hello"}
			if _, _, err := r.deployed(ctx); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), kind+" "+meta.Name) {
				t.Errorf("%s %.20q: %v", kind, data, err)
			}
		}
	}
}

// An interrupted adoption goes on with the release and kind of record that it began with: of others it would find no
// records, and take them for deleted. Authors of custom resources cannot have the plugin read or suggest anything else.
func TestCheckBegun(t *testing.T) {
	const mark = "Secret/sh.helm.release.v1.hello.v3"
	for _, c := range []struct{ mark, kind, name, driver, says string }{
		{mark, "Secret", "hello", "", ""},
		{"ConfigMap/sh.helm.release.v1.hello.v3", "ConfigMap", "hello", "configmap", ""},
		{"sh.helm.release.v1.hello.v3", "Secret", "hello", "", ""}, // of an older version
		{"sh.helm.release.v1.hello.v3", "ConfigMap", "hello", "configmap", ""},
		{"ConfigMap/sh.helm.release.v1.hello.v3", "Secret", "hello", "", "recorded in a ConfigMap, and not of hello in a Secret. To go on: HELM_DRIVER=configmap kubectl welcome adopt hello -n team-a --name hi --operator system"},
		{mark, "ConfigMap", "hello", "configmap", "To go on: HELM_DRIVER=secret kubectl welcome adopt hello -n team-a --name hi --operator system"},
		{mark, "Secret", "hi", "", "was made of the Helm release hello, recorded in a Secret, and not of hi in a Secret. To go on: kubectl welcome adopt hello -n team-a --name hi --operator system"},
		{"Secret/sh.helm.release.v1.hi.v1", "Secret", "hello", "", "To go on: kubectl welcome adopt hi -n team-a --operator system"},
		{"Secret/token", "Secret", "hello", "", "is no record of a Helm release"},
		{"Pod/sh.helm.release.v1.hello.v3", "Secret", "hello", "", "is no record of a Helm release"},
		{"Secret/sh.helm.release.v1.hello; true.v3", "Secret", "hello", "", "kubectl annotate welcome.webapp.demo.welcome.domain/hi -n team-a " + adopts + "-"},
	} {
		t.Setenv("HELM_DRIVER", c.driver)
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "webapp.demo.welcome.domain/v1", "kind": "Welcome"}}
		obj.SetName("hi")
		obj.SetAnnotations(map[string]string{adopts: c.mark})
		a := &adoption{namespace: "team-a", name: c.name, obj: obj, records: &helmRecords{kind: c.kind}, adoptOptions: adoptOptions{as: "hi", operator: "system"}}
		name, err := a.checkBegun()
		if (err == nil) != (c.says == "") || (err == nil) != (name == "sh.helm.release.v1.hello.v3") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %q, %v", c, name, err)
		}
	}
}

// What a record of Helm's says is shown as text: it cannot overwrite the terminal.
func TestTellIsText(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	const evil = "\033[2Jforged"
	a := &adoption{cluster: &cluster{IOStreams: streams}, namespace: "team-a", name: "hello", obj: objectOf("Welcome", "hello", map[string]any{})}
	rel := &helmrelease.Release{Chart: &chart.Chart{Metadata: &chart.Metadata{Name: evil, Version: evil}}, Hooks: []*helmrelease.Hook{{Kind: "Job", Name: evil, Events: []helmrelease.HookEvent{helmrelease.HookPreInstall}}}}
	left := []*unstructured.Unstructured{objectOf("ConfigMap", evil, map[string]any{})}
	a.tell(rel, &servedKind{Kind: &release.Kind{KindOptions: release.KindOptions{Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "welcome"}}}}}, nil, &adoptionPlan{left: left})
	if said := out.String(); strings.Contains(said, "\033") || strings.Count(said, "\uFFFD[2Jforged") != 4 {
		t.Errorf("it says %q", said)
	}
}

// What hooks have left is in the way only of those that the operator runs: helm test leaves its pods, and no custom
// resource is held up by them.
func TestCheckHooks(t *testing.T) {
	a := &adoption{namespace: "team-a", name: "hello", cluster: knowing(t, genericiooptions.NewTestIOStreamsDiscard(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			obj.SetName(key.Name)
			obj.SetAnnotations(map[string]string{helmrelease.HookAnnotation: "of some event"})
			return nil
		},
	})}
	for _, test := range []struct {
		events []helmrelease.HookEvent
		says   string
	}{
		{[]helmrelease.HookEvent{helmrelease.HookTest}, ""},
		{[]helmrelease.HookEvent{helmrelease.HookPostInstall}, "kubectl delete -n team-a welcome.webapp.demo.welcome.domain/left"},
		{[]helmrelease.HookEvent{helmrelease.HookTest, helmrelease.HookPreUpgrade}, "kubectl delete -n team-a welcome.webapp.demo.welcome.domain/left"},
	} {
		hook := &helmrelease.Hook{Events: test.events, Manifest: "{apiVersion: webapp.demo.welcome.domain/v1, kind: Welcome, metadata: {name: left}}"} // a kind that the cluster knows
		err := a.checkHooks(t.Context(), &helmrelease.Release{Hooks: []*helmrelease.Hook{hook}})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: %v", test.events, err)
		}
	}
}

// Only objects with Helm's marks of the release, and without an owner, may be given away.
func TestOfRelease(t *testing.T) {
	live := func(edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
		obj.SetNamespace("team-a")
		obj.SetName("hello")
		obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
		obj.SetAnnotations(map[string]string{object.ReleaseName: "hello", object.ReleaseNamespace: "team-a"})
		for _, edit := range edits {
			edit(obj)
		}
		return obj
	}
	to := &unstructured.Unstructured{Object: map[string]any{}}
	to.SetNamespace("team-a")
	to.SetName("hi")
	now := metav1.Now()
	for why, edit := range map[string]func(*unstructured.Unstructured){
		"": func(*unstructured.Unstructured) {},
		"it is owned by Deployment other": func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "other"}})
		},
		"it is being deleted": func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&now) },
		"it does not say that it is of the Helm release hello": func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{object.ReleaseName: "hello", object.ReleaseNamespace: "team-b"})
		},
	} {
		if got := whyNotOfRelease(live(edit), "hello", to); got != why {
			t.Errorf("%q, not %q", got, why)
		}
	}
	if whyNotOfRelease(live(func(o *unstructured.Unstructured) { o.SetLabels(nil) }), "hello", to) == "" {
		t.Error("an object without Helm's label may be given away")
	}
	named := func(name string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{object.ReleaseName: name, object.ReleaseNamespace: "team-a"})
		}
	}
	if why := whyNotOfRelease(live(named("hi")), "hello", to); why != "" {
		t.Errorf("what an adoption as hi has left, that was undone, may not be given away: %s", why)
	}
	if whyNotOfRelease(live(named("other")), "hello", to) == "" {
		t.Error("an object of another release may be given away")
	}
}

// If the API server refuses values, their names are told.
func TestRefused(t *testing.T) {
	a := &adoption{namespace: "team-a", name: "hello", obj: &unstructured.Unstructured{Object: map[string]any{"kind": "Welcome"}}}
	err := a.refused(apierrors.NewBadRequest(`Welcome in version "v1" cannot be handled as a Welcome: strict decoding error: unknown field "spec.colour", unknown field "spec.image"`))
	if want := "of a Welcome, or that only the platform sets:\n  \"spec.colour\"\n  \"spec.image\"\nTake them out first: "; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, without %s", err, want)
	}
}

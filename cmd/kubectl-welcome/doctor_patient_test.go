package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	boot "demo.welcome.domain/welcome-operator/internal/operator"
)

// Which kinds an operator serves, its lease tells, and not the namespace that it shares with another.
func TestServesByLease(t *testing.T) {
	of := func(lease string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: lease}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: []string{"--leader-elect", "--leader-election-id=" + lease}}}
		return d
	}
	p := &patient{cluster: &cluster{}, Client: fake.NewClientBuilder().Build(), customResources: []unstructured.Unstructured{
		welcome("hello", func(obj *unstructured.Unstructured) {
			obj.Object["status"] = map[string]any{"operator": "operators/first"}
		}),
	}}
	for _, o := range p.meant(t.Context(), []appsv1.Deployment{of("first"), of("second")}) {
		if got, want := o.serves.Len(), map[string]int{"first": 1, "second": 0}[o.Name]; got != want {
			t.Errorf("%s serves %v", o, o.serves)
		}
	}
}

// An operator that no custom resource names counts as long as some cannot be listed. Its rights are checked if it is
// not known which operator serves the kinds.
func TestMeant(t *testing.T) {
	deployment := func(namespace string) appsv1.Deployment {
		o := watching()
		o.Namespace = namespace
		return o.Deployment
	}
	served := welcome("served", func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"operator": "named/" + boot.LeaderElectionID + "-b"}
	})
	rights, err := needs(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		listed   []unstructured.Unstructured
		unlisted error
		want     []string
		asked    string
	}{
		"all are listed": {[]unstructured.Unstructured{served}, nil, []string{"named/op"}, "named"},
		"some are not":   {[]unstructured.Unstructured{served}, errors.New("no"), []string{"named/op", "other/op"}, "named"},
		"none is":        {nil, errors.New("no"), []string{"other/op", "named/op"}, "other named"},
	} {
		var asking sync.Mutex
		var asked []string
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			review := obj.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = true
			asking.Lock()
			defer asking.Unlock()
			asked = append(asked, strings.Split(review.Spec.User, ":")[2])
			return nil
		}})
		p := &patient{cluster: &cluster{}, Client: api, needs: rights, customResources: test.listed, unlisted: test.unlisted}
		p.operators = p.meant(context.Background(), []appsv1.Deployment{deployment("other"), deployment("named")})
		var got []string
		for _, o := range p.operators {
			got = append(got, o.String())
		}
		if _, found, err := rightsSuffice(context.Background(), p); len(found) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if asked = slices.Compact(asked); !slices.Equal(got, test.want) || strings.Join(asked, " ") != test.asked {
			t.Errorf("%s: %q are meant, and %q asked about", name, got, asked)
		}
	}
}

func TestNewOperator(t *testing.T) {
	for name, test := range map[string]struct {
		env  []corev1.EnvVar
		want []string
	}{
		"all":     {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE"}}, nil},
		"some":    {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", Value: "a, b"}}, []string{"a", "b"}},
		"by OLM":  {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['olm.targetNamespaces']"}}}}, []string{"team-a", "team-b"}},
		"its own": {[]corev1.EnvVar{{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}, []string{"operators"}},
	} {
		o := watching(test.env...)
		if got := o.options.WatchNamespaces; o.refused != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", name, got, o.refused)
		}
		if o := o.options; !o.LeaderElect || o.LeaderElectionID != boot.LeaderElectionID+"-b" {
			t.Errorf("%s: %v, %s", name, o.LeaderElect, o.LeaderElectionID)
		}
	}
	settings := corev1.LocalObjectReference{Name: "settings"}
	for name, o := range map[string]operator{
		"one key":  watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: settings, Key: "NAMESPACE"}}}),
		"all keys": configured([]corev1.EnvFromSource{{Prefix: "WATCH_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: settings}}}),
	} {
		if got := o.options.WatchNamespaces; !slices.Equal(got, []string{"team-c"}) {
			t.Errorf("%s of a ConfigMap: %q", name, got)
		}
	}
	if o := watching(corev1.EnvVar{Name: "WATCH_NAMESPACE", Value: "A/b"}); o.refused == nil || !strings.Contains(o.refused.Error(), "WATCH_NAMESPACE") {
		t.Errorf("no namespace: %v", o.refused)
	}
}

// A directory is advised only if kustomize can build it.
func TestDeploys(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "operator.yaml"), filepath.Join(t.TempDir(), "crd.yaml")
	for want, p := range map[string]*patient{
		"kubectl apply --server-side --force-conflicts -f " + file + " -f " + other: {files: []string{file, other}},
		"make deploy (with IMG and OPERAND_IMG as before)":                          {},
	} {
		if got := p.deploys(operator{}); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := (&patient{files: []string{file}}).deploys(operator{}), "kubectl apply --server-side --force-conflicts --kustomize "+dir; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

package main

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	boot "demo.welcome.domain/welcome-operator/internal/operator"
)

// A plugin of another version than the operator renders otherwise, and knows other CRDs and rights: it says whose to use.
// Builds without the Makefile, which have no version, say nothing.
func TestOperatorOfAnotherVersion(t *testing.T) {
	const told = "operator system/op was v0.1.0 when it began to lead, and this plugin is v0.2.0: use the plugin of"
	for name, c := range map[string]struct{ operators, plugins, says string }{
		"another one":           {"v0.1.0", "v0.2.0", told},
		"the same":              {"v0.2.0", "v0.2.0", ""},
		"the plugin has none":   {"v0.1.0", "dev", ""},
		"the operator has none": {"unknown", "v0.2.0", ""},
		"it publishes none":     {"", "v0.2.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := version
			version = c.plugins
			t.Cleanup(func() { version = before })
			objects, err := needs(nil)
			if err != nil {
				t.Fatal(err)
			}
			cluster := []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: boot.LeaderElectionID}, Data: map[string]string{"operator.yaml": "version: " + c.operators}}}
			for _, need := range objects {
				if crd := need.DeepCopy(); crd.GetKind() == "CustomResourceDefinition" {
					versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
					versions[0].(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}
					crd.Object["spec"].(map[string]any)["versions"] = versions
					cluster = append(cluster, crd)
				}
			}
			api := fake.NewClientBuilder().WithObjects(cluster...).WithInterceptorFuncs(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return nil // no right that is asked for is there
			}}).Build()
			streams, _, _, notes := genericiooptions.NewTestIOStreams()
			servers := &servers{cluster: newCluster(streams), readOnly: &readOnly{Client: api}, known: map[string]*boot.Published{}, offered: map[string]bool{}}
			for range 2 {
				if _, err := servers.published(t.Context(), "system/"+boot.LeaderElectionID); err != nil {
					t.Fatal(err)
				}
			}
			if want := strings.ReplaceAll(c.says, "/op ", "/"+boot.LeaderElectionID+" "); !strings.Contains(notes.String(), want) || (want == "") != (notes.String() == "") || strings.Count(notes.String(), "\n") > 1 {
				t.Errorf("a diff notes %q", notes)
			}
			deployment := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "op"}}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager"}}
			p := &patient{cluster: servers.cluster, Client: api, needs: objects, operators: []operator{newOperator(t.Context(), api, deployment)}}
			for name, look := range map[string]func(context.Context, *patient) (string, []finding, error){"CRDs": crdsFit, "rights": rightsSuffice} {
				switch _, found, err := look(t.Context(), p); {
				case c.says == "" && (err != nil || len(found) == 0):
					t.Errorf("nothing is wrong with the %s (%v)", name, err)
				case c.says != "" && (len(found) > 0 || err == nil || !strings.Contains(err.Error(), told)):
					t.Errorf("of the %s: %v, %v", name, found, err)
				}
			}
		})
	}
}

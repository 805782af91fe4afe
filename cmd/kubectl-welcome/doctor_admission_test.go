package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// That the caller may not create, or the API server does not answer, says nothing about what the operator may. What
// refuses it, does.
func TestAdmissionLets(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		refuses          error
		problem, unknown string
	}{
		"it passes":          {nil, "", ""},
		"by a policy":        {apierrors.NewForbidden(configMaps, "", errors.New(`ValidatingAdmissionPolicy "strict" denied request`)), `in namespace team-a, team-b, the API server refuses a dry run of what operators make: configmaps is forbidden: ValidatingAdmissionPolicy "strict"`, ""},
		"by a webhook":       {apierrors.NewInternalError(errors.New(`failed calling webhook "judge.example.com": no endpoints`)), `in namespace team-a, team-b, the API server refuses a dry run of what operators make: Internal error occurred: failed calling webhook "judge`, ""},
		"for the caller":     {apierrors.NewForbidden(configMaps, "", errors.New(`User "x" cannot create resource "configmaps" in API group ""`)), "", `in namespace team-a, team-b, no dry run of what operators make could be made: configmaps is forbidden: User "x" cannot create`},
		"it does not answer": {&url.Error{Op: "Post", URL: "https://x", Err: errors.New("connection refused")}, "", `in namespace team-a, team-b, no dry run of what operators make could be made: Post "https://x": connection refused`},
		"it is busy":         {apierrors.NewTooManyRequestsError("slow down"), "", "in namespace team-a, team-b, no dry run of what operators make could be made: Too many requests: slow down"},
	} {
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			if _, is := obj.(*corev1.ConfigMap); is {
				return test.refuses
			}
			return nil
		}})
		there := welcome("b", func(obj *unstructured.Unstructured) { obj.SetNamespace("team-b") })
		_, found, err := admissionLets(t.Context(), &patient{cluster: &cluster{}, Client: api, customResources: []unstructured.Unstructured{welcome("a", nil), there}})
		if (len(found) > 0) != (test.problem != "") || (err != nil) != (test.unknown != "") {
			t.Errorf("%s: %v, %v", name, found, err)
			continue
		}
		if test.problem != "" && (len(found) != 1 || !strings.HasPrefix(found[0].problem, test.problem)) {
			t.Errorf("%s: %v", name, found)
		}
		if test.unknown != "" && !strings.Contains(err.Error(), test.unknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Policies ask for probes, limits, tags of images and the like: they judge the sample as what the chart makes.
func TestSampleIsLikeTheCharts(t *testing.T) {
	welcome, err := loader.LoadDir("../../helm-charts/welcome")
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ToRenderValues(welcome, nil, chartutil.ReleaseOptions{Name: "hello", Namespace: "team-a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(welcome, values)
	if err != nil {
		t.Fatal(err)
	}
	made := &appsv1.Deployment{}
	if err := yaml.Unmarshal([]byte(files["welcome/templates/deployment.yaml"]), made); err != nil {
		t.Fatal(err)
	}
	var sample *appsv1.Deployment
	for _, object := range samples("team-a", "example.com/page:v1") {
		if object.GetLabels()["app.kubernetes.io/name"] == "" || object.GetLabels()["app.kubernetes.io/instance"] == "" {
			t.Errorf("%T has the labels %v", object, object.GetLabels())
		}
		if deployment, is := object.(*appsv1.Deployment); is {
			sample = deployment
		}
	}
	want, got := made.Spec.Template.Spec, sample.Spec.Template.Spec
	if image := got.Containers[0].Image; image != "example.com/page:v1" {
		t.Errorf("its image is %s", image)
	}
	// What is the page's own.
	want.TerminationGracePeriodSeconds = nil
	want.Containers[0].Env, want.Containers[0].Name, want.Containers[0].Image = nil, got.Containers[0].Name, got.Containers[0].Image
	want.TopologySpreadConstraints[0].LabelSelector = sample.Spec.Selector
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("the sample differs from the pods of the chart:\n%s", difference)
	}
}

// The image is one that operators deploy, for policies name the registries that images may come from.
func TestImageOfSamples(t *testing.T) {
	own := watching()
	own.Spec.Template.Spec.Containers[1].Image = "example.com/operator:v1"
	for want, operators := range map[string][]operator{
		"example.com/page:v1":     {watching(corev1.EnvVar{Name: "WATCH_NAMESPACE"}, corev1.EnvVar{Name: "RELATED_IMAGE_WELCOME", Value: "example.com/page:v1"})},
		"example.com/operator:v1": {own}, // one of make kind INTO= has its images in watches.yaml
		"welcome-doctor:v1":       nil,
	} {
		if got := (&patient{operators: operators}).image(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

// fixedList answers every list with the same custom resources.
type fixedList struct {
	client.Reader
	items []unstructured.Unstructured
}

func (f fixedList) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*unstructured.UnstructuredList).Items = f.items
	return nil
}

func thing(namespace, name, ready string, replicas int64, requests map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"resources": map[string]any{"requests": requests}},
		"status": map[string]any{
			"replicas":   replicas,
			"conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		},
	}}
}

// gather returns all samples as name{label values} → value.
func gather(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			samples[strings.TrimPrefix(family.GetName(), "welcome_operator_")+"{"+labelValues(metric)+"}"] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return samples
}

func labelValues(metric *dto.Metric) string {
	var values []string
	for _, label := range metric.GetLabel() {
		values = append(values, label.GetValue())
	}
	return strings.Join(values, ",")
}

func testResources(perResource bool, items ...unstructured.Unstructured) *resources {
	elected := make(chan struct{})
	close(elected)
	defaults := map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "32Mi"}}}
	entry := watches.Watch{GroupVersionKind: testKind, Chart: &chart.Chart{Values: defaults}}
	return &resources{reader: fixedList{items: items}, elected: elected, entries: []watches.Watch{entry}, perResource: perResource}
}

func TestResources(t *testing.T) {
	got := gather(t, testResources(false,
		thing("a", "one", "True", 2, map[string]any{"cpu": "500m"}),
		thing("a", "two", "False", 1, nil),
		thing("b", "three", "Unknown", 0, nil),
		thing("c", "whole", "True", 3, map[string]any{"cpu": int64(2), "memory": int64(1 << 20)}),
		unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "b", "name": "new"}}},
	))
	for sample, want := range map[string]float64{
		"resources{Ready,Thing,True}":               2,
		"resources{Ready,Thing,False}":              1,
		"resources{Ready,Thing,Unknown}":            2,
		"resources{Stalled,Thing,True}":             0,
		"namespace_resources{Thing,a}":              2,
		"namespace_resources{Thing,b}":              2,
		"namespace_replicas{Thing,a}":               3,
		"namespace_replicas{Thing,b}":               0,
		"namespace_requested_cpu_cores{Thing,a}":    1.1,
		"namespace_requested_memory_bytes{Thing,a}": 3 * 32 << 20,
		"namespace_requested_memory_bytes{Thing,b}": 0,
		"namespace_requested_cpu_cores{Thing,c}":    6,
		"namespace_requested_memory_bytes{Thing,c}": 3 << 20,
	} {
		if value, ok := got[sample]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), not %v", sample, value, ok, want)
		}
	}
	for sample := range got {
		if strings.Contains(sample, "one") || strings.Contains(sample, "three") {
			t.Errorf("%s names a custom resource", sample)
		}
	}
}

func TestResourcesPerResource(t *testing.T) {
	got := gather(t, testResources(true, thing("a", "one", "True", 2, nil)))
	if got["resource_condition{Ready,Thing,one,a}"] != 1 {
		t.Errorf("got %v", got)
	}
	if value, ok := got["resource_condition{Stalled,Thing,one,a}"]; !ok || value != 0 {
		t.Errorf("got %v", got)
	}
}

// A standby counts nothing, or everything would be counted twice.
func TestResourcesOfStandby(t *testing.T) {
	standby := testResources(false, thing("a", "one", "True", 2, nil))
	standby.elected = make(chan struct{})
	if got := gather(t, standby); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestCountAction(t *testing.T) {
	count := countAction(testKind)
	count("install", time.Second, nil)
	count("install", time.Second, errors.New(`pods "x" is forbidden: exceeded quota: small`))
	count("install", time.Second, errors.New("something else"))
	got := gather(t, actions)
	for _, sample := range []string{
		"release_actions_total{install,Thing,,success}",
		"release_actions_total{install,Thing,QuotaExceeded,failure}",
		"release_actions_total{install,Thing,Other,failure}",
	} {
		if got[sample] != 1 {
			t.Errorf("%s is missing in %v", sample, got)
		}
	}
	if got := gather(t, durations)["release_action_duration_seconds{install,Thing}"]; got != 3 {
		t.Errorf("%v durations", got)
	}
}

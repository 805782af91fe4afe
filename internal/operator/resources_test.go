package operator

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/status"
)

var testKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

// fixedCache watches some kinds, whose objects do not change. Other kinds it does not watch, or is still about to read.
type fixedCache struct {
	client.Reader
	objects map[string][]unstructured.Unstructured
	filling bool
}

func (f fixedCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	gvk := list.GetObjectKind().GroupVersionKind()
	_, known := f.objects[gvk.Kind]
	switch {
	case !known && f.filling:
		return apierrors.NewTimeoutError("failed waiting for the informer to sync", 0)
	case !known:
		return &cache.ErrResourceNotCached{GVK: gvk}
	}
	return nil
}

func (f fixedCache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return fixedInformer{objects: f.objects[object.GetObjectKind().GroupVersionKind().Kind]}, nil
}

// fixedInformer tells of all its objects at once.
type fixedInformer struct {
	cache.Informer
	objects []unstructured.Unstructured
}

func (f fixedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	for i := range f.objects {
		handler.OnAdd(&f.objects[i], true)
	}
	return hasHeard{}, nil
}

// hasHeard is a handler that has heard of everything.
type hasHeard struct {
	toolscache.ResourceEventHandlerRegistration
}

func (hasHeard) HasSynced() bool { return true }

func thing(namespace, name, ready string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
	}}
}

// deployment is one of a Thing, as the cache has it.
func deployment(t *testing.T, namespace, owner string, replicas int64, cpu, memory string) unstructured.Unstructured {
	t.Helper()
	return deploymentFor(t, namespace, owner, "x", replicas, cpu, memory)
}

// deployments have names of their own.
var deployments int

func deploymentFor(t *testing.T, namespace, owner, name string, replicas int64, cpu, memory string) unstructured.Unstructured {
	t.Helper()
	deployments++
	workload := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace":       namespace,
			"name":            fmt.Sprintf("deployment-%d", deployments),
			"labels":          map[string]any{"managed-by": "us"},
			"ownerReferences": []any{map[string]any{"apiVersion": "example.com/v1", "kind": owner, "name": name, "uid": "u", "controller": true}},
		},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}}},
		}}}},
		"status": map[string]any{"replicas": replicas},
	}}
	if _, err := (object.IgnoredByKind{{Group: "example.com", Kind: owner}: nil}).Slim(workload); err != nil {
		t.Fatal(err)
	}
	return *workload
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

func testResources(t *testing.T, perResource bool, items, workloads []unstructured.Unstructured) *resources {
	t.Helper()
	objects := map[string][]unstructured.Unstructured{"Thing": items}
	if workloads != nil {
		objects["Deployment"] = workloads
	}
	return resourcesOf(t, fixedCache{objects: objects}, perResource)
}

func resourcesOf(t *testing.T, objects fixedCache, perResource bool) *resources {
	t.Helper()
	elected := make(chan struct{})
	close(elected)
	selects, err := labels.Parse("!not-ours")
	if err != nil {
		t.Fatal(err)
	}
	entry := Entry{Watch: watches.Watch{GroupVersionKind: testKind}, selects: selects}
	r, err := newResources(t.Context(), objects, nil, elected, []Entry{entry}, "", perResource)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResources(t *testing.T) {
	theirs := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "b", "name": "theirs"}, "status": map[string]any{"operator": "another"}}}
	got := gather(t, testResources(t, false, []unstructured.Unstructured{
		theirs,
		thing("a", "one", "True"),
		thing("a", "two", "False"),
		thing("b", "three", "Unknown"),
		{Object: map[string]any{"metadata": map[string]any{"namespace": "b", "name": "new"}}},
	}, []unstructured.Unstructured{
		deployment(t, "a", "Thing", 2, "500m", "32Mi"),
		deployment(t, "a", "Thing", 1, "100m", "32Mi"),
		deployment(t, "a", "Other", 7, "1", "1Gi"),
		deployment(t, "old", "Thing", 1, "1", "1Gi"), // its custom resource is deleted, its pods are still there
	}))
	for sample, want := range map[string]float64{
		"resources{Ready,Thing,True}":                 1,
		"resources{Ready,Thing,False}":                1,
		"resources{Ready,Thing,Unknown}":              3,
		"left_to_others{Thing}":                       1,
		"resources{Stalled,Thing,True}":               0,
		"namespace_resources{Thing,a}":                2,
		"namespace_resources{Thing,b}":                3,
		"namespace_replicas{Thing,a}":                 3,
		"namespace_replicas{Thing,b}":                 0,
		"namespace_replicas{Thing,old}":               1,
		"namespace_requested_cpu_cores{Thing,a}":      1.1,
		"namespace_requested_memory_bytes{Thing,a}":   3 * 32 << 20,
		"namespace_requested_memory_bytes{Thing,b}":   0,
		"namespace_requested_memory_bytes{Thing,old}": 1 << 30,
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

// Of several operators that serve a kind, each counts what it selects, and tells what nobody serves.
func TestResourcesOfAShard(t *testing.T) {
	other := func(name, operator string, deleted bool) unstructured.Unstructured {
		metadata := map[string]any{"namespace": "a", "name": name, "labels": map[string]any{"not-ours": "yes"}, "finalizers": []any{status.Finalizer}}
		if deleted {
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		return unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "status": map[string]any{"operator": operator}}}
	}
	lease := func(name string, age time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now().Add(-age)}}}
	}
	synctest.Test(t, func(t *testing.T) {
		r := testResources(t, false, []unstructured.Unstructured{
			thing("a", "mine", "True"), other("new", "", false), other("served", "n/lives", false), other("left", "n/lapsed", false), other("lost", "n/none", false),
			other("going", "n/lives", true), other("hanging", "", true), other("at-work", "n/self", false), other("uninstalled", "n/self", true), // by this one, for as long as a hook takes
		}, []unstructured.Unstructured{deploymentFor(t, "a", "Thing", "mine", 2, "500m", "32Mi"), deploymentFor(t, "a", "Thing", "served", 5, "500m", "32Mi")})
		r.operator = "n/self"
		lapsed := lease("lapsed", 0)
		r.live = leases{lease("lives", time.Hour), lapsed} // an hour behind: it is by changes that a lease shows that it is renewed
		if got := gather(t, r); got["unserved{Thing,lapsed}"] != 1 {
			t.Errorf("%v have lapsed, at once", got["unserved{Thing,lapsed}"])
		}
		time.Sleep(lapsedAfter + time.Second)
		r.live = leases{lease("lives", time.Hour), lapsed}
		got := gather(t, r)
		for sample, want := range map[string]float64{
			"resources{Ready,Thing,True}": 1, "resources{Ready,Thing,Unknown}": 0, "namespace_resources{Thing,a}": 1, "namespace_replicas{Thing,a}": 2, "left_to_others{Thing}": 0,
			"unserved{Thing,unclaimed}": 1, "unserved{Thing,lapsed}": 2, "unserved{Thing,deleted}": 1,
		} {
			if value, ok := got[sample]; !ok || value != want {
				t.Errorf("%s is %v (there: %v), not %v", sample, value, ok, want)
			}
		}
	})
}

// leases answers for what operators hold.
type leases []coordinationv1.Lease

func (l leases) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, lease := range l {
		if client.ObjectKeyFromObject(&lease) == key {
			*into.(*coordinationv1.Lease) = lease
			return nil
		}
	}
	return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
}

func (leases) List(context.Context, client.ObjectList, ...client.ListOption) error {
	panic("nobody lists leases")
}

// An operator that watches no workloads, or has not read them yet, does not know what runs. No series is
// better than a bill of nothing, and than no metrics at all.
func TestResourcesWithoutWorkloads(t *testing.T) {
	for _, filling := range []bool{false, true} {
		got := gather(t, resourcesOf(t, fixedCache{objects: map[string][]unstructured.Unstructured{"Thing": {thing("a", "one", "True")}}, filling: filling}, false))
		if got["namespace_resources{Thing,a}"] != 1 {
			t.Errorf("got %v", got)
		}
		if value, ok := got["namespace_replicas{Thing,a}"]; ok {
			t.Errorf("%v replicas", value)
		}
	}
}

func TestLongestNotReady(t *testing.T) {
	ago := func(age time.Duration) string { return time.Now().Add(-age).UTC().Format(time.RFC3339) }
	condition := func(status string, age time.Duration) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "lastTransitionTime": ago(age)}}}
	}
	object := func(created time.Duration, status map[string]any, labels map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "n", "name": "x", "creationTimestamp": ago(created), "labels": labels},
			"status":   status,
		}}
	}
	healthy := object(time.Hour, condition("True", time.Hour), nil)
	for name, c := range map[string]struct {
		items []unstructured.Unstructured
		want  time.Duration
	}{
		"none":                {nil, 0},
		"ready":               {[]unstructured.Unstructured{healthy}, 0},
		"the oldest counts":   {[]unstructured.Unstructured{object(time.Hour, condition("False", time.Minute), nil), healthy, object(time.Hour, condition("False", 20*time.Minute), nil), object(time.Hour, condition("False", 0), nil)}, 20 * time.Minute},
		"paused":              {[]unstructured.Unstructured{object(time.Hour, condition("Unknown", time.Hour), nil)}, 0},
		"never looked at":     {[]unstructured.Unstructured{object(15*time.Minute, nil, nil)}, 15 * time.Minute},
		"a clock that lags":   {[]unstructured.Unstructured{object(time.Hour, condition("False", -time.Hour), nil)}, 0},
		"not this operator's": {[]unstructured.Unstructured{object(time.Hour, nil, map[string]any{"not-ours": ""})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.items {
				c.items[i].SetName(fmt.Sprint(i))
			}
			got, ok := gather(t, testResources(t, false, c.items, nil))["longest_not_ready_seconds{Thing}"]
			if difference := got - c.want.Seconds(); !ok || difference < 0 || difference > 10 {
				t.Errorf("%v s (there: %v), want %v", got, ok, c.want)
			}
		})
	}
}

func TestResourcesPerResource(t *testing.T) {
	got := gather(t, testResources(t, true, []unstructured.Unstructured{thing("a", "one", "True")}, nil))
	if got["resource_condition{Ready,Thing,one,a}"] != 1 {
		t.Errorf("got %v", got)
	}
	if value, ok := got["resource_condition{Stalled,Thing,one,a}"]; !ok || value != 0 {
		t.Errorf("got %v", got)
	}
}

// Of more fights than are told of, it is always the same that are, for an alert is there for each, and no
// namespace has them all.
func TestDriftLoopsThatAreTold(t *testing.T) {
	var items []unstructured.Unstructured
	want := map[string]bool{"drift_loop{Thing,only,z}": true}
	for i := range 3 * mostDriftLoops {
		items = append(items, thing("a", fmt.Sprintf("fought-%02d", i), "True"), thing("b", fmt.Sprintf("fought-%02d", i), "True"))
		if 2*i < mostDriftLoops-1 {
			want[fmt.Sprintf("drift_loop{Thing,fought-%02d,a}", i)] = true
		}
		if 2*i < mostDriftLoops-2 {
			want[fmt.Sprintf("drift_loop{Thing,fought-%02d,b}", i)] = true
		}
	}
	items = append(items, thing("z", "only", "True"))
	for i := range items {
		if err := unstructured.SetNestedSlice(items[i].Object, []any{map[string]any{"type": "DriftLoop", "status": "True", "message": "Service"}}, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	}
	r := testResources(t, false, items, nil)
	for range 10 {
		got := map[string]bool{}
		for series := range gather(t, r) {
			if strings.HasPrefix(series, "drift_loop{") {
				got[series] = true
			}
		}
		if !maps.Equal(want, got) {
			t.Fatalf("told of are %v, not %v", got, want)
		}
	}
}

// A standby counts nothing, or everything would be counted twice.
func TestResourcesOfStandby(t *testing.T) {
	standby := testResources(t, false, []unstructured.Unstructured{thing("a", "one", "True")}, nil)
	standby.elected = make(chan struct{})
	if got := gather(t, standby); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

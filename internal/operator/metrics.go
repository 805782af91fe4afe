package operator

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"demo.welcome.domain/welcome-operator/internal/status"
)

// version is set by the Makefile's builds.
var version = "unknown"

// scrapeTimeout bounds how long a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

// Metrics of releases. Those of queues, workers and requests to the API server come from
// controller-runtime. No label takes more values than there are kinds, reasons or namespaces.
var (
	actions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "welcome_operator_release_actions_total",
		Help: "What was done to releases: install, upgrade, uninstall, and drift-correction once per object that was put back. reason is that of the Ready condition, Other where it has only the library's, empty for a success.",
	}, []string{"kind", "action", "result", "reason"})
	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "welcome_operator_release_action_duration_seconds",
		Help:    "How long that took.",
		Buckets: prometheus.ExponentialBuckets(0.02, 2.5, 10), // to 76 s
	}, []string{"kind", "action"})
	buildInfo = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "welcome_operator_build_info",
		Help:        "Always 1; what runs is in the labels.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
)

// setUpMetrics registers the metrics of the operator beside those of controller-runtime.
func setUpMetrics(mgr manager.Manager, entries []watches.Watch, perResource bool) error {
	for _, collector := range []prometheus.Collector{
		actions, durations, buildInfo,
		&resources{reader: mgr.GetClient(), elected: mgr.Elected(), entries: entries, perResource: perResource},
	} {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// countAction returns what release.KindOptions calls after each action.
func countAction(gvk schema.GroupVersionKind) func(action string, took time.Duration, err error) {
	return func(action string, took time.Duration, err error) {
		result, reason := "success", ""
		if err != nil {
			result, reason = "failure", status.ReasonOf(err)
		}
		actions.WithLabelValues(gvk.Kind, action, result, reason).Inc()
		durations.WithLabelValues(gvk.Kind, action).Observe(took.Seconds())
	}
}

// resources are gauges of the custom resources, computed at each scrape from the cache. A
// standby has none: two operators would count everything twice.
type resources struct {
	reader      client.Reader
	elected     <-chan struct{}
	entries     []watches.Watch
	perResource bool
}

var (
	conditionDesc = prometheus.NewDesc("welcome_operator_resources",
		"Custom resources by the status of a condition: True, False, Unknown (also while there is none).", []string{"kind", "condition", "status"}, nil)
	countDesc = prometheus.NewDesc("welcome_operator_namespace_resources",
		"Custom resources of a namespace.", []string{"kind", "namespace"}, nil)
	replicasDesc = prometheus.NewDesc("welcome_operator_namespace_replicas",
		"Pods of the custom resources of a namespace, as their status counts them.", []string{"kind", "namespace"}, nil)
	cpuDesc = prometheus.NewDesc("welcome_operator_namespace_requested_cpu_cores",
		"CPU that those pods request.", []string{"kind", "namespace"}, nil)
	memoryDesc = prometheus.NewDesc("welcome_operator_namespace_requested_memory_bytes",
		"Memory that those pods request.", []string{"kind", "namespace"}, nil)
	perResourceDesc = prometheus.NewDesc("welcome_operator_resource_condition",
		"Whether a condition of a custom resource is True (--metrics-per-resource).", []string{"kind", "namespace", "name", "condition"}, nil)

	countedConditions = []string{status.Ready, status.Reconciling, status.Stalled}
)

// Describe implements prometheus.Collector.
func (r *resources) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{conditionDesc, countDesc, replicasDesc, cpuDesc, memoryDesc, perResourceDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (r *resources) Collect(out chan<- prometheus.Metric) {
	select {
	case <-r.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	for _, entry := range r.entries {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(entry.GroupVersionKind)
		if err := r.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			out <- prometheus.NewInvalidMetric(conditionDesc, fmt.Errorf("list %s: %w", entry.Kind, err))
			continue
		}
		r.collect(out, entry, list.Items)
	}
}

// usage is what the custom resources of one namespace take.
type usage struct{ count, replicas, cpu, memory float64 }

func (r *resources) collect(out chan<- prometheus.Metric, entry watches.Watch, items []unstructured.Unstructured) {
	conditions := map[[2]string]float64{}
	for _, condition := range countedConditions {
		for _, value := range []string{"True", "False", "Unknown"} {
			conditions[[2]string{condition, value}] = 0 // a series that is there can be alerted on
		}
	}
	namespaces := map[string]usage{}
	for i := range items {
		item := &items[i]
		for _, condition := range countedConditions {
			value := conditionStatus(item, condition)
			conditions[[2]string{condition, value}]++
			if r.perResource {
				isTrue := 0.0
				if value == "True" {
					isTrue = 1
				}
				out <- gauge(perResourceDesc, isTrue, entry.Kind, item.GetNamespace(), item.GetName(), condition)
			}
		}
		namespaces[item.GetNamespace()] = namespaces[item.GetNamespace()].plus(usageOf(item, entry.Chart.Values))
	}
	for key, count := range conditions {
		out <- gauge(conditionDesc, count, entry.Kind, key[0], key[1])
	}
	for namespace, used := range namespaces {
		out <- gauge(countDesc, used.count, entry.Kind, namespace)
		out <- gauge(replicasDesc, used.replicas, entry.Kind, namespace)
		out <- gauge(cpuDesc, used.cpu, entry.Kind, namespace)
		out <- gauge(memoryDesc, used.memory, entry.Kind, namespace)
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (u usage) plus(v usage) usage {
	return usage{count: u.count + v.count, replicas: u.replicas + v.replicas, cpu: u.cpu + v.cpu, memory: u.memory + v.memory}
}

// usageOf takes the requests of a pod from resources.requests of the spec, and from the
// chart's values where the spec is silent. The pods are those that the status counts: with
// an autoscaler, the spec does not know them.
func usageOf(item *unstructured.Unstructured, defaults map[string]any) usage {
	replicas, _, _ := unstructured.NestedInt64(item.Object, "status", "replicas")
	request := func(name string) float64 {
		path := []string{"resources", "requests", name}
		request, set, _ := unstructured.NestedFieldNoCopy(item.Object, append([]string{"spec"}, path...)...)
		if !set {
			request, _, _ = unstructured.NestedFieldNoCopy(defaults, path...)
		}
		quantity, err := resource.ParseQuantity(fmt.Sprint(request)) // a text, or a number
		if err != nil {
			return 0 // the chart asks for none
		}
		return quantity.AsApproximateFloat64()
	}
	return usage{count: 1, replicas: float64(replicas), cpu: float64(replicas) * request("cpu"), memory: float64(replicas) * request("memory")}
}

func conditionStatus(item *unstructured.Unstructured, conditionType string) string {
	content, _ := item.Object["status"].(map[string]any)
	conditions, _ := content["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			if value, ok := c["status"].(string); ok {
				return value
			}
		}
	}
	return "Unknown"
}

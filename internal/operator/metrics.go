package operator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// version is set by the Makefile's builds.
var version = "unknown"

// scrapeTimeout bounds how long a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

// mostDriftLoops bounds the series that whoever may edit objects can make.
const mostDriftLoops = 20

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
	entryBroken = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "welcome_operator_entry_broken",
		Help: "1 for an entry of watches.yaml that is not served, which the message says why.",
	}, []string{"entry", "kind", "message"})
	buildInfo = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "welcome_operator_build_info",
		Help:        "Always 1; what runs is in the labels.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
	memoryRatio = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "welcome_operator_memory_limit_ratio",
		Help: "What is in use after a collection of garbage, as a part of GOMEMLIMIT; 0 without one. From 0.8 on, raise that and limits.memory.",
	}, func() float64 { return heldMemory().ratio() })
)

// setUpMetrics registers the metrics of the operator beside those of controller-runtime.
func setUpMetrics(mgr manager.Manager, entries []Entry, refused []broken, options Options) error {
	for _, each := range refused {
		entryBroken.WithLabelValues(strconv.Itoa(each.place.number), each.Kind, strings.ToValidUTF8(each.err.Error(), "")).Set(1)
	}
	operator, err := options.operator()
	if err != nil {
		return err
	}
	var registry prometheus.Registerer = metrics.Registry
	if options.Shard != "" {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"shard": options.Shard}, registry)
	}
	for _, collector := range []prometheus.Collector{
		actions, durations, buildInfo, entryBroken, memoryRatio,
		&resources{reader: mgr.GetClient(), live: mgr.GetAPIReader(), elected: mgr.Elected(), entries: entries, operator: operator, perResource: options.MetricsPerResource},
	} {
		if err := registry.Register(collector); err != nil {
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

// resources are gauges of the custom resources that this operator selects, computed at each scrape from the cache. A
// standby has none: two operators would count everything twice.
type resources struct {
	reader      client.Reader
	live        client.Reader // of leases
	elected     <-chan struct{}
	entries     []Entry
	operator    string // this one
	perResource bool
}

var (
	conditionDesc = prometheus.NewDesc("welcome_operator_resources",
		"Custom resources by the status of a condition: True, False, Unknown (also while there is none).", []string{"kind", "condition", "status"}, nil)
	notReadyDesc = prometheus.NewDesc("welcome_operator_longest_not_ready_seconds",
		"The longest time that a custom resource has not been ready, 0 if all are. A paused one does not count.", []string{"kind"}, nil)
	leftDesc = prometheus.NewDesc("welcome_operator_left_to_others",
		"Custom resources that this operator does not touch because another one has claimed them.", []string{"kind"}, nil)
	unservedDesc = prometheus.NewDesc("welcome_operator_unserved",
		"Custom resources that this operator does not select, and that nobody serves: reason is unclaimed, deleted where one is being deleted and has to wait for an operator, lapsed where the lease of the operator that has claimed it has run out.",
		[]string{"kind", "reason"}, nil)
	countDesc = prometheus.NewDesc("welcome_operator_namespace_resources",
		"Custom resources of a namespace.", []string{"kind", "namespace"}, nil)
	replicasDesc = prometheus.NewDesc("welcome_operator_namespace_replicas",
		"Pods of the custom resources of a namespace, as the status of their workloads counts them. Missing while no workload is watched, as are the next two.", []string{"kind", "namespace"}, nil)
	cpuDesc = prometheus.NewDesc("welcome_operator_namespace_requested_cpu_cores",
		"CPU that those pods request by the templates of their workloads: the sum over the containers, without init containers, and the limit where there is no request.", []string{"kind", "namespace"}, nil)
	memoryDesc = prometheus.NewDesc("welcome_operator_namespace_requested_memory_bytes",
		"Memory that those pods request, likewise.", []string{"kind", "namespace"}, nil)
	perResourceDesc = prometheus.NewDesc("welcome_operator_resource_condition",
		"Whether a condition of a custom resource is True (--metrics-per-resource).", []string{"kind", "namespace", "name", "condition"}, nil)

	driftLoopDesc = prometheus.NewDesc("welcome_operator_drift_loop",
		fmt.Sprintf("1 for a custom resource with the condition DriftLoop: others undo the repairs of an object, which the message names. At most %d of a kind.", mostDriftLoops),
		[]string{"kind", "namespace", "name", "message"}, nil)

	// workloads are the kinds that count their pods in status.replicas.
	workloads = []string{"Deployment", "StatefulSet", "ReplicaSet"}

	countedConditions = []string{status.Ready, status.Reconciling, status.Stalled, status.Drifted, status.DriftLoop}
)

// Describe implements prometheus.Collector.
func (r *resources) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{conditionDesc, notReadyDesc, leftDesc, unservedDesc, countDesc, replicasDesc, cpuDesc, memoryDesc, perResourceDesc, driftLoopDesc} {
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
	selected, others := map[schema.GroupKind][]unstructured.Unstructured{}, map[ownerKey]bool{}
	for _, entry := range r.entries {
		items, err := r.list(ctx, entry.GroupVersionKind)
		if err != nil {
			out <- prometheus.NewInvalidMetric(conditionDesc, err)
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(entry.Selector)
		if err != nil {
			out <- prometheus.NewInvalidMetric(conditionDesc, fmt.Errorf("read the selector of %s: %w", entry.Kind, err))
			continue
		}
		if !selector.Empty() {
			var unselected []unstructured.Unstructured
			items, unselected = divide(items, selector)
			for i := range unselected {
				others[ownerKey{entry.GroupKind(), client.ObjectKeyFromObject(&unselected[i])}] = true
			}
			r.collectUnserved(ctx, out, entry, unselected)
		}
		selected[entry.GroupKind()] = items
	}
	used, err := r.usage(ctx, others)
	if err != nil {
		out <- prometheus.NewInvalidMetric(replicasDesc, err)
	}
	for _, entry := range r.entries {
		if items, listed := selected[entry.GroupKind()]; listed {
			r.collect(out, entry, items, used)
		}
	}
}

// ownerKey is a custom resource.
type ownerKey struct {
	schema.GroupKind
	types.NamespacedName
}

// divide says which custom resources a selector matches, and which it does not.
func divide(items []unstructured.Unstructured, selector labels.Selector) (selected, others []unstructured.Unstructured) {
	for _, item := range items {
		if selector.Matches(labels.Set(item.GetLabels())) {
			selected = append(selected, item)
		} else {
			others = append(others, item)
		}
	}
	return selected, others
}

// lapsedAfter is how long ago a lease was renewed that nobody renews. It is longer than any takes to change hands, and than clocks differ.
const lapsedAfter = time.Minute

func (r *resources) collectUnserved(ctx context.Context, out chan<- prometheus.Metric, entry Entry, others []unstructured.Unstructured) {
	counts := map[string]float64{"unclaimed": 0, "deleted": 0, "lapsed": 0}
	lapsed := map[string]bool{r.operator: true} // what it does not select any more, it lets go
	for i := range others {
		item := &others[i]
		holder := status.Operator(item)
		if _, known := lapsed[holder]; holder != "" && !known {
			lapsed[holder] = r.hasLapsed(ctx, holder)
		}
		switch {
		case holder != "" && !lapsed[holder]:
		case item.GetDeletionTimestamp() != nil:
			if slices.Contains(item.GetFinalizers(), status.Finalizer) {
				counts["deleted"]++
			}
		case holder != "":
			counts["lapsed"]++
		default:
			counts["unclaimed"]++
		}
	}
	for reason, count := range counts {
		out <- gauge(unservedDesc, count, entry.Kind, reason)
	}
}

// hasLapsed is whether nobody renews the lease of an operator. One that this one may not read, in another namespace say, counts as renewed.
func (r *resources) hasLapsed(ctx context.Context, operator string) bool {
	namespace, name, _ := strings.Cut(operator, "/")
	lease := &coordinationv1.Lease{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)
	if err != nil || lease.Spec.RenewTime == nil {
		return apierrors.IsNotFound(err)
	}
	return time.Since(lease.Spec.RenewTime.Time) > lapsedAfter
}

func (r *resources) list(ctx context.Context, gvk schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := r.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return list.Items, nil
}

// owners are the custom resources of one kind in one namespace, usage is what their pods take.
type (
	owners struct {
		schema.GroupKind
		namespace string
	}
	usage struct{ replicas, cpu, memory float64 }
)

// usage asks the workloads, not the custom resources: as long as one of those is paused or cannot be
// applied, something else runs than its spec wants. It is nil if no kind of workloads is watched, or
// all there are have yet to be read after a start: a scrape that waited for that would fail as a whole. Those of other operators' custom resources are left out.
func (r *resources) usage(ctx context.Context, others map[ownerKey]bool) (map[owners]usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	var used map[owners]usage
	for _, kind := range workloads {
		items, err := r.list(ctx, appsv1.SchemeGroupVersion.WithKind(kind))
		if uncached := (&cache.ErrResourceNotCached{}); errors.As(err, &uncached) || apierrors.IsTimeout(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if used == nil {
			used = map[owners]usage{}
		}
		for i := range items {
			kind, of := object.MadeFor(&items[i])
			if of.Name == "" || others[ownerKey{kind, of}] {
				continue
			}
			key := owners{kind, of.Namespace}
			count, _, _ := unstructured.NestedInt64(items[i].Object, "status", "replicas")
			replicas, sum := float64(count), used[key]
			used[key] = usage{
				replicas: sum.replicas + replicas,
				cpu:      sum.cpu + replicas*object.Requested(&items[i], "cpu"),
				memory:   sum.memory + replicas*object.Requested(&items[i], "memory"),
			}
		}
	}
	return used, nil
}

func (r *resources) collect(out chan<- prometheus.Metric, entry Entry, items []unstructured.Unstructured, used map[owners]usage) {
	conditions := map[[2]string]float64{}
	for _, condition := range countedConditions {
		for _, value := range []string{"True", "False", "Unknown"} {
			conditions[[2]string{condition, value}] = 0 // a series that is there can be alerted on
		}
	}
	now, longest, left, counts, loops := time.Now(), time.Duration(0), 0.0, map[string]float64{}, 0
	for i := range items {
		item := &items[i]
		for _, condition := range countedConditions {
			value := "Unknown"
			if text, ok := conditionOf(item, condition)["status"].(string); ok {
				value = text
			}
			conditions[[2]string{condition, value}]++
			if r.perResource {
				isTrue := 0.0
				if value == "True" {
					isTrue = 1
				}
				out <- gauge(perResourceDesc, isTrue, entry.Kind, item.GetNamespace(), item.GetName(), condition)
			}
		}
		if loop := conditionOf(item, status.DriftLoop); loop["status"] == "True" && loops < mostDriftLoops {
			loops++
			message, _ := loop["message"].(string)
			out <- gauge(driftLoopDesc, 1, entry.Kind, item.GetNamespace(), item.GetName(), message)
		}
		if since := notReadySince(item); !since.IsZero() {
			longest = max(longest, now.Sub(since))
		}
		if holder := status.Operator(item); holder != "" && holder != r.operator {
			left++
		}
		counts[item.GetNamespace()]++
	}
	for key, count := range conditions {
		out <- gauge(conditionDesc, count, entry.Kind, key[0], key[1])
	}
	out <- gauge(notReadyDesc, longest.Seconds(), entry.Kind)
	out <- gauge(leftDesc, left, entry.Kind)
	for namespace, count := range counts {
		out <- gauge(countDesc, count, entry.Kind, namespace)
		key := owners{entry.GroupKind(), namespace}
		if _, runs := used[key]; !runs && used != nil {
			used[key] = usage{}
		}
	}
	for key, sum := range used {
		if key.GroupKind == entry.GroupKind() {
			out <- gauge(replicasDesc, sum.replicas, entry.Kind, key.namespace)
			out <- gauge(cpuDesc, sum.cpu, entry.Kind, key.namespace)
			out <- gauge(memoryDesc, sum.memory, entry.Kind, key.namespace)
		}
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// notReadySince is zero for what is ready or paused. What nobody has looked at yet is not ready.
func notReadySince(item *unstructured.Unstructured) (since time.Time) {
	ready := conditionOf(item, status.Ready)
	switch {
	case ready == nil:
		since = item.GetCreationTimestamp().Time
	case ready["status"] == "False":
		text, _ := ready["lastTransitionTime"].(string)
		since, _ = time.Parse(time.RFC3339, text) // the CRD lets nothing else in
	}
	return since
}

func conditionOf(item *unstructured.Unstructured, conditionType string) map[string]any {
	content, _ := item.Object["status"].(map[string]any)
	conditions, _ := content["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// scrapeTimeout bounds how long a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

// mostDriftLoops bounds the series for drift loops, which anybody who may edit objects can cause.
const mostDriftLoops = 20

// resources are gauges of the custom resources that this operator selects. They are computed at each scrape
// from tallies of the cache. A standby has none, lest two replicas count everything twice.
type resources struct {
	cache       informed
	live        client.Reader // for leases
	elected     <-chan struct{}
	kinds       []*servedKind
	operator    string // the name of this operator, as in status.operator
	perResource bool

	mu        sync.Mutex
	workloads map[string]*tally[workload] // by kind, for the kinds that the cache watches
	renewals  map[string]renewal          // of the leases of other operators
}

// renewal is when the holder of a lease says that it has renewed it, and since when it says so.
type renewal struct {
	said  metav1.MicroTime
	since time.Time
}

// informed is the part of the cache that is used.
type informed interface {
	client.Reader
	GetInformer(ctx context.Context, object client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// servedKind is an entry of watches.yaml with its custom resources.
type servedKind struct {
	Entry
	owners *tally[owner]
}

// owner is what the metrics need to know of a custom resource.
type owner struct {
	selected      bool
	conditions    [len(countedConditions)]uint8 // indices of conditionStatuses
	loop          bool                          // it has the condition DriftLoop
	notReadySince int64                         // Unix time, 0 if it is ready or paused
	operator      string                        // the one that has claimed it
	deleted, held bool                          // it is being deleted; it has the operator's finalizer
}

// workload is what the metrics need to know of an object with pods.
type workload struct {
	of ownerKey
	usage
}

// newResources starts the tallies of the entries' custom resources.
func newResources(ctx context.Context, cache informed, live client.Reader, elected <-chan struct{}, entries []Entry, operator string, perResource bool) (*resources, error) {
	r := &resources{cache: cache, live: live, elected: elected, operator: operator, perResource: perResource, workloads: map[string]*tally[workload]{}, renewals: map[string]renewal{}}
	for _, entry := range entries {
		informer, err := cache.GetInformer(ctx, object.Empty(entry.GroupVersionKind))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", entry.Kind, err)
		}
		owners, err := newTally(informer, func(object *unstructured.Unstructured) owner { return ownerOf(object, entry.selects) })
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", entry.Kind, err)
		}
		r.kinds = append(r.kinds, &servedKind{entry, owners})
	}
	return r, nil
}

func ownerOf(object *unstructured.Unstructured, selector labels.Selector) owner {
	o := owner{
		selected: selector.Matches(labels.Set(object.GetLabels())),
		operator: release.ClaimedBy(object),
		deleted:  object.GetDeletionTimestamp() != nil,
		held:     slices.Contains(object.GetFinalizers(), status.Finalizer),
		loop:     status.ConditionOf(object, status.DriftLoop)["status"] == "True",
	}
	for i, condition := range countedConditions {
		text, _ := status.ConditionOf(object, condition)["status"].(string)
		o.conditions[i] = uint8(max(0, slices.Index(conditionStatuses, text)))
	}
	if since := notReadySince(object); !since.IsZero() {
		o.notReadySince = since.Unix()
	}
	return o
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
		fmt.Sprintf("1 for a custom resource with the condition DriftLoop: others undo the repairs of an object, which the condition names. At most %d of a kind, one of each namespace before a second one of any.", mostDriftLoops),
		[]string{"kind", "namespace", "name"}, nil)

	// countingKinds have the number of their pods in status.replicas.
	countingKinds = []string{"Deployment", "StatefulSet", "ReplicaSet"}

	countedConditions = [...]string{status.Ready, status.Reconciling, status.Stalled, status.Drifted, status.DriftLoop}
	// conditionStatuses begin with the status that a missing condition counts as.
	conditionStatuses = []string{"Unknown", "True", "False"}
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
	for _, kind := range r.kinds {
		if !kind.owners.read.HasSynced() {
			return // an incomplete count would be wrong
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	unselected := map[ownerKey]bool{}
	for _, kind := range r.kinds {
		if !kind.selects.Empty() {
			r.collectUnserved(ctx, out, kind, unselected)
		}
	}
	used, err := r.usage(ctx, unselected)
	if err != nil {
		out <- prometheus.NewInvalidMetric(replicasDesc, err)
	}
	for _, kind := range r.kinds {
		r.collect(out, kind, used)
	}
}

// ownerKey identifies a custom resource.
type ownerKey struct {
	schema.GroupKind
	types.NamespacedName
}

// lapsedAfter is how long this operator has seen nobody renew a lease that counts as lapsed: longer than a change
// of the holder takes.
const lapsedAfter = time.Minute

func (r *resources) collectUnserved(ctx context.Context, out chan<- prometheus.Metric, kind *servedKind, unselected map[ownerKey]bool) {
	type group struct {
		operator      string
		deleted, held bool
	}
	groups := map[group]float64{}
	kind.owners.forEach(func(name types.NamespacedName, o owner) {
		if !o.selected {
			unselected[ownerKey{kind.GroupKind(), name}] = true
			groups[group{o.operator, o.deleted, o.held}]++
		}
	})
	counts := map[string]float64{"unclaimed": 0, "deleted": 0, "lapsed": 0}
	lapsed := map[string]bool{r.operator: false} // this operator lets go itself of what it no longer selects
	for group, count := range groups {
		if _, known := lapsed[group.operator]; group.operator != "" && !known {
			lapsed[group.operator] = r.hasLapsed(ctx, group.operator)
		}
		switch {
		case group.operator != "" && !lapsed[group.operator]:
		case group.deleted:
			if group.held {
				counts["deleted"] += count
			}
		case group.operator != "":
			counts["lapsed"] += count
		default:
			counts["unclaimed"] += count
		}
	}
	for reason, count := range counts {
		out <- gauge(unservedDesc, count, kind.Kind, reason)
	}
}

// hasLapsed is whether nobody renews the lease of an operator, by this operator's clock: the other one's may be
// another. A lease that this operator may not read, for example in another namespace, counts as renewed.
func (r *resources) hasLapsed(ctx context.Context, operator string) bool {
	namespace, name, _ := strings.Cut(operator, "/")
	lease := &coordinationv1.Lease{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)
	if err != nil || lease.Spec.RenewTime == nil {
		return apierrors.IsNotFound(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.renewals[operator]
	if !known || !last.said.Equal(lease.Spec.RenewTime) {
		last = renewal{*lease.Spec.RenewTime, time.Now()}
		r.renewals[operator] = last
	}
	return time.Since(last.since) > lapsedAfter
}

// owners are the custom resources of one kind in one namespace; usage is what their pods request.
type (
	owners struct {
		schema.GroupKind
		namespace string
	}
	usage struct{ replicas, cpu, memory float64 }
)

// usage sums up the workloads instead of the custom resources: if one of these is paused or cannot be
// applied, something else runs than its spec wants. It is nil if the cache watches no kind of workloads, or
// if after a start all of these have yet to be read: a scrape that waited for that would fail as a whole.
// Custom resources of other operators are left out.
func (r *resources) usage(ctx context.Context, unselected map[ownerKey]bool) (map[owners]usage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var used map[owners]usage
	for _, name := range countingKinds {
		kind, err := r.workloadsOf(ctx, appsv1.SchemeGroupVersion.WithKind(name))
		if err != nil {
			return nil, fmt.Errorf("count the pods of each %s: %w", name, err)
		}
		if kind == nil || !kind.read.HasSynced() {
			continue
		}
		if used == nil {
			used = map[owners]usage{}
		}
		kind.forEach(func(_ types.NamespacedName, w workload) {
			if w.of.Name == "" || unselected[w.of] {
				return
			}
			key := owners{w.of.GroupKind, w.of.Namespace}
			sum := used[key]
			used[key] = usage{sum.replicas + w.replicas, sum.cpu + w.cpu, sum.memory + w.memory}
		})
	}
	return used, nil
}

// workloadsOf is nil as long as the cache does not watch the kind. It does so once a custom resource has such
// an object.
func (r *resources) workloadsOf(ctx context.Context, gvk schema.GroupVersionKind) (*tally[workload], error) {
	if known := r.workloads[gvk.Kind]; known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	one := &unstructured.UnstructuredList{}
	one.SetGroupVersionKind(gvk)
	err := r.cache.List(ctx, one, client.Limit(1), client.UnsafeDisableDeepCopy)
	if object.IsUncached(err) || apierrors.IsTimeout(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	informer, err := r.cache.GetInformer(ctx, object.Empty(gvk))
	if apierrors.IsTimeout(err) { // of the cache of another namespace
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	watched, err := newTally(informer, workloadOf)
	if err != nil {
		return nil, err
	}
	r.workloads[gvk.Kind] = watched
	// If it takes longer, because there are thousands, the next scrape has them.
	_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) { return watched.read.HasSynced(), nil })
	return watched, nil
}

func workloadOf(counted *unstructured.Unstructured) workload {
	kind, of := object.MadeFor(counted)
	count, _, _ := unstructured.NestedInt64(counted.Object, "status", "replicas")
	replicas := float64(count)
	return workload{ownerKey{kind, of}, usage{replicas, replicas * object.Requested(counted, "cpu"), replicas * object.Requested(counted, "memory")}}
}

func (r *resources) collect(out chan<- prometheus.Metric, kind *servedKind, used map[owners]usage) {
	var conditions [len(countedConditions)][3]float64
	now, longest, left, counts, loops := time.Now(), time.Duration(0), 0.0, map[string]float64{}, []types.NamespacedName(nil)
	kind.owners.forEach(func(name types.NamespacedName, o owner) {
		if !o.selected {
			return
		}
		for i, condition := range countedConditions {
			conditions[i][o.conditions[i]]++
			if r.perResource {
				isTrue := 0.0
				if conditionStatuses[o.conditions[i]] == "True" {
					isTrue = 1
				}
				out <- gauge(perResourceDesc, isTrue, kind.Kind, name.Namespace, name.Name, condition)
			}
		}
		if o.loop {
			loops = append(loops, name)
		}
		if o.notReadySince != 0 {
			longest = max(longest, now.Sub(time.Unix(o.notReadySince, 0)))
		}
		if o.operator != "" && o.operator != r.operator {
			left++
		}
		counts[name.Namespace]++
	})
	for _, name := range shared(loops, mostDriftLoops) {
		out <- gauge(driftLoopDesc, 1, kind.Kind, name.Namespace, name.Name)
	}
	for i, condition := range countedConditions {
		for status, count := range conditions[i] { // zeros are written, too: an alert needs a series that exists
			out <- gauge(conditionDesc, count, kind.Kind, condition, conditionStatuses[status])
		}
	}
	out <- gauge(notReadyDesc, longest.Seconds(), kind.Kind)
	out <- gauge(leftDesc, left, kind.Kind)
	for namespace, count := range counts {
		out <- gauge(countDesc, count, kind.Kind, namespace)
		key := owners{kind.GroupKind(), namespace}
		if _, runs := used[key]; !runs && used != nil {
			used[key] = usage{}
		}
	}
	for key, sum := range used {
		if key.GroupKind == kind.GroupKind() {
			out <- gauge(replicasDesc, sum.replicas, kind.Kind, key.namespace)
			out <- gauge(cpuDesc, sum.cpu, kind.Kind, key.namespace)
			out <- gauge(memoryDesc, sum.memory, kind.Kind, key.namespace)
		}
	}
}

// shared are as many as there is room for: first one of each namespace, then a second one, and so on, so that
// no namespace crowds out others. The choice is the same each time, or alerts would come and go.
func shared(all []types.NamespacedName, room int) []types.NamespacedName {
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	before, turn := map[string]int{}, map[types.NamespacedName]int{}
	for _, name := range all {
		turn[name] = before[name.Namespace]
		before[name.Namespace]++
	}
	slices.SortStableFunc(all, func(a, b types.NamespacedName) int { return turn[a] - turn[b] })
	return all[:min(len(all), room)]
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// notReadySince is zero if the custom resource is ready or paused. One that no operator has looked at yet is
// not ready.
func notReadySince(item *unstructured.Unstructured) (since time.Time) {
	ready := status.ConditionOf(item, status.Ready)
	switch {
	case ready == nil:
		since = item.GetCreationTimestamp().Time
	case ready["status"] == "False":
		text, _ := ready["lastTransitionTime"].(string)
		since, _ = time.Parse(time.RFC3339, text) // the CRD admits nothing else
	}
	return since
}

package operator

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"demo.welcome.domain/welcome-operator/internal/status"
)

// version is set by the Makefile's builds.
var version = "unknown"

// Metrics of releases. controller-runtime has those of queues, workers and requests to the API server. A
// label takes no more values than there are kinds, reasons, namespaces or entries. Exceptions are the drift
// loops, which are bounded, and --metrics-per-resource.
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
		Help: "1 for an entry of watches.yaml that is not served; the message says why.",
	}, []string{"entry", "kind", "message"})
	rolloutStopped = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "welcome_operator_rollout_stopped",
		Help: "1 while the rollout of a new chart version has stopped, and custom resources keep what they have, since too many of the upgraded ones are broken.",
	}, []string{"kind"})
	watchErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "welcome_operator_watch_errors_total",
		Help: "Failures to list or watch the objects of a kind, of which this operator sees no change meanwhile.",
	}, []string{"kind"})
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
func setUpMetrics(ctx context.Context, mgr manager.Manager, entries []Entry, refused []broken, options Options) error {
	for _, each := range refused {
		entryBroken.WithLabelValues(strconv.Itoa(each.place.number), each.Kind, strings.ToValidUTF8(each.err.Error(), "")).Set(1)
	}
	operator, err := options.operator()
	if err != nil {
		return err
	}
	// operator-lib's event handler, which the library uses, has a series for each custom resource: with
	// 100,000 of them, every scrape would have 15 MB.
	metrics.Registry.Unregister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "resource_created_at_seconds"}))
	var registry prometheus.Registerer = metrics.Registry
	if options.Shard != "" {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"shard": options.Shard}, registry)
	}
	resources, err := newResources(ctx, mgr.GetCache(), mgr.GetAPIReader(), mgr.Elected(), entries, operator, options.MetricsPerResource)
	if err != nil {
		return err
	}
	for _, collector := range []prometheus.Collector{
		actions, durations, buildInfo, entryBroken, rolloutStopped, watchErrors, memoryRatio,
		resources,
	} {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// countAction returns the function that release.KindOptions calls after each action.
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

// tellRollout returns the function that is called when a rollout stops and when it goes on.
func tellRollout(log logr.Logger, kind string) func(stopped bool) {
	metric := rolloutStopped.WithLabelValues(kind)
	return func(stopped bool) {
		if stopped {
			metric.Set(1)
			log.Info("The rollout of the new version has stopped: too many of the upgraded ones are broken", "kind", kind)
			return
		}
		metric.Set(0)
		log.Info("The rollout of the new version goes on", "kind", kind)
	}
}

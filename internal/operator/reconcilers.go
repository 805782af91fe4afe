package operator

import (
	"context"
	"fmt"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"github.com/operator-framework/helm-operator-plugins/pkg/watches"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

const (
	// pausedAnnotation stops, when set to "true", the reconciling of a custom resource.
	pausedAnnotation = "webapp.demo.welcome.domain/paused"
	// maxReleaseHistory is how many revisions of a release are kept for people to look at.
	maxReleaseHistory = 5
)

// setUpReconcilers adds a reconciler of the library for every watches entry.
func setUpReconcilers(mgr ctrl.Manager, entries []watches.Watch, options Options) error {
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create the discovery client: %w", err)
	}
	capabilities, err := release.NewCapabilities(discoveryClient, mgr.GetLogger())
	if err != nil {
		return err
	}
	if err := mgr.Add(capabilities); err != nil {
		return err
	}
	clients, err := release.NewClients(mgr, capabilities)
	if err != nil {
		return err
	}
	changing, err := setUpUpgradeable(mgr)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		r, err := reconciler.New(reconcilerOptions(mgr, entry, options, clients, changing)...)
		if err != nil {
			return fmt.Errorf("%s: entry %s: %w", options.WatchesFile, entry.Kind, err)
		}
		if err := r.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up the reconciler of %s: %w", entry.Kind, err)
		}
	}
	return nil
}

// reconcilerOptions translates a watches entry. The library's own run command ignores
// reconcilePeriod and maxConcurrentReconciles of an entry and takes
// watchDependentResources for its opposite.
func reconcilerOptions(mgr ctrl.Manager, entry watches.Watch, options Options, clients *release.Clients, changing func() (done func())) []reconciler.Option {
	period, workers := options.ReconcilePeriod, options.MaxConcurrentReconciles
	if entry.ReconcilePeriod != nil {
		period = entry.ReconcilePeriod.Duration
	}
	if entry.MaxConcurrentReconciles != nil {
		workers = *entry.MaxConcurrentReconciles
	}
	kind := clients.Kind(release.KindOptions{
		GroupVersionKind: entry.GroupVersionKind,
		MaxConcurrent:    workers,
		Period:           period,
		Limits:           options.RolloutLimits,
		WatchDependents:  *entry.WatchDependentResources,
		Changing:         changing,
		Acted:            countAction(entry.GroupVersionKind),
	})
	return []reconciler.Option{
		reconciler.WithLog(mgr.GetLogger().WithName("reconciler").WithName(entry.Kind)),
		reconciler.WithGroupVersionKind(entry.GroupVersionKind),
		reconciler.WithChart(*entry.Chart),
		reconciler.WithOverrideValues(entry.OverrideValues),
		reconciler.WithSelector(*entry.Selector),
		reconciler.SkipDependentWatches(true),
		reconciler.WithMaxConcurrentReconciles(workers + release.HookWaits),
		reconciler.WithMaxReleaseHistory(maxReleaseHistory),
		reconciler.WithClient(status.NewReporter(mgr, kind)),
		reconciler.WithEventRecorder(quietRecorder{mgr.GetEventRecorderFor("welcome-operator")}),
		reconciler.WithActionClientGetter(kind),
		reconciler.WithControllerSetupFunc(kind.SetUp),
		reconciler.WithPauseReconcileHandler(func(_ context.Context, obj *unstructured.Unstructured) (bool, error) {
			if !paused(obj) {
				return false, nil
			}
			kind.Paused(obj)
			return true, nil
		}),
	}
}

// paused lets a deletion through: the library asks before it looks at the deletion, and the
// finalizer of a paused custom resource would stay for ever.
func paused(obj *unstructured.Unstructured) bool {
	return obj.GetAnnotations()[pausedAnnotation] == "true" && obj.GetDeletionTimestamp() == nil
}

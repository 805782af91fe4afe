package operator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// setUpReconcilers adds a reconciler of the library for every watches entry.
func setUpReconcilers(mgr ctrl.Manager, entries []Entry, options Options) error {
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
	tellAllowances(mgr.GetLogger(), mgr.GetRESTMapper(), entries, capabilities)
	operator, err := options.operator()
	if err != nil {
		return err
	}
	clients, err := release.NewClients(mgr, operator, capabilities, haveSecrets(entries))
	if err != nil {
		return err
	}
	changing, err := setUpUpgradeable(mgr)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		for _, hook := range release.UnknownHooks(entry.Chart) {
			mgr.GetLogger().Info("Helm knows no such hook, and leaves out what has it: see how it is spelt", "kind", entry.Kind, "hook", hook)
		}
		settings, err := reconcilerOptions(mgr, entry, options, clients, operator, changing)
		if err != nil {
			return entry.wrong(err)
		}
		r, err := reconciler.New(settings...)
		if err != nil {
			return entry.wrong(err)
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
func reconcilerOptions(mgr ctrl.Manager, entry Entry, options Options, clients *release.Clients, operator string, changing func(retry bool) (done func())) ([]reconciler.Option, error) {
	settings := entry.kindOptions(options)
	settings.Changing, settings.Acted = changing, countAction(entry.GroupVersionKind)
	settings.RolloutStopped = tellRollout(mgr.GetLogger(), entry.Kind)
	var reporter *status.Reporter
	settings.Waits = func(ctx context.Context, owner *unstructured.Unstructured) { reporter.Waits(ctx, owner) }
	kind := clients.Kind(settings)
	reporter, err := status.NewReporter(mgr, kind, operator)
	if err != nil {
		return nil, fmt.Errorf("set up the claims: %w", err)
	}
	return []reconciler.Option{
		reconciler.WithLog(mgr.GetLogger().WithName("reconciler").WithName(entry.Kind)),
		reconciler.WithGroupVersionKind(entry.GroupVersionKind),
		reconciler.WithChart(*entry.Chart),
		reconciler.WithValueTranslator(kind), // which also pins; the library's WithOverrideValues would warn of that at each release
		reconciler.WithSelector(*entry.Selector),
		reconciler.SkipDependentWatches(true),
		reconciler.WithMaxConcurrentReconciles(settings.MaxConcurrent + release.HookWaits),
		reconciler.WithMaxReleaseHistory(record.MaxHistory),
		reconciler.WithClient(reporter),
		reconciler.WithActionClientGetter(kind),
		reconciler.WithControllerSetupFunc(kind.SetUp),
		reconciler.WithPauseReconcileHandler(func(_ context.Context, obj *unstructured.Unstructured) (bool, error) {
			if !release.IsPaused(obj) {
				return false, nil
			}
			kind.LeaveRollout(obj)
			return true, nil
		}),
	}, nil
}

// kindOptions are what an entry says of how its kind is served.
func (e Entry) kindOptions(options Options) release.KindOptions {
	period, workers := options.ReconcilePeriod, options.MaxConcurrentReconciles
	if e.ReconcilePeriod != nil {
		period = e.ReconcilePeriod.Duration
	}
	if e.MaxConcurrentReconciles != nil {
		workers = *e.MaxConcurrentReconciles
	}
	return release.KindOptions{
		GroupVersionKind: e.GroupVersionKind,
		Chart:            e.Chart,
		Selector:         e.selects,
		MaxConcurrent:    workers,
		Overrides:        e.OverrideValues,
		Allow:            e.Allow,
		Secrets:          e.Secrets,
		Tests:            e.Tests,
		Names:            e.ReleaseName,
		Period:           period,
		Limits:           options.RolloutLimits,
		DriftDetection:   release.DriftDetection{Mode: e.DriftDetection.Mode, Ignored: e.DriftDetection.ignored},
		Recreate:         e.Recreate,
		Timeout:          cmp.Or(e.Timeout.Duration, release.DefaultTimeout),
		Namespaces:       options.WatchNamespaces,
		WatchDependents:  e.WatchDependentResources == nil || *e.WatchDependentResources,
	}
}

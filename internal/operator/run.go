// Package operator boots the reconcilers of helm-operator-plugins from watches.yaml.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// LeaderElectionID is the name of the lease of Welcome's operator, and of what it publishes.
	LeaderElectionID = "welcome-operator.webapp.demo.welcome.domain"
	// shutdownTimeout is how long running reconciles may go on after SIGTERM. It fits into
	// the pod's grace period of 30 seconds.
	shutdownTimeout = 20 * time.Second
)

// Run reconciles until ctx ends. It returns an error that one can act on where the options,
// the watches file, a chart or the cluster do not allow a start.
func Run(ctx context.Context, options Options) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options.Zap)))
	entries, refused, err := loadWatches(options.WatchesFile)
	if err != nil {
		return err
	}
	cluster, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster (set KUBECONFIG): %w", err)
	}
	// The user agent, which becomes the field manager of clients that name none: it would be "Go-http-client".
	cluster.UserAgent = object.Manager + "/" + version
	// Since Kubernetes 1.37, a watch that begins with a list is compressed for as long as it lives, message by message.
	// Within a cluster, that costs both sides more than it saves. Kubernetes' own controllers ask for none either.
	cluster.DisableCompression = true
	servable, err := newServable(cluster, options.WatchNamespaces)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	entries, refused, err = servable.await(ctx, entries, refused, options.HealthProbeBindAddress)
	if err != nil || len(entries) == 0 {
		return err // nil if ctx has ended
	}
	mgr, err := newManager(cluster, servable.mapper, entries, options)
	if err != nil {
		return err
	}
	for _, each := range refused {
		mgr.GetLogger().Error(each.err, "Not serving an entry of the watches file; the others are served")
	}
	if err := setUpBroken(mgr, servable, refused, options); err != nil {
		return err
	}
	if err := setUpReconcilers(mgr, entries, options); err != nil {
		return err
	}
	if err := setUpPublished(mgr, entries, options); err != nil {
		return err
	}
	if err := setUpMetrics(ctx, mgr, entries, refused, options); err != nil {
		return err
	}
	if err := setUpProbes(ctx, mgr, entries); err != nil {
		return err
	}
	if err := mgr.Add(&memoryWatch{log: mgr.GetLogger()}); err != nil {
		return err
	}
	return start(ctx, mgr)
}

// start runs the manager until ctx ends. It does not wait for the end of a manager whose caches are not filled, for
// example because rights are missing: such a manager has nothing to bring to an end, but that of controller-runtime v0.25
// goes on and uses up a processor (kubernetes-sigs/controller-runtime#3440).
func start(ctx context.Context, mgr ctrl.Manager) error {
	running, ended := make(filled), make(chan error, 1)
	if err := mgr.Add(running); err != nil {
		return err
	}
	go func() { ended <- mgr.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-running:
		err = <-ended
	case <-ctx.Done():
	}
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// filled is closed once the caches are filled.
type filled chan struct{}

// Start is called then, whether or not this process leads.
func (f filled) Start(context.Context) error {
	close(f)
	return nil
}

// NeedLeaderElection is false: the caches of a standby fill, too.
func (filled) NeedLeaderElection() bool { return false }

func newManager(cluster *rest.Config, mapper meta.RESTMapper, entries []Entry, options Options) (ctrl.Manager, error) {
	cluster.QPS = -1 // the API server's priority and fairness limits us, and knows better
	// The library's finalizer draws a warning from the API server for every custom resource.
	cluster.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	fence := newFence(options.LeaderElectionID, options.LeaseDuration)
	if options.LeaderElect {
		fence.around(cluster)
	}
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme:         object.NewScheme(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Cache:          cacheOptions(entries, options.WatchNamespaces),
		NewCache: func(cluster *rest.Config, options cache.Options) (cache.Cache, error) {
			all, err := cache.New(cluster, options)
			return promptCache{all, base(entries)}, err
		},
		// Otherwise every reconcile costs a GET of its custom resource.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: metricsserver.Options{
			BindAddress:    options.MetricsBindAddress,
			SecureServing:  true,
			FilterProvider: metricsAuth,
		},
		HealthProbeBindAddress:        options.HealthProbeBindAddress,
		PprofBindAddress:              options.PprofBindAddress,
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              options.LeaderElectionID,
		LeaderElectionNamespace:       options.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // a rolling update need not wait for the lease to expire
		LeaseDuration:                 &options.LeaseDuration,
		RenewDeadline:                 new(renewDeadline(options.LeaseDuration)),
		RetryPeriod:                   new(retryPeriod(options.LeaseDuration)),
		GracefulShutdownTimeout:       new(shutdownTimeout),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return mgr, mgr.Add(fence)
}

// setUpProbes makes the operator ready once its caches are filled, the standby's too, which takes over without
// a pause.
func setUpProbes(ctx context.Context, mgr ctrl.Manager, entries []Entry) error {
	var informers []cache.Informer
	for _, object := range base(entries) {
		informer, err := mgr.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		informers = append(informers, informer)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(*http.Request) error {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return errors.New("caches are not filled yet: does the ServiceAccount have the rights of config/rbac?")
			}
		}
		return nil
	})
}

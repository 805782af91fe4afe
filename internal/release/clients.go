// Package release decides what has to be done to the Helm release of a custom resource, and does it: installs, upgrades,
// repairs, recovers, rolls back, uninstalls, and lets new charts go to a few at a time.
package release

import (
	"context"
	"fmt"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	eventrecord "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/pace"
	"demo.welcome.domain/welcome-operator/internal/record"
)

const (
	// DefaultTimeout bounds a hook of a Helm action: without it, an endless one
	// would keep a worker for ever.
	DefaultTimeout = 5 * time.Minute
	// requestTimeout bounds a single request of a Helm action, so that a hanging
	// admission webhook fails one reconcile and not the operator.
	requestTimeout = 30 * time.Second
	// maxReports and maxReport bound how many of a record's wrongs are told in a reconcile, and their texts, in bytes.
	maxReports, maxReport = 20, 500
)

// Clients makes the action clients of reconcilers: the library's, over slim cached records,
// guarded objects and kept capabilities.
type Clients struct {
	mgr          manager.Manager // nil where nothing is reconciled
	mapper       meta.RESTMapper
	cached, live client.Reader
	operator     string
	capabilities *Capabilities
	ledger       *ledger
	trials       *pace.Places
	records      record.Live
	library      helmclient.ActionClientGetter
	events       eventrecord.EventRecorder
	reading      singleflight.Group // of the objects of a kind
}

// NewClients connects to the cluster of mgr. Records name operator; secrets is whether a kind has them in Secrets.
func NewClients(mgr manager.Manager, operator string, capabilities *Capabilities, secrets bool) (*Clients, error) {
	c := &Clients{
		mgr:          mgr,
		mapper:       mgr.GetRESTMapper(),
		cached:       mgr.GetCache(),
		live:         mgr.GetAPIReader(),
		operator:     operator,
		capabilities: capabilities,
		ledger:       newLedger(),
		trials:       pace.NewPlaces(1, maxTrials),
		events:       NewEvents(mgr),
	}
	if err := record.IndexReleases(context.Background(), mgr.GetFieldIndexer(), secrets); err != nil {
		return nil, fmt.Errorf("index release records: %w", err)
	}
	return c, c.connect(mgr.GetConfig())
}

func (c *Clients) connect(cluster *rest.Config) error {
	config := rest.CopyConfig(cluster)
	config.Timeout = requestTimeout
	var err error
	if c.records, err = corev1client.NewForConfig(config); err != nil {
		return fmt.Errorf("create the client of release records: %w", err)
	}
	c.library, err = c.newLibraryClients(config)
	return err
}

func (c *Clients) newLibraryClients(config *rest.Config) (helmclient.ActionClientGetter, error) {
	configs, err := helmclient.NewActionConfigGetter(config, c.mapper,
		helmclient.StorageDriverMapper(func(ctx context.Context, _ client.Object, _ *rest.Config) (driver.Driver, error) {
			op := operationFrom(ctx)
			return operationDriver{op.store.Driver(), op}, nil
		}))
	if err != nil {
		return nil, fmt.Errorf("create action configurations: %w", err)
	}
	library, err := helmclient.NewActionClientGetter(&guardedConfigs{configs},
		// A failed dry run would be "rolled back" too, for real.
		helmclient.WithFailureRollbacks(false),
		helmclient.AppendInstallOptions(func(install *action.Install) error {
			install.DisableOpenAPIValidation = true
			install.SkipCRDs = true // an entry is not served before they are there
			// The library's post-renderer sets owner references, for which it parses the manifest once more.
			// The guard does that anyway.
			install.PostRenderer = nil
			return nil
		}),
		helmclient.AppendUpgradeOptions(func(upgrade *action.Upgrade) error {
			upgrade.DisableOpenAPIValidation = true
			upgrade.TakeOwnership = true // as the guard judges it, and not by annotations
			upgrade.PostRenderer = nil
			upgrade.ResetValues = true // else Helm takes those of the record where there are none
			return nil
		}),
		helmclient.AppendUninstallOptions(func(uninstall *action.Uninstall) error {
			// Helm would take them from the record, and whoever has forged one would have the operator create
			// anything. They are run from the chart.
			uninstall.DisableHooks = true
			return nil
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("create action clients: %w", err)
	}
	return library, nil
}

// reporter reports, once in a reconcile, each thing that a release record names and that the owner has no right
// to.
func (c *Clients) reporter(ctx context.Context, owner client.Object) func(message string) {
	told := map[string]bool{}
	return func(message string) {
		message = object.Cut(message, maxReport)
		if told[message] || len(told) == maxReports {
			return
		}
		told[message] = true
		logf.FromContext(ctx).Info("Left alone what a release record names", "reason", message)
		c.events.Event(owner, corev1.EventTypeWarning, "ForeignObject", message)
	}
}

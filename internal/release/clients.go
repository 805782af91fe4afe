package release

import (
	"context"
	"fmt"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	eventrecord "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// actionTimeout bounds a Helm action with its hooks: without it, one endless hook
	// would keep a worker for ever.
	actionTimeout = 5 * time.Minute
	// requestTimeout bounds a single request of a Helm action, so that a hanging
	// admission webhook fails one reconcile and not the operator.
	requestTimeout = 30 * time.Second
)

// Clients makes the action clients of reconcilers: the library's, over slim cached records,
// guarded objects and kept capabilities.
type Clients struct {
	mgr          manager.Manager
	capabilities *Capabilities
	ledger       *ledger
	records      corev1client.ConfigMapsGetter
	library      helmclient.ActionClientGetter
	events       eventrecord.EventRecorder
}

// NewClients connects to the cluster of mgr.
func NewClients(mgr manager.Manager, capabilities *Capabilities) (*Clients, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Timeout = requestTimeout
	var err error
	c := &Clients{mgr: mgr, capabilities: capabilities, ledger: newLedger(), events: mgr.GetEventRecorderFor("welcome-operator")}
	if c.records, err = corev1client.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("create the client of release records: %w", err)
	}
	if err := indexOwners(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index release records: %w", err)
	}
	c.library, err = c.newLibraryClients(config)
	return c, err
}

func (c *Clients) newLibraryClients(config *rest.Config) (helmclient.ActionClientGetter, error) {
	configs, err := helmclient.NewActionConfigGetter(config, c.mgr.GetRESTMapper(),
		helmclient.StorageDriverMapper(func(ctx context.Context, _ client.Object, _ *rest.Config) (driver.Driver, error) {
			return clientFrom(ctx).records.driver(), nil
		}))
	if err != nil {
		return nil, fmt.Errorf("create action configurations: %w", err)
	}
	library, err := helmclient.NewActionClientGetter(&guardedConfigs{configs},
		// A failed dry run would be "rolled back" too, for real.
		helmclient.WithFailureRollbacks(false),
		helmclient.AppendInstallOptions(func(install *action.Install) error {
			install.Timeout = actionTimeout
			install.DisableOpenAPIValidation = true
			// The library's sets owner references, for which it parses the manifest once more. The guard does it anyway.
			install.PostRenderer = nil
			return nil
		}),
		helmclient.AppendUpgradeOptions(func(upgrade *action.Upgrade) error {
			upgrade.Timeout = actionTimeout
			upgrade.DisableOpenAPIValidation = true
			upgrade.PostRenderer = nil
			return nil
		}),
		helmclient.AppendUninstallOptions(func(uninstall *action.Uninstall) error {
			uninstall.Timeout = actionTimeout
			// The hooks come from the record, and whoever forged one would have the
			// operator create anything.
			uninstall.DisableHooks = true
			return nil
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("create action clients: %w", err)
	}
	return library, nil
}

// Kind is a kind of custom resources, and how its releases are kept.
type Kind struct {
	clients  *Clients
	schedule *schedule
	rollout  *rollout
	slots    slots
	watches  *watches // nil if nobody asked for them
	changing func() (done func())
	acted    func(action string, took time.Duration, err error)
}

// KindOptions are the settings of a kind.
type KindOptions struct {
	GroupVersionKind schema.GroupVersionKind
	// MaxConcurrent is how many custom resources may be acted on at once, at least 1. Those that wait
	// for a hook, up to HookWaits, do not count.
	MaxConcurrent int
	// Period is the time between two reconciles of a custom resource to which nothing
	// happens, 0 for never.
	Period time.Duration
	// Limits bound the rollout of a new chart version.
	Limits Limits
	// WatchDependents is whether a change of a child causes a reconcile.
	WatchDependents bool
	// Changing is told when the operator begins to change a release, and by done when that has ended.
	Changing func() (done func())
	// Acted is told of each action on a release: which (Install, Upgrade, Uninstall or
	// DriftCorrection), how long it took, and why it failed.
	Acted func(action string, took time.Duration, err error)
}

// Kind returns the action clients of one kind of custom resources.
func (c *Clients) Kind(o KindOptions) *Kind {
	k := &Kind{clients: c, schedule: &schedule{period: o.Period}, rollout: newRollout(o.Limits), slots: make(slots, o.MaxConcurrent), changing: o.Changing, acted: o.Acted}
	if o.WatchDependents {
		k.watches = &watches{mgr: c.mgr, owner: o.GroupVersionKind, watched: map[schema.GroupVersionKind]bool{}, refused: map[schema.GroupVersionKind]time.Time{}}
	}
	return k
}

// SetUp ties k to its controller.
func (k *Kind) SetUp(c reconciler.ControllerSetup) error {
	if k.watches != nil {
		k.watches.controller = c
	}
	return c.Watch(k.schedule.source())
}

// State is what is known of the release of owner, the zero value if it was not reconciled since
// the operator started.
func (k *Kind) State(owner client.Object) State {
	return k.clients.ledger.state(owner.GetUID())
}

// Paused gives the place of a custom resource that somebody pauses to another: nobody looks how it
// fares, so it would keep it.
func (k *Kind) Paused(owner client.Object) { k.leaveRollout(owner) }

func (k *Kind) leaveRollout(owner client.Object) { k.wake(k.rollout.leave(owner)) }

// wake has those reconciled whose turn in the rollout it is.
func (k *Kind) wake(next []client.ObjectKey) {
	for _, key := range next {
		k.schedule.add(key, 0)
	}
}

// Requeue has owner reconciled after delay, or earlier if something happens to it.
func (k *Kind) Requeue(owner client.Object, delay time.Duration) { k.schedule.after(owner, delay) }

// watch has the cache know the kinds of owner's children.
func (k *Kind) watch(ctx context.Context, owner client.Object, children []Child) error {
	if k.watches == nil {
		return nil
	}
	for _, child := range children {
		refused, err := k.watches.ensure(ctx, owner.GetNamespace(), child)
		if err != nil {
			return err
		}
		if refused {
			k.schedule.after(owner, refusedPeriod) // nothing that happens to the child will bring it back
		}
	}
	return nil
}

// ActionClientFor returns the action client of one reconcile of owner. It asks the cluster
// nothing: Helm's machinery is built when something has to be done.
func (k *Kind) ActionClientFor(ctx context.Context, owner client.Object) (helmclient.ActionInterface, error) {
	report := k.clients.reporter(ctx, owner)
	return &actionClient{
		Kind:   k,
		ctx:    ctx,
		owner:  owner,
		report: report,
		records: newRecords(ctx, k.clients.records, k.clients.mgr.GetCache(),
			&sanitizer{mapper: k.clients.mgr.GetRESTMapper(), owner: owner, report: report}),
	}, nil
}

// reporter tells, once in a reconcile, of each thing that a release record names and that the
// owner has no right to.
func (c *Clients) reporter(ctx context.Context, owner client.Object) func(message string) {
	told := map[string]bool{}
	return func(message string) {
		if told[message] {
			return
		}
		told[message] = true
		logf.FromContext(ctx).Info("Left alone what a release record names", "reason", message)
		c.events.Event(owner, corev1.EventTypeWarning, "ForeignObject", message)
	}
}

type clientKey struct{}

// clientFrom hands the action client through the library to what is built for it.
func clientFrom(ctx context.Context) *actionClient { return ctx.Value(clientKey{}).(*actionClient) }

// guardedConfigs gives every action configuration the kept capabilities and the guard.
type guardedConfigs struct {
	helmclient.ActionConfigGetter
}

func (g *guardedConfigs) ActionConfigFor(ctx context.Context, owner client.Object) (*action.Configuration, error) {
	config, err := g.ActionConfigGetter.ActionConfigFor(ctx, owner)
	if err != nil {
		return nil, err
	}
	helm, ok := config.KubeClient.(*kube.Client)
	if !ok {
		return nil, fmt.Errorf("helm-operator-plugins made a %T, not Helm's client: this version of it is not supported", config.KubeClient)
	}
	actions := clientFrom(ctx)
	clients := actions.clients
	config.Capabilities = clients.capabilities.Get()
	config.KubeClient = &guard{
		Client:  helm,
		ctx:     ctx,
		cache:   clients.mgr.GetCache(),
		owner:   owner,
		applied: map[childKey]*unstructured.Unstructured{},
		report:  actions.report,
		slots:   actions.slots,
	}
	return config, nil
}

package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
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

// NewActionClients returns what a reconciler needs to act on releases: the library's action
// clients over cached records, guarded objects and kept capabilities.
func NewActionClients(mgr manager.Manager, capabilities *Capabilities) (helmclient.ActionClientGetter, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Timeout = requestTimeout
	live, err := corev1client.NewForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the client of release records: %w", err)
	}
	configs, err := helmclient.NewActionConfigGetter(config, mgr.GetRESTMapper(),
		helmclient.StorageDriverMapper(func(_ context.Context, owner client.Object, _ *rest.Config) (driver.Driver, error) {
			return newRecords(live, mgr.GetCache(), owner), nil
		}))
	if err != nil {
		return nil, fmt.Errorf("create action configurations: %w", err)
	}
	library, err := helmclient.NewActionClientGetter(&guardedConfigs{ActionConfigGetter: configs, mgr: mgr, capabilities: capabilities},
		// A failed dry run would be "rolled back" too, for real.
		helmclient.WithFailureRollbacks(false),
		helmclient.AppendInstallOptions(func(install *action.Install) error {
			install.Timeout = actionTimeout
			install.DisableOpenAPIValidation = true
			return nil
		}),
		helmclient.AppendUpgradeOptions(func(upgrade *action.Upgrade) error {
			upgrade.Timeout = actionTimeout
			upgrade.DisableOpenAPIValidation = true
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
	return helmclient.ActionClientGetterFunc(func(ctx context.Context, owner client.Object) (helmclient.ActionInterface, error) {
		actions, err := library.ActionClientFor(ctx, owner)
		if err != nil {
			return nil, err
		}
		return &actionClient{ActionInterface: actions, guard: actions.Config().KubeClient.(*guard), client: mgr.GetClient()}, nil
	}), nil
}

// guardedConfigs gives every action configuration the kept capabilities and the guard.
type guardedConfigs struct {
	helmclient.ActionConfigGetter
	mgr          manager.Manager
	capabilities *Capabilities
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
	recorder := g.mgr.GetEventRecorderFor("welcome-operator")
	config.Capabilities = g.capabilities.Get()
	config.KubeClient = &guard{
		Client: helm,
		ctx:    ctx,
		cache:  g.mgr.GetCache(),
		owner:  owner,
		report: func(message string) {
			logf.FromContext(ctx).Info("Left an object alone that a release record names", "reason", message)
			recorder.Event(owner, corev1.EventTypeWarning, "ForeignObject", message)
		},
	}
	return config, nil
}

// actionClient is the library's, with a drift repair that reads from the cache and writes
// only what differs.
type actionClient struct {
	helmclient.ActionInterface
	guard  *guard
	client client.Client
}

// Reconcile repairs the drift of the objects of rel. The reconciler calls it with a release
// whose manifest equals what the chart renders now, so the manifest can be trusted.
func (a *actionClient) Reconcile(rel *release.Release) error {
	resources, err := a.guard.Build(bytes.NewBufferString(rel.Manifest), false)
	if err != nil {
		return fmt.Errorf("parse the manifest of release %s: %w", rel.Name, err)
	}
	var errs []error
	for _, info := range resources {
		errs = append(errs, a.repair(info))
	}
	return errors.Join(errs...)
}

func (a *actionClient) repair(info *resource.Info) error {
	if err := a.guard.checkNamespace(info); err != nil {
		return err
	}
	desired, err := canonical(info)
	if err != nil {
		return err
	}
	live, err := a.guard.get(info)
	if apierrors.IsNotFound(err) {
		_, err := a.guard.Create(kube.ResourceList{info})
		return err
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(live, a.guard.owner) {
		return inTheWay(info)
	}
	repaired, drifted := repair(live, desired)
	if !drifted {
		return nil
	}
	if err := a.client.Update(a.guard.ctx, repaired); err != nil {
		return fmt.Errorf("repair the drift of %s: %w", describe(info), err)
	}
	return nil
}

package operator

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"github.com/operator-framework/operator-lib/conditions"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// operatorConditionEnv is set by OLM, and by nobody else: OLM v1 and kustomize have no OperatorCondition.
	operatorConditionEnv = "OPERATOR_CONDITION_NAME"
	// settleTime is how long no release may have changed before an upgrade is welcome again. It spares the API server
	// two writes per release when many are changed one after the other.
	settleTime = 5 * time.Second
)

// upgradeable asks OLM not to replace the operator while it changes releases: the condition Upgradeable of its
// OperatorCondition is False from the first change until none has happened for settleTime. OLM keeps a new version
// Pending until then.
type upgradeable struct {
	condition conditions.Condition
	log       logr.Logger
	running   atomic.Int32
	changes   chan struct{} // holds one element while a change has not been looked at
}

// setUpUpgradeable returns what wraps the clients of a kind so that OLM is told when they change releases. Where OLM does
// not run the operator, that leaves them as they are.
func setUpUpgradeable(mgr ctrl.Manager) (func(helmclient.ActionClientGetter) helmclient.ActionClientGetter, error) {
	if os.Getenv(operatorConditionEnv) == "" {
		return func(clients helmclient.ActionClientGetter) helmclient.ActionClientGetter { return clients }, nil
	}
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register OperatorConditions: %w", err)
	}
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("create the client of OperatorConditions: %w", err)
	}
	condition, err := conditions.InClusterFactory{Client: live}.NewCondition(operatorsv2.ConditionType(operatorsv2.Upgradeable))
	if err != nil {
		return nil, fmt.Errorf("%s is set, so OLM should run this: %w", operatorConditionEnv, err)
	}
	u := newUpgradeable(condition, mgr.GetLogger().WithName("upgradeable"))
	return u.reported, mgr.Add(u)
}

func newUpgradeable(condition conditions.Condition, log logr.Logger) *upgradeable {
	return &upgradeable{condition: condition, log: log, changes: make(chan struct{}, 1)}
}

// changing says that a change begins. The returned function says that it ended.
func (u *upgradeable) changing() (done func()) {
	u.running.Add(1)
	u.notify()
	return func() {
		u.running.Add(-1)
		u.notify()
	}
}

func (u *upgradeable) notify() {
	select {
	case u.changes <- struct{}{}:
	default:
	}
}

// reported returns clients whose actions are changes.
func (u *upgradeable) reported(clients helmclient.ActionClientGetter) helmclient.ActionClientGetter {
	return helmclient.ActionClientGetterFunc(func(ctx context.Context, owner client.Object) (helmclient.ActionInterface, error) {
		actions, err := clients.ActionClientFor(ctx, owner)
		if err != nil {
			return nil, err
		}
		return &reportedActions{ActionInterface: actions, report: u}, nil
	})
}

// Start keeps the condition true to what happens until ctx ends. It ends early, without an error, where the cluster has
// no OperatorConditions: the operator works without.
func (u *upgradeable) Start(ctx context.Context) error {
	told := metav1.ConditionUnknown
	settled := time.NewTimer(0) // the last operator may have left False
	for {
		wanted := metav1.ConditionFalse
		select {
		case <-ctx.Done():
			return nil
		case <-u.changes:
			settled.Reset(settleTime)
		case <-settled.C:
			if u.running.Load() > 0 {
				settled.Reset(settleTime)
			} else {
				wanted = metav1.ConditionTrue
			}
		}
		if wanted == told {
			continue
		}
		err := u.set(ctx, wanted)
		if meta.IsNoMatchError(err) {
			u.log.Info("This cluster has no OperatorConditions, so OLM may upgrade the operator at any time")
			return nil
		}
		if err != nil {
			u.log.Error(err, "Could not tell OLM whether an upgrade is welcome; trying again", "upgradeable", wanted)
			settled.Reset(settleTime)
			continue
		}
		told = wanted
	}
}

func (u *upgradeable) set(ctx context.Context, status metav1.ConditionStatus) error {
	reason, message := "Settled", "No release is being changed"
	if status == metav1.ConditionFalse {
		reason, message = "ReleasesChanging", "Releases are being changed"
	}
	return u.condition.Set(ctx, status, conditions.WithReason(reason), conditions.WithMessage(message))
}

// reportedActions reports the actions that change a release.
type reportedActions struct {
	helmclient.ActionInterface
	report *upgradeable
}

// Install reports and installs.
func (a *reportedActions) Install(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.InstallOption) (*release.Release, error) {
	defer a.report.changing()()
	return a.ActionInterface.Install(name, namespace, chrt, values, opts...)
}

// Upgrade upgrades, and reports it unless it is the dry run with which the reconciler looks for something to do.
func (a *reportedActions) Upgrade(name, namespace string, chrt *chart.Chart, values map[string]any, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	var asked action.Upgrade
	for _, opt := range opts {
		if err := opt(&asked); err != nil {
			return nil, err
		}
	}
	if !asked.DryRun {
		defer a.report.changing()()
	}
	return a.ActionInterface.Upgrade(name, namespace, chrt, values, opts...)
}

// Uninstall reports and uninstalls.
func (a *reportedActions) Uninstall(name string, opts ...helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	defer a.report.changing()()
	return a.ActionInterface.Uninstall(name, opts...)
}

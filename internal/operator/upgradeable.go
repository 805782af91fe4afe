package operator

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
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
	// maxRetrying and maxChanging bound for how long the condition stays False: because of retries after
	// failures, and at all. Something that always fails, or is edited all the time, must not keep OLM from
	// upgrading for ever. An upgrade in the middle of a change loses nothing: the next operator goes on from
	// there.
	maxRetrying = 5 * time.Minute
	maxChanging = time.Hour
)

// upgradeable asks OLM not to replace the operator while it changes releases: the condition Upgradeable of its
// OperatorCondition is False from the first change until none has happened for settleTime, within bounds. OLM
// keeps a new version Pending until then.
type upgradeable struct {
	condition conditions.Condition
	log       logr.Logger
	changes   chan struct{} // holds one element while a change has not been looked at

	mu              sync.Mutex
	retries, others stretch
}

// stretch is a time in which changes follow each other without a pause of settleTime.
type stretch struct {
	since, last time.Time // last is when a change ended
	running     int
}

func (s *stretch) begin(now time.Time) {
	if !s.lasts(now) {
		s.since = now
	}
	s.running++
}

func (s *stretch) end(now time.Time) {
	s.running--
	s.last = now
}

func (s *stretch) lasts(now time.Time) bool { return s.running > 0 || now.Sub(s.last) < settleTime }

// holds is whether OLM is still to wait, which it does for at most limit.
func (s *stretch) holds(now time.Time, limit time.Duration) bool {
	return s.lasts(now) && now.Sub(s.since) < limit
}

// setUpUpgradeable returns a function to call when a change of a release begins. That returns one to call when
// it has ended. Without OLM, they do nothing.
func setUpUpgradeable(mgr ctrl.Manager) (changing func(retry bool) (done func()), err error) {
	if os.Getenv(operatorConditionEnv) == "" {
		return func(bool) func() { return func() {} }, nil
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
	return u.changing, mgr.Add(u)
}

func newUpgradeable(condition conditions.Condition, log logr.Logger) *upgradeable {
	return &upgradeable{condition: condition, log: log, changes: make(chan struct{}, 1)}
}

// changing notes that a change begins, and whether it is a retry after a failure. The returned function notes
// its end.
func (u *upgradeable) changing(retry bool) (done func()) {
	stretch := &u.others
	if retry {
		stretch = &u.retries
	}
	u.tell(stretch.begin)
	return func() { u.tell(stretch.end) }
}

func (u *upgradeable) tell(what func(now time.Time)) {
	u.mu.Lock()
	what(time.Now())
	u.mu.Unlock()
	select {
	case u.changes <- struct{}{}:
	default:
	}
}

// wanted is what to tell OLM.
func (u *upgradeable) wanted(now time.Time) metav1.ConditionStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retries.holds(now, maxRetrying) || u.others.holds(now, maxChanging) {
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

// Start keeps the condition up to date until ctx ends. It ends early, without an error, if the cluster has no
// OperatorConditions: the operator works without.
func (u *upgradeable) Start(ctx context.Context) error {
	told := metav1.ConditionUnknown
	settled := time.NewTimer(0) // the operator before may have left it False
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.changes:
		case <-settled.C:
		}
		wanted := u.wanted(time.Now())
		if wanted == metav1.ConditionFalse {
			settled.Reset(settleTime)
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

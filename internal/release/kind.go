package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/pace"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// HookWaits is how many custom resources of a kind may wait for the hooks and tests of their charts, besides
// those that are acted on.
const HookWaits = 32

// Hooks and tests may take as long as they like, and must not keep the operator from other custom resources. So
// there are this many places of a kind for those that wait. Together they are the workers that exist for waiting.
const (
	maxTests = 8                    // run tests, one in each namespace
	maxHooks = 8                    // wait for hooks in one namespace
	allHooks = HookWaits - maxTests // wait for hooks in all namespaces
)

// Kind is a kind of custom resources, and how its releases are kept.
type Kind struct {
	KindOptions

	clients    *Clients
	source     chartSource
	schedule   *schedule
	rollout    *rollout
	slots      *guard.Slots
	testPlaces *pace.Places
	hookPlaces *pace.Places
	turns      turns
	vanished   *vanished
	watches    *watches // nil if nobody asked for them
}

// KindOptions are the settings of a kind.
type KindOptions struct {
	GroupVersionKind schema.GroupVersionKind
	// Chart that each custom resource becomes.
	Chart *chart.Chart
	// Selector of those that are reconciled.
	Selector labels.Selector
	// MaxConcurrent is how many custom resources may be acted on at once, at least 1. Those that wait
	// for a hook, up to HookWaits, do not count.
	MaxConcurrent int
	// Overrides are values that win over those of custom resources, with {namespace} and {name} for where these are.
	Overrides map[string]string
	// Allow is what authors of custom resources may ask of controllers that serve others, too.
	Allow object.Allow
	// Secrets is whether releases may have Secrets, and then are recorded in Secrets.
	Secrets bool
	// Tests is whether custom resources may have the tests of their chart run.
	Tests bool
	// Names is how the releases are called.
	Names record.Names
	// Period is the time between two reconciles of a custom resource to which nothing
	// happens, 0 for never.
	Period time.Duration
	// Limits bound the rollout of a new chart version.
	Limits Limits
	// DriftDetection says what is done about objects that others have changed.
	DriftDetection DriftDetection
	// Recreate are the kinds whose objects may be deleted and made anew where a field cannot be changed.
	Recreate object.Kinds
	// Timeout is how long a hook or a test may take.
	Timeout time.Duration
	// Namespaces are those that the operator watches, none for all.
	Namespaces []string
	// WatchDependents is whether a change of a child causes a reconcile.
	WatchDependents bool
	// Changing is called when the operator begins to change a release. retry is whether it has failed before; done is
	// called when the change has ended.
	Changing func(retry bool) (done func())
	// Acted is told of each action on a release: which (Install, Upgrade, Uninstall or
	// DriftCorrection), how long it took, and why it failed.
	Acted func(action string, took time.Duration, err error)
	// Waits is called when an action begins to wait for something (State says for what), or when tests begin. It writes
	// the status, which the library does only at the end of a reconcile.
	Waits func(ctx context.Context, owner *unstructured.Unstructured)
	// RolloutStopped is told when the rollout of a new chart version has stopped, so that custom resources wait
	// for broken ones, and when it goes on.
	RolloutStopped func(stopped bool)
}

// Kind returns the action clients of one kind of custom resources.
func (c *Clients) Kind(o KindOptions) *Kind {
	k := &Kind{
		KindOptions: o,
		clients:     c,
		source:      newChartSource(o.Chart),
		schedule:    &schedule{},
		rollout:     newRollout(o.Limits, o.RolloutStopped),
		slots:       guard.NewSlots(o.MaxConcurrent),
		testPlaces:  pace.NewPlaces(1, maxTests),
		hookPlaces:  pace.NewPlaces(maxHooks, allHooks),
		vanished:    newVanished(),
		turns:       newTurns(),
	}
	if o.WatchDependents {
		k.watches = &watches{kind: k, watched: map[schema.GroupVersionKind]bool{}, refused: map[schema.GroupVersionKind]time.Time{}}
	}
	return k
}

// SetUp ties k to its controller.
func (k *Kind) SetUp(c reconciler.ControllerSetup) error {
	if k.watches != nil {
		k.watches.controller = c
		if err := errors.Join(k.clients.mgr.Add(k.watches), k.clients.mgr.AddReadyzCheck("objects of "+k.GroupVersionKind.GroupKind().String(), k.watches.readiness)); err != nil {
			return fmt.Errorf("watch the objects of %s: %w", k.GroupVersionKind.Kind, err)
		}
	}
	if err := c.Watch(k.schedule.source()); err != nil {
		return err
	}
	return k.watchOwners(c)
}

// State is what is known of the release of owner, the zero value if it was not reconciled since
// the operator started.
func (k *Kind) State(owner client.Object) State {
	state := k.clients.ledger.state(owner.GetUID())
	state.Ignored = k.ignored(owner)
	state.LeavesDrift = k.DriftDetection.Mode != DriftEnabled
	return state
}

// Recorder is the operator that made the newest record of owner's release, as that says: empty if there is
// none, or it does not say.
func (k *Kind) Recorder(ctx context.Context, owner client.Object) (string, error) {
	newest, err := k.store(ctx, owner, record.Options{}).Newest(ctx)
	if newest == nil {
		return "", err
	}
	return newest.Operator, err
}

// Inherit has objects of a manifest that another operator has applied for owner deleted, if they are owner's
// and the chart no longer makes them.
func (k *Kind) Inherit(owner client.Object, manifest string) {
	k.clients.ledger.write(owner.GetUID(), func(n *note) {
		if !slices.Contains(n.inherited, manifest) {
			n.inherited = append(n.inherited, manifest)
		}
	})
}

// Forget drops what is remembered of a custom resource that goes, or that another operator serves.
func (k *Kind) Forget(owner client.Object) {
	k.clients.ledger.forget(owner.GetUID())
	k.LeaveRollout(owner)
}

// LeaveRollout frees the place of a custom resource in the rollout, as when somebody pauses it: nothing would
// tell any more how its upgrade went.
func (k *Kind) LeaveRollout(owner client.Object) { k.wake(k.rollout.leave(owner)) }

// wake reconciles those whose turn in the rollout it is.
func (k *Kind) wake(next []client.ObjectKey) {
	for _, key := range next {
		k.schedule.add(key, 0)
	}
}

// Requeue has owner reconciled after delay, or earlier if something happens to it.
func (k *Kind) Requeue(owner client.Object, delay time.Duration) { k.schedule.after(owner, delay) }

// ActionClientFor returns the action client of one reconcile of owner. It asks the cluster
// nothing, but for records that have to be moved: Helm's machinery is built when something has to be done.
func (k *Kind) ActionClientFor(ctx context.Context, owner client.Object) (helmclient.ActionInterface, error) {
	return k.client(ctx, owner.(*unstructured.Unstructured)) // the library knows no other type
}

func (k *Kind) client(ctx context.Context, owner *unstructured.Unstructured) (*actionClient, error) {
	report := k.clients.reporter(ctx, owner)
	a := &actionClient{Kind: k, ctx: ctx, owner: owner, report: report}
	a.store = k.store(ctx, owner, record.Options{
		Allow:     k.Allow,
		Applied:   a.appliedRevision,
		Children:  a.knownChildren,
		IsApplied: func(manifest string) bool { return a.isApplied(manifest) || a.wasBegun(manifest) },
		Report:    report,
	})
	if owner.GetDeletionTimestamp() != nil {
		var err error
		if a.store, err = a.store.AsRecorded(ctx); err != nil {
			return nil, err
		}
	}
	if !k.Secrets {
		return a, nil
	}
	newest, err := a.store.Newest(ctx)
	if err != nil {
		return nil, err
	}
	a.key = k.clients.ledger.key(owner.GetUID(), newest)
	return a, a.store.Move(ctx, object.Sealed(a.inStatus("digest")), a.key)
}

func (k *Kind) store(ctx context.Context, owner client.Object, o record.Options) *record.Store {
	o.Names, o.Secrets = k.Names, k.Secrets
	return record.NewStore(ctx, k.clients.records, k.clients.cached, k.clients.mapper, owner, o)
}

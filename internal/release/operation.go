package release

import (
	"context"
	"fmt"
	"slices"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// operation is one action on a release: Helm, with a guard and a store that are made for it. Afterwards,
// guard and store tell what was done.
type operation struct {
	*Kind
	plan   guard.Plan
	helm   helmclient.ActionInterface
	guard  *guard.Guard
	store  *record.Store
	config *action.Configuration

	client    *actionClient
	namespace string // of the owner, which may be written while something is awaited
	lookups   *lookups
	looks     bool              // whether a rendering is refused, before hooks run, if one of its objects is somebody else's
	begun     string            // the manifest to apply instead of what the chart renders, empty if there is none
	objects   kube.ResourceList // of what is rendered
	rendered  string            // the last manifest that was allowed
	refused   error             // why the chart's rendering is not allowed
	once      bool              // whether the record is written once, see operationDriver
	asIs      bool              // whether it renders the current revision, and not the next one
	tests     bool              // whether it only runs tests
	unmade    bool              // whether it is an installation that has failed and made nothing
	hooked    bool              // whether it holds one of the places for what waits: for hooks, or until an object is gone
	// beforePurge is called before the first record is deleted.
	beforePurge func() error
}

// prepare runs the steps that come before an action begins. An error of one of them counts as a failure of the
// action.
func (a *actionClient) prepare(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			a.failed(err)
			return err
		}
	}
	return nil
}

// begin waits for a slot and sets up the operation, which may make a revision from the wanted inputs. Its end
// gives the slot to another. leftovers and rehearse are as in guard.Plan.
func (a *actionClient) begin(leftovers []string, rehearse bool) (*operation, error) {
	if err := a.upToDate(); err != nil {
		return nil, err
	}
	if err := a.slots.Take(a.ctx, a.owner.GetNamespace()); err != nil {
		return nil, err
	}
	unowned, begins := a.unowned(), a.begins()
	op := &operation{
		Kind: a.Kind, client: a, namespace: a.owner.GetNamespace(), beforePurge: nothing,
		lookups: &lookups{owner: a.owner, unowned: unowned, secrets: a.Secrets, begins: begins, adopts: a.Allow.Adopt},
	}
	op.plan = guard.Plan{
		Applied:    a.isApplied,
		Key:        a.key,
		Intact:     slices.Concat(a.expired(), a.untouched(), a.resting),
		Leftovers:  leftovers,
		Rehearse:   rehearse,
		Unowned:    unowned,
		Allow:      a.Allow,
		Begins:     begins,
		MayInherit: a.mayInherit,
		Revision:   a.appliedRevision(),
		Ignored:    a.DriftDetection.Ignored,
		Scaled:     slices.DeleteFunc(slices.Clone(a.knownChildren()), func(child object.Child) bool { return !child.Scaled }),
		Scalable:   a.scalable,
		Recreate:   a.Recreate,
		Recreated:  func(message string) { a.tell(Recreated, "%s", message) },
		Wait:       op.placeForHooks,
		IsDeleted:  a.isDeleted,
		Abandon:    op.abandon,
		Waiting:    op.waits,
		Report:     a.report,
		Versions:   a.clients.capabilities.versions,
	}
	op.store = a.store.Stamping(op.stamp)
	var err error
	if op.helm, err = a.clients.library.ActionClientFor(context.WithValue(a.ctx, operationKey{}, op), a.owner); err != nil {
		op.end()
		return nil, err
	}
	return op, nil
}

// leftovers are manifests of objects that may exist besides those that the newest record names: what another
// operator has applied and, if the record is lost, not proven or of an action that did not complete, the objects
// that the owner is known to have and those of unfinished releases.
func (a *actionClient) leftovers() (left []string, err error) {
	// Objects of kinds that the cluster no longer serves are dropped, or nothing could be deleted.
	name := func(manifest string) error {
		named, err := a.store.Named(manifest)
		if named != "" {
			left = append(left, named)
		}
		return err
	}
	for _, manifest := range a.remembered().inherited {
		if err := name(manifest); err != nil {
			return nil, fmt.Errorf("read what another operator has applied: %w", err)
		}
	}
	if a.current != nil && a.proven && a.current.Status == release.StatusDeployed || a.current == nil && a.appliedDigest() == "" {
		return left, nil
	}
	if err := name(object.BareManifest(a.knownChildren())); err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	owned, err := a.owned()
	if err != nil {
		return nil, err
	}
	if len(owned) > 0 {
		left = append(left, object.BareManifest(owned))
	}
	if a.current == nil || a.current.Status == release.StatusDeployed {
		return left, nil
	}
	unfinished, err := a.store.Unfinished(a.ctx)
	return append(left, unfinished...), err
}

// owned are the objects, without release records, that the cache shows to be the owner's, as far as their kinds
// are watched.
func (a *actionClient) owned() ([]object.Child, error) {
	if a.watches == nil {
		return nil, nil
	}
	owned, err := a.watches.owned(a.ctx, a.owner, a.unowned())
	return slices.DeleteFunc(owned, record.Is), err
}

// upToDate fails if the cache shows less of the custom resource than the newest record knows: it was made from a later
// generation, or completed by an earlier leader, and the status that proves it has not come yet. A leader that has just
// started may read from an API server that is behind: to go on would undo what was edited since, or run the hooks of
// an upgrade twice. A record can be forged, so the API server is asked, which costs a request only in these cases.
func (a *actionClient) upToDate() error {
	if a.current == nil || a.owner.GetDeletionTimestamp() != nil {
		return nil // a deletion brings nothing back
	}
	generation := a.owner.GetGeneration()
	isLater := a.current.Generation > generation
	isUnproven := a.current.Generation == generation && a.current.Status == release.StatusDeployed && !a.proven && a.state().Record == ""
	if !isLater && !isUnproven {
		return nil
	}
	live, err := a.live()
	switch {
	case err != nil:
		return err
	case isLater && live.GetGeneration() != generation:
		return fmt.Errorf("the cache is behind: it has generation %d of the custom resource, and release record %s was made from generation %d",
			generation, a.current.Name, a.current.Generation)
	case isUnproven && textInStatus(live, "release", "record") != a.inStatus("record"):
		return fmt.Errorf("the cache is behind: it does not have the status of the custom resource yet that release record %s was completed with", a.current.Name)
	}
	return nil
}

// isDeleted is whether the cache shows that the custom resource was deleted since this reconcile began or, where
// this is its deletion, that another one has its name: somebody has taken its finalizer off. Without another one,
// the deletion goes on, for nobody else deletes what is cluster-scoped.
func (a *actionClient) isDeleted() bool {
	now := object.Empty(a.GroupVersionKind)
	err := a.clients.cached.Get(a.ctx, client.ObjectKeyFromObject(a.owner), now, client.UnsafeDisableDeepCopy)
	isAnother := err == nil && now.GetUID() != a.owner.GetUID()
	if a.owner.GetDeletionTimestamp() != nil {
		return isAnother
	}
	return isAnother || apierrors.IsNotFound(err) || err == nil && now.GetDeletionTimestamp() != nil
}

// abandon keeps the place of a hook that is no longer awaited until it has ended: Helm goes on waiting in a
// goroutine, and one namespace must not have ever more of these.
func (op *operation) abandon(ended <-chan error) {
	if !op.hooked {
		return
	}
	op.hooked = false
	go func() {
		err := <-ended
		op.hookPlaces.Give(op.namespace)
		logf.Log.V(1).Info("What nobody waited for any longer has ended", "namespace", op.namespace, "as", fmt.Sprint(err))
	}()
}

func (op *operation) end() {
	op.slots.Give(op.namespace)
	if op.hooked {
		op.hookPlaces.Give(op.namespace)
	}
}

// placeForHooks takes a place, and fails if too many others wait for hooks already.
func (op *operation) placeForHooks() error {
	if op.hooked {
		return nil
	}
	if op.hooked = op.hookPlaces.Take(op.namespace); op.hooked {
		return nil
	}
	return noPlace{fmt.Errorf("not begun: at most %d custom resources in a namespace, and %d in all, may wait for hooks at once. It begins by itself when one of them is done", maxHooks, allHooks)}
}

// waits has the status say what the action is waiting for. Tests do not show there.
func (op *operation) waits(awaited guard.Awaited) {
	if op.tests {
		return
	}
	op.client.remember(func(n *note) {
		n.state.Waits, n.state.HookPods, n.state.HookHasNoPods = awaited.What, awaited.Pods, awaited.HasNoPods
	})
	if awaited.What != "" {
		op.Waits(op.client.ctx, op.client.owner)
	}
}

// noPlace is an error for want of a place: nothing is begun, and nothing broken.
type noPlace struct{ error }

// stamp is the metadata of the record of the revision that the operation makes.
func (op *operation) stamp() record.Record {
	a := op.client
	a.surroundings.Lookups = op.lookups.digest()
	capabilities := a.surroundings.Capabilities
	if op.begun != "" { // which was rendered with other capabilities, perhaps: the next reconcile compares
		capabilities = a.current.Capabilities
	}
	return record.Record{
		Inputs:       a.wanted,
		MadeFrom:     a.madeFrom(),
		Capabilities: capabilities,
		Lookups:      a.surroundings.Lookups,
		Operator:     a.clients.operator,
		Generation:   a.owner.GetGeneration(),
		Key:          a.key,
		Unmade:       op.unmade,
	}
}

type operationKey struct{}

// operationFrom returns the operation that was handed through the library in ctx.
func operationFrom(ctx context.Context) *operation { return ctx.Value(operationKey{}).(*operation) }

// guardedConfigs puts the cached capabilities and the guard into every action configuration.
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
	op := operationFrom(ctx)
	op.guard = guard.New(ctx, helm, owner, op.slots, op.plan)
	config.Capabilities = op.clients.capabilities.get()
	config.KubeClient = op.guard
	config.RESTClientGetter = notingGetter{config.RESTClientGetter, op.lookups}
	op.config = config
	return config, nil
}

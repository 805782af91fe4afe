package release

import (
	"errors"
	"fmt"
	"slices"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// Upgrade as a dry run says whether an upgrade is needed: if so, the release that it returns has another
// manifest than that of Get. Otherwise it upgrades.
func (a *actionClient) Upgrade(name, namespace string, _ *chart.Chart, values map[string]any, opts ...helmclient.UpgradeOption) (made *release.Release, err error) {
	defer a.ended(&err)
	probe := action.NewUpgrade(&action.Configuration{})
	for _, opt := range opts {
		if err := opt(probe); err != nil {
			return nil, err
		}
	}
	if !probe.DryRun {
		return a.upgrade(name, namespace, opts)
	}
	if err := a.want(values); err != nil {
		return nil, err
	}
	due, err := a.isDue(opts)
	if err != nil {
		return nil, err
	}
	rel := a.bareRelease()
	if due {
		rel.Manifest = "outdated"
	}
	return rel, nil
}

// isDue is whether the release is to be upgraded now: it is not what is wanted, and nothing puts the upgrade
// off.
func (a *actionClient) isDue(opts []helmclient.UpgradeOption) (bool, error) {
	a.brake = a.braked()
	seen := a.observe()
	// Held back or not, the reconciler has to take the same branch, that of the last attempt: else the
	// conditions would change between two attempts.
	seen.failed = ""
	verdict := decide(seen)
	if verdict == needsRender && a.held == nil {
		same, err := a.rendersSame(opts)
		if err != nil || same {
			return false, err
		}
		verdict, a.brake = needsUpgrade, a.braked()
	}
	if verdict != needsUpgrade {
		return false, nil
	}
	var err error
	switch {
	case a.held != nil:
	case a.brake != "":
		a.waitFor = a.brake
	case a.unsettled() && a.current.Status == release.StatusDeployed && a.appliedGeneration() == a.owner.GetGeneration():
		a.waitFor = "an API of the cluster does not answer, and the chart asks which there are"
	default:
		a.waitFor, err = a.admit()
	}
	return a.waitFor == "" && err == nil, err
}

// rendersSame is whether the chart still renders what is released. As long as that cannot be told, the answer
// is yes for a release that is known to be made from the wanted inputs.
func (a *actionClient) rendersSame(opts []helmclient.UpgradeOption) (bool, error) {
	if err := a.watch(a.provenChildren()); err != nil { // after a start, nothing is known of them before
		return false, err
	}
	if a.isLookedUp() {
		// Repaired no more often than any drift: this may happen at every reconcile.
		if err := a.prepare(func() error { return unlessInTheWay(a.correct()) }); err != nil {
			return false, err
		}
		if len(a.resting) > 0 { // the chart would look up what others have made of it
			return true, nil
		}
	}
	same, err := a.compare(opts)
	if err == nil {
		return same, nil
	}
	if a.isOfWanted() && !errors.As(err, &notAllowed{}) && !errors.As(err, &noPlace{}) {
		a.again(lastRetry) // no event tells when it can be rendered again
		a.renderErr = err
		return true, nil
	}
	a.schedule.after(a.owner, lastRetry)
	return false, err
}

// admit holds back the upgrade of a custom resource that nobody has edited while enough others are being
// upgraded: a new chart or image makes all of them outdated at once.
func (a *actionClient) admit() (waitFor string, err error) {
	refused := errors.As(a.failure().err, &notAllowed{}) // waiting would not change that
	if edited := a.appliedGeneration() != a.owner.GetGeneration(); edited || refused {
		a.wake(a.rollout.edited(a.owner))
		return "", nil
	}
	if a.current.Status != release.StatusDeployed {
		return "", nil
	}
	if err := a.watch(a.provenChildren()); err != nil {
		return "", err
	}
	return a.rollout.admit(a.owner, a.health() == healthy), nil
}

func (a *actionClient) upgrade(name, namespace string, opts []helmclient.UpgradeOption) (*release.Release, error) {
	if a.held != nil {
		return nil, a.heldBack()
	}
	if err := a.prepare(a.tryWanted, a.repairWhatIsLookedUp); err != nil {
		return nil, err
	}
	op, err := a.beginUpgrade(opts)
	if err != nil {
		return nil, err
	}
	defer op.end()
	wasRolledBack := a.remembered().rolledBack
	done := func() {}
	defer func() { done() }()
	change := func() {
		a.remember(func(n *note) { n.rolledBack = false })
		done = a.Changing(a.retries())
	}
	if op.plan.Rehearse {
		op.guard.Rehearsed = change
	} else {
		change()
	}
	start := time.Now()
	rel, err := op.helm.Upgrade(name, namespace, a.chart, a.values, append(opts, a.asUpgrade(), func(u *action.Upgrade) error {
		u.PostRenderer = op
		u.SkipSchemaValidation = a.source.accepts(a.coalesced)
		return nil
	})...)
	// Helm fails so when only the records could not be updated. recover does that later.
	if err != nil && rel != nil && rel.Info.Status == release.StatusDeployed {
		logf.FromContext(a.ctx).Error(err, "The upgrade is done, but its records do not say so yet", "revision", rel.Version)
		a.schedule.after(a.owner, firstRetry)
		a.Acted(Upgrade, time.Since(start), nil)
		return a.conclude(op, Upgraded, rel, nil)
	}
	// What an attempt before this one has changed may stand, too: after a start, nothing is known of it.
	changed := op.guard.Changed || op.plan.Rehearse && !wasRolledBack
	stops := op.guard.Abandoned || a.ctx.Err() != nil // the deletion, or the next operator, goes on from here
	if err != nil && rel != nil && changed && !stops {
		why := a.rollBack(op, rel)
		a.remember(func(n *note) { n.rolledBack = why == nil })
		err = errors.Join(err, why)
	}
	if op.store.HasCreated() {
		err = errors.Join(err, a.dropFailedTwin())
	}
	a.Acted(Upgrade, time.Since(start), err)
	return a.conclude(op, Upgraded, rel, err)
}

// beginUpgrade sets up the operation of an upgrade.
func (a *actionClient) beginUpgrade(opts []helmclient.UpgradeOption) (*operation, error) {
	left, err := a.leftovers()
	if err != nil {
		return nil, err
	}
	begun, err := a.begun(opts)
	if err != nil {
		return nil, err
	}
	op, err := a.begin(left, a.rehearses())
	if err != nil {
		return nil, err
	}
	op.begun, op.guard.Unasked = begun, true
	op.looks = a.source.hooks(a.coalesced) // they would run, at each attempt, for an upgrade that is refused
	// A hook may make room for the objects that come after it.
	failed := a.failure().err
	op.guard.RehearsesFirst = op.plan.Rehearse && failed != nil && !guard.IsOfAHook(failed)
	return op, nil
}

// rehearses is whether the API server is first asked, by dry runs, if it would take what has failed before.
// Each tenth attempt is a real one, since the API server may take an object only once another one is there,
// which a rehearsal does not create, or which only a hook does. That cannot be the reason where an object
// cannot be changed and there are no hooks. After a start, nothing is known of the failure, and the attempt is
// rehearsed.
func (a *actionClient) rehearses() bool {
	failed := a.failure()
	isReal := failed.count > 0 && failed.count%10 == 0 && (len(guard.Blocking(failed.err)) == 0 || a.source.hooks(a.coalesced))
	return a.current.Status == release.StatusFailed && a.current.Inputs == a.wanted && !isReal && !a.interrupted
}

// repairWhatIsLookedUp repairs the drift of objects before the chart is rendered, if the chart looks some up:
// it takes what it finds in its own Secrets and ConfigMaps for what it made itself.
func (a *actionClient) repairWhatIsLookedUp() error {
	if !a.isLookedUp() {
		return nil
	}
	a.resting = nil
	_, err := a.repair()
	if errors.As(err, &notAllowed{}) {
		return nil // what is there may not come back, and what is wanted now is judged by itself
	}
	return unlessInTheWay(err)
}

// unlessInTheWay is the error of a repair, nil if it has only failed at objects that are in the way or whose
// kinds are gone: the upgrade may do without these.
func unlessInTheWay(err error) error {
	if object.Each(err, func(one error) bool { return object.IsInTheWay(one) || guard.IsUnknown(one) }) {
		return nil
	}
	return err
}

// isLookedUp is whether the chart looks up objects while one of the release, perhaps one of those, has drifted
// and is to be repaired.
func (a *actionClient) isLookedUp() bool {
	return a.asks.objects && a.DriftDetection.Mode == DriftEnabled && a.current.Status == release.StatusDeployed && a.proven &&
		(a.current.Children == nil || slices.ContainsFunc(a.current.Children, func(child object.Child) bool { return !a.intact(child) }))
}

// dropFailedTwin removes the record of the last failed attempt with the same inputs, so that a permanent
// failure has one revision and not thousands. The only revision stays, since upgrades need one. It is removed
// only once there is a new record: an operator killed in between would know nothing of the objects that the
// failed attempt has created, and they would stay for ever.
func (a *actionClient) dropFailedTwin() error {
	if a.current.Status != release.StatusFailed || a.current.Inputs != a.wanted || a.current.Revision == 1 {
		return nil
	}
	if _, err := a.store.Releases().Delete(a.owner.GetName(), a.current.Revision); err != nil {
		return fmt.Errorf("remove the record of the failed attempt %s: %w", a.current.Name, err)
	}
	return nil
}

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

// Upgrade as a dry run says whether an upgrade is needed: the release that it returns has
// another manifest than the one of Get. Otherwise it upgrades.
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
	rel := a.light()
	if due {
		rel.Manifest = "outdated"
	}
	return rel, nil
}

// isDue is whether the release is to be upgraded now: it is not what is wanted, and nothing has it wait.
func (a *actionClient) isDue(opts []helmclient.UpgradeOption) (bool, error) {
	a.brake = a.braked()
	seen := a.observe()
	// Where it is held, the reconciler goes the way of the last attempt, to the same failure: were it to end here, the conditions would say something else between
	// two attempts.
	seen.failed = ""
	verdict := decide(seen)
	if verdict == needsRender && a.held == nil {
		same, err := a.isSame(opts)
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

// isSame is whether the chart still makes what is released. So it passes for as long as that can't be told, if it is known to be of what is wanted.
func (a *actionClient) isSame(opts []helmclient.UpgradeOption) (bool, error) {
	if err := a.watch(a.provenChildren()); err != nil { // or nothing is known of them after a start
		return false, err
	}
	if a.isLookedUp() {
		if err := a.prepare(func() error { return unlessInTheWay(a.correct()) }); err != nil { // by the rules of a drift: this may be every reconcile
			return false, err
		}
		if len(a.resting) > 0 { // what others have made of it would be looked up
			return true, nil
		}
	}
	same, err := a.compare(opts)
	if err == nil {
		return same, nil
	}
	if a.isOfWanted() && !errors.As(err, &notAllowed{}) && !errors.As(err, &noPlace{}) {
		a.again(lastRetry) // nobody tells when it can be rendered again
		a.unrendered = err
		return true, nil
	}
	a.schedule.after(a.owner, lastRetry)
	return false, err
}

// admit holds a release back that nobody has edited, while enough others are on their way: a new
// chart or image makes all of them outdated at once.
func (a *actionClient) admit() (waitFor string, err error) {
	refused := errors.As(a.failure().err, &notAllowed{}) // which does not change by waiting
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
	left, err := a.left()
	if err != nil {
		return nil, err
	}
	failed, hooks := a.failure(), a.source.hooks(a.whole)
	rehearse := a.rehearses(failed, hooks)
	begun, err := a.begun(opts)
	if err != nil {
		return nil, err
	}
	op, err := a.begin(left, rehearse)
	if err != nil {
		return nil, err
	}
	defer op.end()
	op.begun = begun
	done := func() {}
	rolledBack := a.remembered().rolledBack
	change := func() {
		a.remember(func(n *note) { n.rolledBack = false })
		done = a.Changing(a.retries())
	}
	if rehearse {
		op.guard.Rehearsed = change
	} else {
		change()
	}
	defer func() { done() }()
	op.guard.Unasked, op.looks = true, hooks                                                // or they would have run, and run again, for an upgrade that is refused
	op.guard.RehearsesFirst = rehearse && failed.err != nil && !guard.IsOfAHook(failed.err) // a hook may make way for what it comes before
	start := time.Now()
	rel, err := op.helm.Upgrade(name, namespace, a.chart, a.values, append(opts, a.asUpgrade(), func(u *action.Upgrade) error {
		u.PostRenderer = op
		u.SkipSchemaValidation = a.source.accepts(a.whole)
		return nil
	})...)
	if err != nil && rel != nil && rel.Info.Status == release.StatusDeployed { // Helm says so when all is done but its records, which recover brings to their end
		logf.FromContext(a.ctx).Error(err, "The upgrade is done, but its records do not say so yet", "revision", rel.Version)
		a.schedule.after(a.owner, retryDelay(1, lastRetry))
		a.Acted(Upgrade, time.Since(start), nil)
		return a.conclude(op, Upgraded, rel, nil)
	}
	isLeft := op.guard.Changed || rehearse && !rolledBack                                // of an attempt that was interrupted, perhaps, after which an operator that is started knows of none
	if err != nil && rel != nil && isLeft && !op.guard.Abandoned && a.ctx.Err() == nil { // else this operator stops in the middle of it, and the next one goes on
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

// rehearses is whether the API server is asked first if it would take the same that has failed before, but at each tenth attempt: it may take an object only once another one is there,
// which a rehearsal does not make, or which a hook makes. Where an object cannot be changed and there are no hooks, that can't be why. After a start, nothing is known of the failure.
func (a *actionClient) rehearses(failed failure, hooks bool) bool {
	isReal := failed.count > 0 && failed.count%10 == 0 && (hooks || unchangeable(failed.err) == nil)
	return a.current.Status == release.StatusFailed && a.current.Inputs == a.wanted && !isReal && !a.interrupted
}

// repairWhatIsLookedUp puts the objects back to what was applied, if the chart looks some up and drift is to be repaired: a chart takes what
// it finds in its own Secrets and ConfigMaps for what it has made.
func (a *actionClient) repairWhatIsLookedUp() error {
	if !a.isLookedUp() {
		return nil
	}
	a.resting = nil
	_, err := a.repair()
	return unlessInTheWay(err)
}

// unlessInTheWay is why objects could not be put back, nil if only others are in their places, or their kinds are gone: what is wanted by now may do without.
func unlessInTheWay(err error) error {
	if object.Each(err, func(one error) bool { return object.IsInTheWay(one) || guard.IsUnknown(one) }) {
		return nil
	}
	return err
}

// isLookedUp is whether the chart looks up objects, and one of the release, which may be that, has drifted and is to be put back.
func (a *actionClient) isLookedUp() bool {
	return a.asks.objects && a.DriftDetection.Mode == DriftEnabled && a.current.Status == release.StatusDeployed && a.proven &&
		(a.current.Children == nil || slices.ContainsFunc(a.current.Children, func(child object.Child) bool { return !a.intact(child) }))
}

// dropFailedTwin removes the record of the same inputs' last failure, so that a permanent
// failure has one revision and not thousands. The only revision stays: upgrades need one. It is
// removed after there is a new one: in between, nothing would tell of the objects that the failed
// attempt has made, and should the operator be killed then, they would stay for ever.
func (a *actionClient) dropFailedTwin() error {
	if a.current.Status != release.StatusFailed || a.current.Inputs != a.wanted || a.current.Revision == 1 {
		return nil
	}
	if _, err := a.store.Releases().Delete(a.owner.GetName(), a.current.Revision); err != nil {
		return fmt.Errorf("remove the record of the failed attempt %s: %w", a.current.Name, err)
	}
	return nil
}

package release

import (
	"errors"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
)

// compare renders the chart and says whether that is what the newest record holds. If so, the record is to say that it holds for these inputs
// and surroundings, too.
func (a *actionClient) compare(opts []helmclient.UpgradeOption) (same bool, err error) {
	err = a.tryWanted()
	if errors.As(err, &noPlace{}) && a.request == "" && a.current.Status == release.StatusDeployed && a.isOfWanted() {
		a.schedule.after(a.owner, lastRetry) // what is released runs, and is looked at when there is a place
		return true, nil
	}
	if err != nil {
		a.failed(err)
		return false, err
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	rendered, err := a.rerender(op, opts...)
	if err == nil && a.isAlike() {
		err = op.judgeHooks(rendered.Hooks)
	}
	if op.refused != nil && a.isAlike() { // as its upgrade is, which tells of it
		a.remember(func(n *note) { n.outdated = a.outdated() })
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a.surroundings.Lookups = op.lookups.digest()
	a.noticed(op)
	if a.isOfWanted() && a.current.Capabilities == a.surroundings.Capabilities && a.current.Lookups == a.surroundings.Lookups {
		return true, nil
	}
	recorded, err := a.recorded()
	if err != nil {
		return false, err
	}
	begun := a.hasBegun(recorded.Manifest) // and, as it is recorded as deployed, its hooks have run
	same = rendered.Manifest == recorded.Manifest || begun && a.asks == (questions{})
	if !same && (begun || a.isApplied(recorded.Manifest)) {
		if a.source.timed { // within a second, the time passes for what the chart wants
			if err := nextSecond(a.ctx); err != nil {
				return false, err
			}
		}
		again, err := a.rerender(op, opts...)
		if err != nil {
			return false, err
		}
		same = sameButChance(recorded.Manifest, rendered.Manifest, again.Manifest)
	}
	if !same {
		a.remember(func(n *note) { n.outdated = a.outdated() })
		return false, nil
	}
	a.manifestProof = a.key.Proof(recorded.Manifest)
	a.current.Inputs, a.current.MadeFrom, a.current.Capabilities, a.current.Lookups = a.wanted, a.madeFrom(), a.surroundings.Capabilities, a.surroundings.Lookups
	return true, nil
}

// isOfWanted is whether the record is known to be of what is wanted still.
func (a *actionClient) isOfWanted() bool { return a.inputsProven && a.current.Inputs == a.wanted }

// noticed remembers what a rendering has found in the cluster.
func (a *actionClient) noticed(op *operation) {
	if a.asks == (questions{}) {
		return
	}
	now, churn := time.Now(), a.churn()
	churn.looked = now
	churn.notice(now, a.surroundings, op.lookups.all())
}

// rerender returns what the release would be now, as the revision that it is: what follows from the number, or from having been installed, is no reason for another one.
func (a *actionClient) rerender(op *operation, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	op.asIs = true
	defer func() { op.asIs = false }()
	return a.render(op, opts...)
}

// render returns what an upgrade would apply now.
func (a *actionClient) render(op *operation, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	op.guard.Unasked = true
	var rel *release.Release
	var err error
	if op.asIs && a.current.Revision == 1 {
		rel, err = a.renderInstall(op)
	} else {
		rel, err = op.helm.Upgrade(a.owner.GetName(), a.owner.GetNamespace(), a.chart, a.values, append(opts, func(u *action.Upgrade) error {
			u.DryRun, u.DryRunOption, u.PostRenderer = true, "server", op
			u.SkipSchemaValidation = a.source.accepts(a.coalesced)
			return nil
		})...)
	}
	return rel, a.told(err)
}

// renderInstall returns what an installation would apply now. The library would take a failed one back for real, dry or not.
func (a *actionClient) renderInstall(op *operation) (*release.Release, error) {
	install := action.NewInstall(op.config)
	install.ReleaseName, install.Namespace = a.owner.GetName(), a.owner.GetNamespace()
	install.DryRun, install.DryRunOption, install.PostRenderer = true, "server", op
	install.SkipCRDs, install.DisableOpenAPIValidation, install.TakeOwnership = true, true, true
	install.SkipSchemaValidation = a.source.accepts(a.coalesced)
	return install.RunWithContext(a.ctx, a.chart, a.values)
}

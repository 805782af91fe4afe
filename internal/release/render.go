package release

import (
	"errors"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
)

// compare renders the chart and says whether that is what the newest record holds. If so, the record is to be
// of these inputs and surroundings from now on.
func (a *actionClient) compare(opts []helmclient.UpgradeOption) (same bool, err error) {
	err = a.tryWanted()
	if errors.As(err, &noPlace{}) && a.request == "" && a.current.Status == release.StatusDeployed && a.isOfWanted() {
		a.schedule.after(a.owner, lastRetry) // what is released runs on, and is compared once there is a place
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
	if op.refused != nil && a.isAlike() { // the upgrade will be refused as well, and reports it
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
	begun := a.hasBegun(recorded.Manifest) // being recorded as deployed, its hooks have run
	same = rendered.Manifest == recorded.Manifest || begun && a.asks == (questions{})
	if !same && (begun || a.isApplied(recorded.Manifest)) {
		if a.source.timed { // two renderings within one second have the same time, which would not show as chance
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

// noticed notes for the brake what a rendering has found in the cluster.
func (a *actionClient) noticed(op *operation) {
	if a.asks == (questions{}) {
		return
	}
	now, churn := time.Now(), a.churn()
	churn.looked = now
	churn.notice(now, a.surroundings, op.lookups.all())
}

// rerender renders the current revision anew: what only follows from another number, or from being an upgrade,
// is no reason to upgrade.
func (a *actionClient) rerender(op *operation, opts ...helmclient.UpgradeOption) (*release.Release, error) {
	op.asIs = true
	defer func() { op.asIs = false }()
	return a.render(op, opts...)
}

// render is a dry run of an upgrade or, for revision 1 as it is, of an installation.
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

// renderInstall is a dry run of an installation. The library's would uninstall for real if it failed.
func (a *actionClient) renderInstall(op *operation) (*release.Release, error) {
	install := action.NewInstall(op.config)
	install.ReleaseName, install.Namespace = a.owner.GetName(), a.owner.GetNamespace()
	install.DryRun, install.DryRunOption, install.PostRenderer = true, "server", op
	install.SkipCRDs, install.DisableOpenAPIValidation, install.TakeOwnership = true, true, true
	install.SkipSchemaValidation = a.source.accepts(a.coalesced)
	return install.RunWithContext(a.ctx, a.chart, a.values)
}

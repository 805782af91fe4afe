package release

import (
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
)

// Install makes a release where there is none.
func (a *actionClient) Install(name, namespace string, _ *chart.Chart, values map[string]any, opts ...helmclient.InstallOption) (made *release.Release, err error) {
	defer a.ended(&err)
	if err := a.want(values); err != nil {
		return nil, err
	}
	if a.held != nil {
		return nil, a.held
	}
	if err := a.prepare(a.checkRecords, a.checkLost, a.tryWanted); err != nil {
		return nil, err
	}
	left, err := a.leftovers()
	if err != nil {
		return nil, err
	}
	if err := a.store.RemoveLeft(a.ctx, a.mayInherit); err != nil {
		return nil, err
	}
	op, err := a.begin(left, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	defer a.Changing(a.retries())()
	// Objects are created without a look first, unless some are likely to exist, or hooks would have run before
	// one is found in the way.
	op.guard.Unasked = !a.retries() && a.appliedDigest() == "" && len(left) == 0 && !a.source.hooks(a.coalesced)
	// Not where objects may be taken over: if the installation is interrupted, a record that has said too early
	// that it succeeded would have them deleted.
	op.once = op.guard.Unasked && a.asks == (questions{}) && !a.source.chances(a.coalesced) && !a.Allow.Adopt
	// Else hooks would run, at each attempt, for what cannot be made.
	op.looks = a.source.hooks(a.coalesced) || a.Allow.Adopt && !op.guard.Unasked
	if a.lost() && a.source.hooks(a.coalesced) {
		a.warn(HooksSkipped, "The records of the release are gone, whose hooks have run: it is made anew without them")
	}
	start := time.Now()
	rel, err := op.helm.Install(name, namespace, a.chart, a.values, append(opts, a.asInstall(), a.installing(op))...)
	if err != nil && rel == nil && op.refused == nil && op.rendered != "" {
		op.refused = op.guard.Judge(op.rendered) // if an object is in the way, in words that say what to do
	}
	a.Acted(Install, time.Since(start), err)
	return a.conclude(op, Installed, rel, err)
}

func (a *actionClient) installing(op *operation) helmclient.InstallOption {
	return func(install *action.Install) error {
		// Helm refuses objects that exist without its annotations. If only the records were lost, they are the
		// owner's; or they may be given to the owner. The guard judges that.
		install.TakeOwnership = a.appliedDigest() != "" || a.Allow.Adopt
		install.PostRenderer = op
		install.SkipSchemaValidation = a.source.accepts(a.coalesced)
		return nil
	}
}

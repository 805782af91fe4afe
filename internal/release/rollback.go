package release

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// rollBack puts the objects back as the last good revision has them. It writes no record: that revision is
// still recorded as deployed, and the failed one as failed, so that the next attempt starts from the right
// place and revisions do not pile up. The hooks of the rollback are those of the failed revision, which was
// rendered a moment ago.
func (a *actionClient) rollBack(op *operation, failed *release.Release) error {
	previous, err := a.store.Releases().Deployed(a.owner.GetName())
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return nil // there is nothing good to go back to
	}
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if !a.isApplied(previous.Manifest) {
		logf.FromContext(a.ctx).Info("Not rolling back: the record of the last good revision is not what was applied", "revision", previous.Version)
		return nil
	}
	refused := op.refused // else that of the former revision would be told as why this one has failed
	err = op.judge(previous.Manifest)
	op.refused = refused
	if errors.As(err, &notAllowed{}) {
		logf.FromContext(a.ctx).Info("Not rolling back: the platform no longer allows the last good revision", "revision", previous.Version, "reason", err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	hooks := failed.Hooks
	if a.skipsHooks() { // and has no place to wait for them
		hooks = nil
	}
	if err := op.runHooks(hooks, release.HookPreRollback); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	op.guard.Unchangeable = append(op.guard.Unchangeable, a.away(op.guard.Unchangeable)...)
	// Else the next attempt is only rehearsed, and may replace no pods.
	a.rolledOut = op.plan.Rehearse && op.guard.Changed
	if err := op.guard.RollBack(failed.Manifest, previous.Manifest); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if err := op.runHooks(hooks, release.HookPostRollback); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	logf.FromContext(a.ctx).Info("Rolled back a failed upgrade", "revision", previous.Version)
	return nil
}

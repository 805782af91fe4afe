package release

import (
	"errors"
	"fmt"
	"slices"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Uninstall deletes the release with its objects and its history.
func (a *actionClient) Uninstall(name string, opts ...helmclient.UninstallOption) (response *release.UninstallReleaseResponse, err error) {
	defer a.ended(&err)
	a.LeaveRollout(a.owner) // whether that succeeds or not
	if a.getErr != nil {    // the library ignores an error of Get
		a.failed(a.getErr)
		return nil, a.getErr
	}
	if a.lost() && !a.isOrphaned() { // else its hooks would not be run
		if err := a.store.CheckGone(a.ctx, a.appliedRevision()); err != nil {
			a.failed(err)
			return nil, err
		}
	}
	if a.current == nil || a.isOrphaned() {
		return nil, a.letGo(nil)
	}
	if failed := a.failure(); failed.inputs == a.deleteHookInputs() && time.Now().Before(failed.until) {
		return nil, a.hold(failed)
	}
	hasHooks, err := a.tryDeleteHooks()
	if err != nil {
		a.wanted = a.deleteHookInputs()
		a.failed(err)
		return nil, err
	}
	left, err := a.leftovers()
	if err != nil {
		a.failed(err)
		return nil, err
	}
	op, err := a.begin(left, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	defer a.Changing(a.retries())()
	start := time.Now()
	if hasHooks {
		err = a.hooksBefore(op)
	}
	if err == nil {
		err = op.guard.DeleteLeftovers()
	}
	if err == nil {
		response, err = a.uninstall(op, name, opts)
	}
	if errors.Is(err, driver.ErrReleaseNotFound) { // orphaned, which the cache does not show yet
		return nil, a.letGo(op)
	}
	a.Acted(Uninstall, time.Since(start), err)
	if err != nil {
		err = withoutStack(err)
		a.failed(err)
		return nil, err
	}
	children := a.toTell()
	a.Forget(a.owner)
	a.tell(Uninstalled, "%s", deleted(children, op.guard.Kept))
	response.Release = a.bareRelease() // the reconciler logs the manifest, if it logs much
	return response, nil
}

// hooksBefore runs the pre-delete hooks, unless they have run, and sets up the post-delete hooks to run before
// the first record is deleted.
func (a *actionClient) hooksBefore(op *operation) error {
	recorded, err := a.recorded() // the cache may not show yet which have run
	if err != nil || recorded.Info.Status == release.StatusUninstalled {
		return err
	}
	hooks, err := a.deleteHooks(op)
	if err == nil && len(hooks) > 0 {
		err = op.placeForHooks()
	}
	if err != nil {
		a.wanted = a.deleteHookInputs()
		return err
	}
	if len(hooks) == 0 {
		return nil
	}
	op.beforePurge = func() error {
		if err := a.runDeleteHooks(op, hooks, release.HookPostDelete); err != nil {
			return err
		}
		return a.haveRun(release.StatusUninstalled, "Its hooks after the deletion have run")
	}
	if recorded.Info.Status == release.StatusUninstalling {
		return nil
	}
	if err := a.runDeleteHooks(op, hooks, release.HookPreDelete); err != nil {
		return err
	}
	return a.haveRun(release.StatusUninstalling, "Its hooks before the deletion have run")
}

// haveRun notes in the record that hooks of the deletion have run, lest they run again where the deletion is
// interrupted or refused. A record that cannot be written does not hold up the deletion.
func (a *actionClient) haveRun(status release.Status, description string) error {
	rel, err := a.recorded()
	if err != nil {
		return err
	}
	rel.SetStatus(status, description)
	if err := a.store.Releases().Update(rel); err != nil {
		logf.FromContext(a.ctx).Error(err, "The release record does not say that hooks of the deletion have run", "record", a.current.Name, "status", status)
		return nil
	}
	a.current.Status = status
	return nil
}

// uninstall deletes the release by Helm's action, which does not pass to the guard the objects that the
// manifest keeps.
func (a *actionClient) uninstall(op *operation, name string, opts []helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	recorded, err := a.recorded()
	if err != nil {
		return nil, err
	}
	// Somebody has edited it: cluster-scoped objects that it no longer names, or calls kept, would stay.
	if !a.isApplied(recorded.Manifest) {
		if err := a.deleteUnowned(op); err != nil {
			return nil, err
		}
	}
	if err := op.guard.Keep(recorded.Manifest); err != nil {
		return nil, err
	}
	response, err := op.helm.Uninstall(name, opts...)
	if cause := op.guard.Undeleted; err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return response, err
}

// deleted says what became of the objects of a release.
func deleted(children, kept []object.Child) string {
	gone := slices.DeleteFunc(slices.Clone(children), func(child object.Child) bool { return slices.ContainsFunc(kept, child.SameInAnyVersion) })
	if len(gone) == 0 && len(children) > 0 {
		return "Kept: " + object.List(kept)
	}
	if len(kept) == 0 {
		return "Deleted: " + listed(gone)
	}
	return "Deleted: " + listed(gone) + "; kept: " + object.List(kept)
}

func listed(children []object.Child) string {
	if len(children) == 0 {
		return "what there was of it" // after a first attempt that failed, it is not known
	}
	return object.List(children)
}

// toTell are the objects of the release for an event, as far as they are known: the record of a failed attempt
// lists none.
func (a *actionClient) toTell() []object.Child {
	if a.current == nil || len(a.current.Children) == 0 {
		return a.knownChildren()
	}
	return a.current.Children
}

// letGo ends a release without Helm, and leaves its objects to the garbage collector. Of an orphaned owner,
// that removes the owner references of objects and records. Otherwise the records are gone because it was
// faster than the operator, or because somebody has deleted them: it then deletes what has an owner reference,
// and cluster-scoped objects are deleted here. op is the operation under way, nil if there is none.
func (a *actionClient) letGo(op *operation) error {
	err := a.store.RemoveOwned(a.ctx)
	orphaned := a.isOrphaned()
	if err == nil {
		err = a.store.RemoveLeft(a.ctx, func() error {
			orphaned = true
			_, err := a.live()
			return err
		})
	}
	if err == nil && !orphaned {
		err = a.deleteUnowned(op)
	}
	if err != nil {
		a.failed(err)
		return err
	}
	children, hadRelease := a.toTell(), a.current != nil || a.lost() // the garbage collector may have been faster
	a.Forget(a.owner)
	if orphaned {
		a.remember(func(n *note) { n.orphaned = true }) // until it is gone
		if hadRelease {
			a.tell(Orphaned, "Kept: %s", listed(children))
		}
	}
	return driver.ErrReleaseNotFound
}

// isOrphaned is whether the owner is deleted with --cascade=orphan. The garbage collector may have removed the
// finalizer that says so.
func (a *actionClient) isOrphaned() bool {
	return orphans(a.owner) || a.remembered().orphaned
}

// deleteUnowned deletes the cluster-scoped objects of a release without records, except spared: the status and
// the objects themselves tell of them. Other objects without an owner reference are kept. Objects of kinds that
// the cluster no longer serves are gone with these, and would hold up the others for good.
func (a *actionClient) deleteUnowned(op *operation, spared ...object.Child) error {
	remaining, err := a.remaining()
	if err != nil {
		return err
	}
	var children []object.Child
	for _, child := range remaining {
		// In any version: the one in which it was made may no longer be served.
		mapping, unknown := a.clients.mapper.RESTMapping(child.Empty().GroupVersionKind().GroupKind())
		if meta.IsNoMatchError(unknown) || slices.ContainsFunc(spared, child.SameInAnyVersion) {
			continue
		}
		if unknown == nil {
			child.APIVersion = mapping.GroupVersionKind.GroupVersion().String()
		}
		children = append(children, child)
	}
	if len(children) == 0 {
		return nil
	}
	if op == nil {
		if op, err = a.begin(nil, false); err != nil {
			return err
		}
		defer op.end()
	}
	return op.guard.Remove(object.BareManifest(children))
}

// remaining are the objects of a release of which only the status and the objects themselves tell.
func (a *actionClient) remaining() ([]object.Child, error) {
	owned, err := a.owned()
	return append(a.unownedChildren(), owned...), err
}

// orphans is whether owner is being deleted with kubectl delete --cascade=orphan.
func orphans(owner client.Object) bool {
	return owner.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(owner, metav1.FinalizerOrphanDependents)
}

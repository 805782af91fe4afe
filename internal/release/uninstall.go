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
	if a.getErr != nil {    // the library asks Get, and deletes whatever it says
		a.failed(a.getErr)
		return nil, a.getErr
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
	left, err := a.left()
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
		err = op.guard.DeleteLeft()
	}
	if err == nil {
		response, err = a.uninstall(op, name, opts)
	}
	if errors.Is(err, driver.ErrReleaseNotFound) { // orphaned, of which the cache has not heard
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

// hooksBefore runs the hooks before the deletion, unless they have run, and has those after it run before the first record goes.
func (a *actionClient) hooksBefore(op *operation) error {
	hooks, err := a.deleteHooks(op)
	if err != nil || len(hooks) == 0 {
		return err
	}
	if err := op.placeForHooks(); err != nil {
		a.wanted = a.deleteHookInputs()
		return err
	}
	op.beforePurge = func() error {
		if err := a.runDeleteHooks(op, hooks, release.HookPostDelete); err != nil {
			return err
		}
		return a.haveRun(release.StatusUninstalled, "Its hooks after the deletion have run")
	}
	if a.current.Status == release.StatusUninstalling {
		return nil
	}
	if err := a.runDeleteHooks(op, hooks, release.HookPreDelete); err != nil {
		return err
	}
	return a.haveRun(release.StatusUninstalling, "Its hooks before the deletion have run")
}

// haveRun has the record say that hooks of the deletion have run, before anything is deleted, or before the first record is: they are not to run again where that is
// interrupted, or refused. A record that nobody may write holds up no deletion.
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

// uninstall deletes the release by Helm, which says nothing to the guard of what the manifest keeps.
func (a *actionClient) uninstall(op *operation, name string, opts []helmclient.UninstallOption) (*release.UninstallReleaseResponse, error) {
	recorded, err := a.recorded()
	if err != nil {
		return nil, err
	}
	if !a.isApplied(recorded.Manifest) { // somebody has edited it: nobody else deletes what it does not name in no namespace, or says is kept
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
	gone := slices.DeleteFunc(slices.Clone(children), func(child object.Child) bool { return slices.ContainsFunc(kept, child.Same) })
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
		return "what there was of it" // after a first attempt that has failed, nobody knows
	}
	return object.List(children)
}

// toTell are the objects of the release as events name them, as far as that is known: the record of an attempt that has failed names none.
func (a *actionClient) toTell() []object.Child {
	if a.current == nil || len(a.current.Children) == 0 {
		return a.knownChildren()
	}
	return a.current.Children
}

// letGo ends a release and leaves its objects alone: the garbage collector takes the owner references from them. It may have done so,
// and from the records. Or it was faster than the operator, and has deleted those, as somebody else may: then it deletes what has an owner reference, and the rest
// is deleted here. op is the operation that runs, nil if none does.
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
	children := a.toTell()
	a.Forget(a.owner)
	if orphaned {
		a.remember(func(n *note) { n.orphaned = true }) // until it is gone
	}
	if a.current != nil && orphaned {
		a.tell(Orphaned, "Kept: %s", listed(children))
	}
	return driver.ErrReleaseNotFound
}

// isOrphaned is whether somebody deletes the owner and wants to keep its objects. The garbage collector may be done with them by now, and say so no longer.
func (a *actionClient) isOrphaned() bool {
	return orphans(a.owner) || a.remembered().orphaned
}

// deleteUnowned deletes the objects in no namespace of a release that nothing tells of but the status and the objects, all but spared. What else carries no owner
// reference is kept. Those of kinds that the cluster no longer knows have gone with these, and would hold up all others for good.
func (a *actionClient) deleteUnowned(op *operation, spared ...object.Child) error {
	remaining, err := a.remaining()
	if err != nil {
		return err
	}
	var children []object.Child
	for _, child := range remaining {
		mapping, unknown := a.clients.mapper.RESTMapping(child.Empty().GroupVersionKind().GroupKind()) // in any version: that in which it was made may have gone by itself
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

// remaining are the objects of a release that nothing tells of but the status and the objects.
func (a *actionClient) remaining() ([]object.Child, error) {
	owned, err := a.owned()
	return append(a.unownedChildren(), owned...), err
}

// orphans is whether who has deleted owner wants to keep its objects (kubectl delete --cascade=orphan).
func orphans(owner client.Object) bool {
	return owner.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(owner, metav1.FinalizerOrphanDependents)
}

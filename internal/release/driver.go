package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// operationDriver is Helm's storage driver for one operation. Helm writes a record right before it begins with
// something and right after that has ended: these are the moments to judge what it is about to do, and to have
// the record say what holds.
type operationDriver struct {
	driver.Driver
	op *operation
}

// Create stores a new revision, before its hooks run and its first object is made. The hooks are judged here,
// since the post-renderer is not shown them.
func (d operationDriver) Create(key string, rel *release.Release) error {
	a := d.op.client
	if a.current != nil && rel.Version != a.current.Revision+1 { // Helm has just read the records anew
		return fmt.Errorf("the cache is behind: when this reconcile began, it did not have the release record before revision %d yet, only %s", rel.Version, a.current.Name)
	}
	if err := d.op.judgeHooks(rel.Hooks); err != nil {
		return err
	}
	if slices.ContainsFunc(rel.Hooks, awaited) && !a.skipsHooks() {
		if err := d.op.placeForHooks(); err != nil {
			return err
		}
	}
	if d.op.once {
		rel = deployed(rel, cmp.Or(a.owner.GetAnnotations()[installDescription], "Install complete"))
	}
	if a.unmade != nil {
		return d.writeOver(key, rel)
	}
	if err := d.Driver.Create(key, rel); err != nil {
		if a.current == nil && d.op.store.HasCreated() { // though the request has failed; nothing else exists
			err = errors.Join(err, d.op.store.Discard(a.ctx))
		}
		return err
	}
	if err := a.sayBegun(rel.Manifest); err != nil { // no object exists yet
		return errors.Join(err, d.op.store.Discard(a.ctx))
	}
	return nil
}

// writeOver is Create where an installation before this one has failed and made nothing. Its record is
// overwritten: were it deleted and this one refused, nothing would tell of the hooks that have run.
func (d operationDriver) writeOver(key string, rel *release.Release) error {
	a := d.op.client
	d.op.store.WriteOver(a.unmade.Name)
	a.unmade = nil
	if err := d.Driver.Update(key, rel); err != nil {
		return err
	}
	if err := a.sayBegun(rel.Manifest); err != nil {
		d.op.unmade = true
		rel.SetStatus(release.StatusFailed, "Not begun")
		return errors.Join(err, d.Driver.Update(key, rel))
	}
	return nil
}

// deployed is the release of an installation as it will be if that succeeds.
func deployed(rel *release.Release, description string) *release.Release {
	made, info := *rel, *rel.Info
	info.Status, info.Description = release.StatusDeployed, description
	made.Info = &info
	return &made
}

// Update stores what became of a revision, but not of these:
//   - An installation that can be repeated, since the chart has no hooks and always renders the same, was recorded
//     as deployed before its first object. Whether it has succeeded, the status tells, and an interrupted one is
//     completed as drift is repaired.
//   - An installation that has failed and made nothing, or whose objects were deleted again, is discarded, so that
//     the next attempt installs again. Where the chart has deletion hooks, it is marked instead: they have to clean
//     up after the hooks that have run, should the custom resource be deleted.
func (d operationDriver) Update(key string, rel *release.Release) error {
	a := d.op.client
	madeNothing := a.current == nil && rel.Info.Status == release.StatusFailed && !d.op.guard.Changed
	stops := a.ctx.Err() != nil
	switch {
	case madeNothing && stops && !d.op.guard.TookBack:
		return nil // the next operator finds it interrupted
	case madeNothing && !stops && a.source.hasDeleteHooks(a.values):
		d.op.unmade = true
	case madeNothing:
		return d.op.store.Discard(a.ctx)
	case d.op.once && rel.Info.Status == release.StatusDeployed:
		return nil
	}
	return d.Driver.Update(key, rel)
}

// Query reads the revisions with these labels, except one that has made nothing: Helm would refuse to install
// over it. Where the present revision is rendered again, each passes for the one before it, since Helm counts
// on from the newest.
func (d operationDriver) Query(labels map[string]string) ([]*release.Release, error) {
	found, err := d.Driver.Query(labels)
	if d.op.asIs {
		for _, rel := range found {
			rel.Version--
		}
	}
	if unmade := d.op.client.unmade; unmade != nil {
		found = slices.DeleteFunc(found, func(rel *release.Release) bool { return rel.Version == unmade.Revision })
	}
	return found, err
}

// Delete deletes a record. Records go last, after the hooks of a deletion: without one, nobody would know of
// hooks that are still to run.
func (d operationDriver) Delete(key string) (*release.Release, error) {
	if err := d.op.beforePurge(); err != nil {
		return nil, err
	}
	d.op.beforePurge = nothing
	return d.Driver.Delete(key)
}

func nothing() error { return nil }

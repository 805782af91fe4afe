package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
)

// Reconcile repairs the drift of a release whose inputs have not changed. The cache tells whether there is any.
func (a *actionClient) Reconcile(*release.Release) (err error) {
	defer a.ended(&err)
	if a.held != nil {
		return a.heldBack()
	}
	known := a.provenChildren()
	if known != nil { // an unproven record could name any kind, and have it watched
		if err := a.watch(known); err != nil {
			return err
		}
	}
	a.expire()
	start := time.Now()
	if err := a.correct(); err != nil {
		a.Acted(DriftCorrection, time.Since(start), err)
		a.failed(err)
		return err
	}
	if known == nil { // correct has looked at them
		if err := a.watch(a.current.Children); err != nil {
			return err
		}
	}
	if a.renderErr != nil {
		return a.renderErr
	}
	if err := a.restamp(); err != nil {
		a.failed(err)
		return err
	}
	if a.waitFor != "" {
		a.schedule.after(a.owner, wait.Jitter(rolloutPoll, jitter))
		a.remember(func(n *note) {
			n.acted = true
			n.state.WaitFor, n.state.Brake, n.state.Children, n.state.Err = a.waitFor, a.brake, a.current.Children, nil
			if a.proven {
				n.state.Record = a.current.Proof()
			}
		})
		a.answer(nil)
		return nil
	}
	if a.rollout.follows(a.owner) {
		a.observed(a.health())
	}
	digest, err := a.sealedDigest()
	if err != nil {
		a.failed(err)
		return err
	}
	a.succeeded(digest)
	a.test()
	return nil
}

// watch has the cache watch the kinds of children.
func (a *actionClient) watch(children []object.Child) error {
	if a.watches == nil {
		return nil
	}
	for _, child := range children {
		refused, err := a.watches.ensure(a.ctx, child)
		if err != nil {
			return err
		}
		if refused {
			a.schedule.after(a.owner, refusedPeriod) // without a watch, no event of the child brings the owner back
		}
	}
	return nil
}

// sealedDigest is the proof of the applied manifest, made with the key if there is one. Once, after the records
// were moved into Secrets, that costs a request.
func (a *actionClient) sealedDigest() (string, error) {
	digest := cmp.Or(a.manifestProof, a.appliedDigest())
	if a.key == "" || digest == "" || object.Sealed(digest) {
		return digest, nil
	}
	recorded, err := a.recorded()
	if err != nil {
		return "", err
	}
	if !a.isApplied(recorded.Manifest) {
		return digest, nil
	}
	return a.key.Proof(recorded.Manifest), nil
}

// restamp writes into the record what has been found out since it was made.
func (a *actionClient) restamp() error {
	if !a.proven && a.waitFor == "" {
		a.current.Operator, a.current.Generation, a.current.Unmade = a.clients.operator, a.owner.GetGeneration(), false
	}
	if a.current.Proof() == a.storedProof || !a.proven && a.waitFor != "" {
		return nil
	}
	return a.store.Restamp(a.ctx, a.current)
}

// observed tells the rollout how the release fares, and wakes those that it lets go on.
func (a *actionClient) observed(h health) { a.wake(a.rollout.observe(a.owner, h)) }

// repair puts the objects back to what was applied, and reports each change.
func (a *actionClient) repair() ([]guard.Change, error) {
	op, err := a.begin(nil, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	manifest, err := a.restorable(op)
	if err != nil || manifest == "" {
		return nil, err
	}
	left, err := a.leftovers()
	if err != nil {
		return nil, err
	}
	unfinished := a.isUnfinished()
	changes, err := op.guard.Apply(strings.Join(append([]string{manifest}, left...), "\n"), manifest, unfinished)
	if unfinished {
		changes = nil // what an interrupted installation has not created yet is no drift
	}
	if unfinished && err == nil {
		a.tell(Installed, "Revision %d, which was interrupted: %s", a.current.Revision, object.List(op.guard.Children()))
	}
	a.tellChanges(changes)
	if err != nil {
		return changes, fmt.Errorf("repair drift: %w", err)
	}
	a.applied = op.guard.Children()
	if !a.proven || !slices.EqualFunc(a.applied, a.current.Children, object.Child.SameContent) {
		a.current.Children = a.applied // for the status
	}
	return changes, nil
}

// runsAgain is whether a forced reconcile has made a Job again that had failed and expired: nobody has deleted it.
func (a *actionClient) runsAgain(change guard.Change) bool {
	return change.Created && a.forced() && slices.ContainsFunc(a.provenChildren(), func(child object.Child) bool { return child.Expires && a.describe(child) == change.Object })
}

// tellChanges says what a repair has put back.
func (a *actionClient) tellChanges(changes []guard.Change) {
	for _, change := range changes {
		if a.runsAgain(change) {
			a.did(change.Object + " is run again")
			continue
		}
		what := change.Object + ": put back " + fields(change)
		if change.Writer != "" {
			what += ", which was changed" + writtenBy(change)
		}
		if change.Created {
			what = change.Object + " was deleted: created again"
		}
		a.did(what)
		a.tell(DriftCorrected, "%s", what)
		a.Acted(DriftCorrection, change.Took, nil)
	}
}

// heldBack returns the last failure while it is too early for another attempt. What was applied last goes on
// being repaired meanwhile, since people use it.
func (a *actionClient) heldBack() error {
	if err := a.repairStanding(); err != nil {
		logf.FromContext(a.ctx).Error(err, "What was applied last cannot be put back while what is wanted now fails")
	}
	return a.held
}

// repairStanding repairs what was applied last, unless that itself is what fails, or the failure is that the
// platform no longer allows it.
func (a *actionClient) repairStanding() error {
	children, ours := a.knownChildren(), a.current.Status == release.StatusDeployed && a.current.Inputs == a.wanted
	if ours || a.DriftDetection.Mode != DriftEnabled || a.appliedDigest() == "" || errors.As(a.held, &notAllowed{}) {
		return nil
	}
	if err := a.watch(children); err != nil {
		return err
	}
	now, d := time.Now(), a.remembered().drifts()
	due, shown, resting := a.findDrifted(&d, now, children)
	due = due || children == nil
	var changes []guard.Change
	var err error
	if due && !now.Before(d.nextTry) {
		changes, err = a.applyStanding()
		if err == nil && len(changes) > 0 {
			d.tries, d.nextTry = 0, time.Time{}
		} else {
			d.tries++
			d.nextTry = now.Add(retryDelay(d.tries, lastRetry))
		}
	}
	if wait := d.nextTry.Sub(now); due && wait > 0 {
		a.schedule.after(a.owner, wait)
	}
	if err != nil || len(changes) == 0 {
		shown = nil
	}
	a.updateFights(&d, now, shown, changes, resting)
	d.tell()
	a.remember(func(n *note) { n.setDrift(d) })
	return err
}

// applyStanding applies the last applied manifest again.
func (a *actionClient) applyStanding() ([]guard.Change, error) {
	op, err := a.begin(nil, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	manifest, err := a.lastApplied()
	if err != nil || manifest == "" {
		return nil, err
	}
	if err := op.judge(manifest); err != nil { // what is allowed may have changed since then
		return nil, err
	}
	op.guard.Unchangeable = a.failure().blocking
	changes, err := op.guard.Apply(manifest, manifest, false)
	a.tellChanges(changes)
	if err != nil {
		return changes, fmt.Errorf("repair drift: %w", err)
	}
	proof, children := a.recordProof(), op.guard.Children()
	for _, child := range a.knownChildren() { // those that stay away for now are put back once nothing wants that any more
		if slices.ContainsFunc(op.guard.Unchangeable, child.SameInAnyVersion) && !slices.ContainsFunc(children, child.SameInAnyVersion) {
			children = append(children, child)
		}
	}
	a.remember(func(n *note) {
		n.acted, n.state.Record, n.state.Children, n.state.applied = true, proof, children, children
	})
	return changes, nil
}

// restorable is the manifest to which a repair puts the objects back. That is the recorded one if it is proven
// to be what was applied. If somebody has changed the record, it is what the chart renders, provided that this
// is what was applied or what the record has, and that no upgrade is put off. Otherwise nothing proves what was
// applied: the manifest is empty, nothing is repaired, and the release is upgraded next; while an upgrade is
// put off, those objects of the new chart that exist count as its children.
func (a *actionClient) restorable(op *operation) (manifest string, err error) {
	recorded, err := a.recorded()
	if err != nil {
		return "", err
	}
	if recorded.Info.Status != a.current.Status { // superseded, perhaps, by one that the cache does not have yet
		return "", fmt.Errorf("the cache is behind: it has release record %s as %q, and that is %q", a.current.Name, a.current.Status, recorded.Info.Status)
	}
	if a.key.Proves(cmp.Or(a.manifestProof, a.appliedDigest()), recorded.Manifest) {
		if a.waitFor == "" && a.isOfWanted() {
			return recorded.Manifest, nil // judged when it was applied, with the same inputs
		}
		return recorded.Manifest, op.judge(recorded.Manifest)
	}
	rendered, err := a.rerender(op)
	if err != nil {
		return "", err
	}
	if a.waitFor == "" && (a.isApplied(rendered.Manifest) || rendered.Manifest == recorded.Manifest) {
		a.manifestProof = a.key.Proof(rendered.Manifest)
		return rendered.Manifest, nil
	}
	logf.FromContext(a.ctx).Info("Not repairing any drift before the upgrade: nothing proves that the record is what was applied", "record", a.current.Name)
	if a.waitFor == "" {
		a.remember(func(n *note) { n.outdated = a.outdated() })
		a.schedule.after(a.owner, 0)
	}
	a.current.Children, err = op.guard.Present(rendered.Manifest)
	return "", err
}

package release

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// recover marks an interrupted release as failed, or as deployed where the status proves that it had completed
// and only its record could not be updated. An installation that has created no object yet counts as no
// release.
func (a *actionClient) recover() error {
	rel, err := a.recorded()
	if err != nil {
		return err
	}
	if !orphaned(rel.Info.Status) {
		a.current.Status = rel.Info.Status // the cache is behind
		return nil
	}
	logf.FromContext(a.ctx).Info("Recovering a release that was interrupted", "record", a.current.Name, "status", rel.Info.Status)
	if nothing, err := a.hasMadeNothing(rel); err != nil {
		return err
	} else if nothing { // the next attempt is to install again, or the hooks of an installation would never run
		a.current.Unmade = true
		if err := a.store.Restamp(a.ctx, a.current); err != nil {
			return err
		}
		a.unmade, a.current = a.current, nil
		return nil
	}
	rel.SetStatus(release.StatusFailed, "Interrupted; the operator goes on from here")
	a.interrupted = true
	if a.appliedRevision() == rel.Version && a.isApplied(rel.Manifest) && a.isOfTheApplied() {
		rel.SetStatus(release.StatusDeployed, "Its record was not brought to its end; the release was")
		if err := a.supersede(rel.Version); err != nil {
			return err
		}
	}
	if err := a.store.Releases().Update(rel); err != nil {
		return fmt.Errorf("recover the interrupted release %s: %w", a.current.Name, err)
	}
	a.current.Status = rel.Info.Status
	return nil
}

// supersede marks earlier revisions as superseded that are still recorded as deployed, since that could not be
// written either.
func (a *actionClient) supersede(revision int) error {
	before, err := a.store.Releases().DeployedAll(a.owner.GetName())
	if err != nil && !errors.Is(err, driver.ErrNoDeployedReleases) {
		return fmt.Errorf("look for releases before revision %d: %w", revision, err)
	}
	for _, rel := range before {
		if rel.Version >= revision {
			continue
		}
		rel.SetStatus(release.StatusSuperseded, rel.Info.Description)
		if err := a.store.Releases().Update(rel); err != nil {
			return fmt.Errorf("mark revision %d as superseded: %w", rel.Version, err)
		}
	}
	return nil
}

// isUnmade is whether the newest record is of an installation that is known to have created no object. It is
// kept until the next attempt begins: hooks may have made something elsewhere, which those of a deletion have
// to clean up.
func (a *actionClient) isUnmade() bool {
	return a.current.Unmade && a.current.Revision == 1 && a.appliedRevision() == 0
}

// hasMadeNothing is whether an installation was interrupted before its first object. That cannot be told of a
// manifest with objects that are kept: they have no owner reference, and the status does not list them yet.
func (a *actionClient) hasMadeNothing(rel *release.Release) (bool, error) {
	if rel.Info.Status != release.StatusPendingInstall || rel.Version > 1 || a.appliedRevision() > 0 || strings.Contains(rel.Manifest, object.Policy) {
		return false, nil
	}
	if rel.Manifest == "" {
		return len(rel.Hooks) > 0, nil // else the record cannot be read
	}
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	made, err := op.guard.Present(rel.Manifest)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for what the interrupted installation %s has made: %w", a.current.Name, err)
	}
	return len(made) == 0, nil
}

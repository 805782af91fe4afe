package record

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// MaxHistory is how many revisions of a release are kept for people to look at.
const MaxHistory = 5

// Unfinished returns the manifests of the revisions that did not complete, newest first, and of the last
// deployed one before them. They are hints of objects that may have been left behind: Helm compares with a
// single revision only.
func (r *Store) Unfinished(ctx context.Context) ([]string, error) {
	known, err := r.cached(ctx, r.labelled())
	if err != nil {
		return nil, err
	}
	var manifests []string
	for i := range known {
		revision, _ := revisionOf(known[i].Name, r.release)
		rel, err := r.Releases().Get(r.owner.GetName(), revision)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read release record %s: %w", known[i].Name, err)
		}
		manifests = append(manifests, rel.Manifest)
		if rel.Info.Status == release.StatusDeployed {
			break
		}
	}
	return manifests, nil
}

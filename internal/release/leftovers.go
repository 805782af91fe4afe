package release

import (
	"bytes"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leftovers are the objects of the revisions that were not brought to their end, and of the one that was deployed before
// them. Helm compares with a single revision: what an interrupted upgrade has made, and the next one no longer wants,
// would stay.
func (a *actionClient) leftovers() (kube.ResourceList, error) {
	if a.current.status == release.StatusDeployed {
		return nil, nil
	}
	guard, err := a.guard()
	if err != nil {
		return nil, err
	}
	history, err := a.helm.Config().Releases.History(a.owner.GetName())
	if err != nil {
		return nil, fmt.Errorf("read the release records: %w", err)
	}
	releaseutil.Reverse(history, releaseutil.SortByRevision)
	var left kube.ResourceList
	for _, rel := range history {
		resources, err := guard.Build(bytes.NewBufferString(rel.Manifest), false)
		if err != nil {
			return nil, fmt.Errorf("parse the manifest of revision %d: %w", rel.Version, err)
		}
		for _, info := range resources {
			if left.Get(info) == nil {
				left.Append(info)
			}
		}
		if rel.Info.Status == release.StatusDeployed {
			break
		}
	}
	return left, nil
}

// deleteLeftovers deletes them before an uninstallation, which deletes those of the newest revision.
func (a *actionClient) deleteLeftovers() error {
	left, err := a.leftovers()
	if err != nil || len(left) == 0 {
		return err
	}
	guard, err := a.guard()
	if err != nil {
		return err
	}
	if _, errs := guard.DeleteWithPropagationPolicy(left, metav1.DeletePropagationBackground); len(errs) > 0 {
		return fmt.Errorf("delete what interrupted upgrades have left: %w", errors.Join(errs...))
	}
	return nil
}

package release

import (
	"bytes"
	"errors"
	"fmt"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// rollBack puts the objects back as the last good revision has them. It writes no record: that
// revision is still recorded as deployed, and the failed one as failed, so the next attempt starts
// from the right place and revisions do not pile up.
func (a *actionClient) rollBack(helm helmclient.ActionInterface, failed *release.Release) error {
	previous, err := helm.Config().Releases.Deployed(a.owner.GetName())
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return nil // there is nothing good to go back to
	}
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if digest := shortDigest([]byte(previous.Manifest)); digest != a.appliedDigest() {
		logf.FromContext(a.ctx).Info("Not rolling back: the record of the last good revision is not what was applied", "revision", previous.Version)
		return nil
	}
	client := helm.Config().KubeClient
	original, err := client.Build(bytes.NewBufferString(failed.Manifest), false)
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	target, err := client.Build(bytes.NewBufferString(previous.Manifest), false)
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if _, err := client.Update(original, target, false); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	logf.FromContext(a.ctx).Info("Rolled back a failed upgrade", "revision", previous.Version)
	return nil
}

// appliedDigest is the digest of the manifest that was applied last, as the custom resource's
// status has it. Whoever can edit release records can not write there, so what has this
// digest can be trusted.
func (a *actionClient) appliedDigest() string {
	if owner, ok := a.owner.(*unstructured.Unstructured); ok {
		digest, _, _ := unstructured.NestedString(owner.Object, "status", "release", "digest")
		return digest
	}
	return ""
}

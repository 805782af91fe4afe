package release

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a chart leaves to chance, as a password that it makes, differs at each rendering. So before the first object is made of one, the status of the custom
// resource tells of it: an action that was interrupted, or failed, goes on with what it has begun, which the record holds, and not with another password.

// sayBegun writes into the status that objects are about to be made from a manifest. It fails, and nothing may be made, if somebody has written to the
// custom resource since it was read.
func (a *actionClient) sayBegun(manifest string) error {
	written := &unstructured.Unstructured{}
	written.SetGroupVersionKind(a.gvk)
	// What a reconcile has of the status lacks the conditions; the cache may be a write of this reconcile behind, which was not of the status.
	if err := a.clients.cached.Get(a.ctx, client.ObjectKeyFromObject(a.owner), written); err != nil {
		return fmt.Errorf("read the custom resource: %w", err)
	}
	written.SetResourceVersion(a.owner.GetResourceVersion())
	for field, value := range map[string]string{"begun": a.begunWith(manifest), "operator": a.clients.operator} {
		if err := unstructured.SetNestedField(written.Object, value, "status", field); err != nil {
			return err
		}
	}
	if err := a.clients.mgr.GetClient().Status().Update(a.ctx, written); err != nil {
		return fmt.Errorf("write into the status what is begun: %w", err)
	}
	a.owner.SetResourceVersion(written.GetResourceVersion())
	return nil
}

// begunWith is what the status says of a manifest that is made from the wanted inputs.
func (a *actionClient) begunWith(manifest string) string {
	return a.key.Proof(manifest) + "/" + a.wanted
}

// hasBegun is whether a manifest is the one that the last action has begun to make objects from, with the inputs that are wanted still.
func (a *actionClient) hasBegun(manifest string) bool {
	begun, _, _ := unstructured.NestedString(a.owner.(*unstructured.Unstructured).Object, "status", "begun")
	return begun != "" && begun == a.begunWith(manifest)
}

// begun is the manifest that is to be applied once more, since the last action has begun with it and was not brought to its end; empty if the chart is to be
// rendered. A chart that looks up what is there has that go into its next rendering, where the last one has failed.
func (a *actionClient) begun() (string, error) {
	if a.current.Status != release.StatusFailed || !a.source.chances(a.whole) || a.asks.objects && a.retries() {
		return "", nil
	}
	recorded, err := a.store.Releases().Get(a.owner.GetName(), a.current.Revision)
	if err != nil {
		return "", fmt.Errorf("read release record %s: %w", a.current.Name, err)
	}
	if !a.hasBegun(recorded.Manifest) {
		return "", nil
	}
	return recorded.Manifest, nil
}

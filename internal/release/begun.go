package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// What a chart leaves to chance, such as a password that it generates, differs with each rendering. So the
// status says which manifest is begun before the first of its objects is created: an action that was
// interrupted, or has failed, goes on with that manifest, which the record holds, and not with another
// password.

// sayBegun writes into the status that objects are about to be created from a manifest, unless that does not
// depend on chance, or the status says so already. It fails, and nothing may be created, if the spec or the claim
// of the custom resource has changed since it was read, or if the cache lacks an action that the status tells of.
func (a *actionClient) sayBegun(manifest string) error {
	if !a.source.chances(a.coalesced) || a.hasBegun(manifest) {
		return nil
	}
	var err error
	for range 3 { // others may annotate it meanwhile
		var read *unstructured.Unstructured
		if read, err = a.live(); err != nil {
			return err
		}
		holder := ClaimedBy(read)
		if read.GetGeneration() != a.owner.GetGeneration() || read.GetDeletionTimestamp() != nil || holder != "" && holder != a.clients.operator {
			return errors.New("the custom resource has changed since it was read")
		}
		// An earlier leader may have written them, unknown to the cache.
		for _, field := range [][]string{{"begun"}, {"release", "digest"}, {"release", "record"}} {
			if textInStatus(read, field...) != textInStatus(a.owner, field...) {
				return errors.New("the status of the custom resource tells of an action that the cache does not show yet")
			}
		}
		if err := unstructured.SetNestedField(read.Object, a.begunWith(manifest), "status", "begun"); err != nil {
			return err
		}
		if err = a.clients.mgr.GetClient().Status().Update(a.ctx, read); err == nil {
			a.owner.SetResourceVersion(read.GetResourceVersion())
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("write into the status what is begun: %w", err)
}

// begunWith is the entry of the status for a manifest that is made from the wanted inputs.
func (a *actionClient) begunWith(manifest string) string {
	return a.key.Proof(manifest) + "/" + a.wantedButAllow[0]
}

// saidBegun is that entry, of an action that did not complete: the proof of its manifest, and the digest of its
// inputs.
func (a *actionClient) saidBegun() (proof, inputs string) {
	proof, inputs, _ = strings.Cut(textInStatus(a.owner, "begun"), "/")
	return proof, inputs
}

// wasBegun is whether a manifest is that of an action that did not complete, whatever its inputs.
func (a *actionClient) wasBegun(manifest string) bool {
	proof, _ := a.saidBegun()
	return proof != "" && a.key.Proves(proof, manifest)
}

// hasBegun is whether a manifest is that of an action that did not complete and was made from the wanted
// inputs.
func (a *actionClient) hasBegun(manifest string) bool {
	_, inputs := a.saidBegun()
	return inputs != "" && a.matchesWanted(inputs) && a.wasBegun(manifest)
}

// begun is the manifest to apply instead of a new rendering, since that would differ by chance: the one of an
// action that did not complete; or the one that was applied last, if another one has failed and what is wanted
// is the former again. It is empty, and the chart is rendered, if there is none; if the API server has refused
// a value that chance may have made; and if the hooks depend on chance, too, since these are rendered in any
// case, and would have another password.
func (a *actionClient) begun(opts []helmclient.UpgradeOption) (string, error) {
	if failed := a.failure(); failed.inputs == a.wanted && refusesField(failed.err) {
		return "", nil
	}
	manifest, err := a.unfinished()
	if err == nil && manifest == "" {
		manifest, err = a.standing()
	}
	if err != nil || manifest == "" || !a.source.hooks(a.coalesced) {
		return manifest, err
	}
	if same, err := a.hooksStay(opts); err != nil || !same {
		return "", err
	}
	return manifest, nil
}

// unfinished is the manifest of an action from the wanted inputs that did not complete, empty if there is none.
func (a *actionClient) unfinished() (string, error) {
	if _, inputs := a.saidBegun(); inputs == "" || !a.matchesWanted(inputs) {
		return "", nil
	}
	recorded, err := a.recorded()
	if err != nil || !a.hasBegun(recorded.Manifest) {
		return "", err
	}
	return recorded.Manifest, nil
}

// standing is the manifest that was applied last, if it was made from the wanted inputs and depends on chance;
// else empty, as where the chart looks objects up, which may have changed.
func (a *actionClient) standing() (string, error) {
	if applied, ok := a.appliedAsWanted(); !ok || applied.Capabilities != a.surroundings.Capabilities || a.asks.objects || !a.source.chances(a.coalesced) {
		return "", nil
	}
	return a.lastApplied()
}

// hooksStay is whether two renderings have the same hooks.
func (a *actionClient) hooksStay(opts []helmclient.UpgradeOption) (bool, error) {
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	tries := 1
	if a.source.timed { // the two may be of different seconds
		tries = 2
	}
	for range tries {
		once, err := a.render(op, opts...)
		if err != nil {
			return false, err
		}
		again, err := a.render(op, opts...)
		if err != nil {
			return false, err
		}
		if slices.EqualFunc(once.Hooks, again.Hooks, func(a, b *release.Hook) bool { return a.Path == b.Path && a.Manifest == b.Manifest }) {
			return true, nil
		}
	}
	return false, nil
}

// refusesField is whether the API server has refused, or not understood, the value of a field: chance may have
// made it.
func refusesField(err error) bool {
	if !apierrors.IsInvalid(err) {
		return apierrors.IsBadRequest(err)
	}
	return slices.ContainsFunc(object.Causes(err), func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

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

// What a chart leaves to chance, as a password that it makes, differs at each rendering. So before the first object is made of one, the status of the custom
// resource tells of it: an action that was interrupted, or failed, goes on with what it has begun, which the record holds, and not with another password.

// sayBegun writes into the status that objects are about to be made from a manifest. It fails, and nothing may be made, if what the custom resource asks for, or
// who serves it, has changed since it was read, or the cache is behind a status that tells of another action.
func (a *actionClient) sayBegun(manifest string) error {
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
		for _, field := range [][]string{{"begun"}, {"release", "digest"}, {"release", "record"}} { // a leader before this one has written them, of whom the cache has not heard
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

// begunWith is what the status says of a manifest that is made from the wanted inputs.
func (a *actionClient) begunWith(manifest string) string {
	return a.key.Proof(manifest) + "/" + a.wantedButAllow[0]
}

// saidBegun is what the status says of an action that was not brought to its end: the proof of its manifest, and what it was made from.
func (a *actionClient) saidBegun() (proof, inputs string) {
	proof, inputs, _ = strings.Cut(textInStatus(a.owner, "begun"), "/")
	return proof, inputs
}

// wasBegun is whether a manifest is the one of an action that was not brought to its end, whatever it was made from.
func (a *actionClient) wasBegun(manifest string) bool {
	proof, _ := a.saidBegun()
	return proof != "" && a.key.Proves(proof, manifest)
}

// hasBegun is whether a manifest is that, and was made from what is wanted still.
func (a *actionClient) hasBegun(manifest string) bool {
	_, inputs := a.saidBegun()
	return inputs != "" && a.matchesWanted(inputs) && a.wasBegun(manifest)
}

// begun is the manifest that is to be applied instead of another rendering, for chance has a part in it: an action has begun with it and was not brought to its end, or
// it is what was applied last, from what is wanted again after something else has failed. It is empty, and the chart is rendered, if there is none; if the API server has refused what
// chance has made; and if chance has a part in hooks, too: those are rendered in any case, and would have another password.
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

// unfinished is the manifest that an action has begun with from what is wanted, and was not brought to its end; empty if there is none.
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

// standing is the manifest that was applied last, if it was made from what is wanted, and chance has a part in it; else empty. What is looked up may be another by now.
func (a *actionClient) standing() (string, error) {
	if applied, ok := a.appliedAsWanted(); !ok || applied.Capabilities != a.surroundings.Capabilities || a.asks.objects || !a.source.chances(a.coalesced) {
		return "", nil
	}
	return a.lastApplied()
}

// hooksStay is whether chance has no part in the hooks.
func (a *actionClient) hooksStay(opts []helmclient.UpgradeOption) (bool, error) {
	op, err := a.begin(nil, false)
	if err != nil {
		return false, err
	}
	defer op.end()
	tries := 1
	if a.source.timed { // a second may have passed between two renderings
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

// refusesField is whether the API server has refused what an object says in a field, or has not understood it: a value by chance may be the reason.
func refusesField(err error) bool {
	if !apierrors.IsInvalid(err) {
		return apierrors.IsBadRequest(err)
	}
	return slices.ContainsFunc(object.Causes(err), func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

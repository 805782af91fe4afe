package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// appliedDigest is the proof of the manifest that was applied last. Before the first success since
// the operator started, the custom resource's status knows it. Whoever can edit release records can
// not write there, so what has this digest can be trusted.
func (a *actionClient) appliedDigest() string {
	return cmp.Or(a.state().Digest, a.inStatus("digest"))
}

// recordProof is that of the metadata of the record of what was applied last.
func (a *actionClient) recordProof() string { return cmp.Or(a.state().Record, a.inStatus("record")) }

// prove finds out whether the metadata of the newest record is as the operator wrote it when it last knew that its objects are what the chart
// wants. If not, what it says of inputs and children are hints: the chart is rendered, and the objects are looked at. So it is also where
// the operator was killed after the record was written and before the status was, and where version 0.1.0 wrote the status.
func (a *actionClient) prove() {
	if a.proven = a.current.IsProven(a.recordProof()); a.proven {
		a.current.Children = a.knownChildren() // whatever somebody has written there
	}
}

// knownChildren are the objects of the release as they were applied last, nil if nothing trustworthy tells: before the first success since the operator
// started, the custom resource's status does.
func (a *actionClient) knownChildren() []object.Child {
	if state := a.state(); state.Record != "" {
		return state.Children
	}
	return object.Children(a.inStatus("children"))
}

// isUnfinished is whether the newest record is of an installation that was not brought to its end. Its record is written before its objects are
// made, and not again if all goes well: that it did, the status says.
func (a *actionClient) isUnfinished() bool {
	return a.current != nil && a.current.Status == release.StatusDeployed && !a.proven && a.appliedRevision() == 0
}

// isApplied is whether a manifest is the one that was applied last.
func (a *actionClient) isApplied(manifest string) bool {
	return a.key.Proves(a.appliedDigest(), manifest)
}

// lastApplied is the manifest that was applied last, empty if there is no record of it, or that holds what somebody has written.
func (a *actionClient) lastApplied() (string, error) {
	rel, err := a.store.Releases().Deployed(a.owner.GetName())
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the release that was applied last: %w", err)
	}
	if !a.isApplied(rel.Manifest) {
		return "", nil
	}
	return rel.Manifest, nil
}

// isOfTheApplied is whether the record is as old as what was applied last, and not one that was begun anew under its number after it was lost.
func (a *actionClient) isOfTheApplied() bool {
	applied := a.inStatus("lastApplied")
	if known := a.state().LastApplied; !known.IsZero() {
		applied = known.UTC().Format(time.RFC3339)
	}
	return applied == a.current.Created.UTC().Format(time.RFC3339)
}

// recordedElsewhere is whether the records are Secrets, which the kind may no longer have: the operator need not have a right to see them.
func (a *actionClient) recordedElsewhere() bool {
	return !a.Secrets && object.Sealed(a.inStatus("digest"))
}

// checkRecords fails if there can be no release for the owner, which has none where it would be recorded.
func (a *actionClient) checkRecords() error {
	if a.recordedElsewhere() {
		return notAllowed{errors.New("not allowed: the release is recorded in Secrets, and the operator's watches.yaml allows this kind no Secrets any longer. " +
			"Nothing of it is changed until secrets: true is set there again, or the custom resource is deleted and made anew")}
	}
	return a.store.CheckName(a.ctx)
}

// trustInputs is for a record that is not proven. If the status knows that what was applied last was made from what is wanted, the record is taken to say so, and the answer is true:
// who edits a record does not have the chart rendered anew by that, perhaps with another password. What was allowed then is judged anew.
func (a *actionClient) trustInputs() bool {
	applied, ok := a.appliedAsWanted()
	if ok && a.current.Status == release.StatusDeployed { // else the record is of something else, which has failed
		a.current.Inputs, a.current.MadeFrom, a.current.Capabilities, a.current.Lookups = applied.Inputs, "", applied.Capabilities, applied.Lookups
	}
	return ok
}

// appliedAsWanted is what was applied last as far as inputsOf tells of it, and whether it was made from what is wanted, whatever was allowed then.
func (a *actionClient) appliedAsWanted() (applied record.Record, ok bool) {
	digests := strings.Split(cmp.Or(a.state().Inputs, a.inStatus("inputs")), "/")
	if len(digests) != 3 || !a.matchesWanted(digests[0]) {
		return record.Record{}, false
	}
	return record.Record{Inputs: digests[0], Capabilities: digests[1], Lookups: digests[2]}, true
}

// inputsOf are the digests that appliedAsWanted reads.
func inputsOf(r *record.Record) string {
	return strings.Join([]string{cmp.Or(r.MadeFrom, r.Inputs), r.Capabilities, r.Lookups}, "/")
}

// provenChildren are the objects of the release as the record has them, nil if nothing proves that, or there are more than the status lists and nobody has looked at
// them since the operator started.
func (a *actionClient) provenChildren() []object.Child {
	if !a.proven {
		return nil
	}
	return a.current.Children
}

// inStatus is a text in what the custom resource's status says of the release.
func (a *actionClient) inStatus(field string) string {
	return textInStatus(a.owner, "release", field)
}

// ClaimedBy is the operator that has claimed a custom resource, empty if none has.
func ClaimedBy(owner *unstructured.Unstructured) string { return textInStatus(owner, "operator") }

// textInStatus is a text in the status of a custom resource, empty if it has none there.
func textInStatus(owner *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(owner.Object, append([]string{"status"}, path...)...)
	return text
}

// unowned are the UIDs of unownedChildren.
func (a *actionClient) unowned() (uids []types.UID) {
	for _, child := range a.unownedChildren() {
		uids = append(uids, child.UID)
	}
	return uids
}

// unownedChildren are the objects of the release that carry no owner reference. Before the first success since the operator started, the custom
// resource's status knows them.
func (a *actionClient) unownedChildren() (children []object.Child) {
	if state := a.state(); state.Revision != 0 {
		return slices.DeleteFunc(slices.Clone(state.Children), func(child object.Child) bool { return child.UID == "" })
	}
	listed, _, _ := unstructured.NestedSlice(a.owner.Object, "status", "release", "unowned")
	for _, item := range listed {
		fields, _ := item.(map[string]any)
		text := func(key string) string { text, _ := fields[key].(string); return text }
		if child := (object.Child{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name"), UID: types.UID(text("uid"))}); child.UID != "" {
			children = append(children, child)
		}
	}
	return children
}

// maxAhead is how many revisions after the one that was applied last the operator may have tried and failed to apply.
const maxAhead = 1_000_000

// appliedRevision is the revision that was applied last, 0 if none is known.
func (a *actionClient) appliedRevision() int {
	return cmp.Or(a.state().Revision, int(a.numberInStatus("revision")))
}

// appliedGeneration is the generation of the custom resource that was applied last. Before the
// first success since the operator started, the status knows it, unless an older version wrote
// that. The answer is 0 then, which counts as edited.
func (a *actionClient) appliedGeneration() int64 {
	return cmp.Or(a.state().Generation, a.numberInStatus("generation"))
}

// lost is whether there was a release of which there is no record any more. Its hooks have run: who may delete records need not be allowed to make what hooks make.
func (a *actionClient) lost() bool { return a.current == nil && a.appliedRevision() > 0 }

// numberInStatus is a number in what the custom resource's status says of the release, 0 if it says none.
func (a *actionClient) numberInStatus(field string) int64 {
	number, _, _ := unstructured.NestedInt64(a.owner.Object, "status", "release", field)
	return number
}

// expired are the objects that have gone by themselves, as they are to, or are known to have.
func (a *actionClient) expired() (gone []object.Child) {
	children := a.knownChildren()
	if children == nil {
		children = object.Children(a.inStatus("expiring"))
	}
	for _, child := range children {
		if child.Expires && !child.Expired {
			child.Expired = a.isGone(child)
		}
		if child.Expired && (!child.Failed || !a.forced()) {
			gone = append(gone, child)
		}
	}
	return gone
}

// expire takes note of them, so that they are not looked for again, and of those that have failed and will go.
func (a *actionClient) expire() {
	if !slices.ContainsFunc(a.provenChildren(), func(child object.Child) bool { return child.Expires && !child.Expired }) {
		return
	}
	gone, children := a.expired(), slices.Clone(a.current.Children) // others read them
	for i := range children {
		child := &children[i]
		child.Expired = child.Expired || slices.ContainsFunc(gone, child.Same)
		if !child.Expires || child.Expired {
			continue
		}
		if live, err := a.cachedChild(*child); err == nil {
			result, err := object.Health(object.Unpack(live))
			child.Failed = err == nil && result.Status == status.FailedStatus
		}
	}
	a.current.Children = children
}

// untouched are the objects that are as this process has applied them. A record could be forged, and the cache be behind
// an attempt that has failed.
func (a *actionClient) untouched() []object.Child {
	if a.current == nil || a.current.Status != release.StatusDeployed || a.forced() {
		return nil
	}
	applied := a.state().applied
	return slices.DeleteFunc(slices.Clone(applied), func(child object.Child) bool { return !a.intact(child) })
}

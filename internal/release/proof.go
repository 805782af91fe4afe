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

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// Whoever may edit ConfigMaps may edit release records, so that only what the status of the custom resource proves
// is believed of them. This is asked of the newest record, and of manifests:
//
//	proven          its metadata is as the operator wrote it when the objects were known to be as the chart wants them
//	inputsProven    so are at least the inputs that it was made from, as the status says
//	isOfWanted      these are the wanted ones, with what is allowed now
//	isAlike         these are the wanted ones, with something else allowed: they render the same, to be judged anew
//	isOfTheApplied  it is of what was applied last, and not one of a release that was begun anew
//	isApplied(m)    m is the manifest that was applied last
//	wasBegun(m)     m is the manifest of an action that did not complete
//	hasBegun(m)     likewise, and it was made from the wanted inputs
//	isUnfinished    an installation did not complete, whatever its record says
//	isUnmade        an installation has failed and made nothing
//	lost            there was a release, of which no record exists any more

// appliedDigest is the proof of the manifest that was applied last. Until the first success of this process, it
// comes from the status of the custom resource. Whoever can edit release records cannot write there, so that a
// manifest with this digest can be trusted.
func (a *actionClient) appliedDigest() string {
	return cmp.Or(a.state().Digest, a.inStatus("digest"))
}

// recordProof is the proof of the metadata of the record of what was applied last.
func (a *actionClient) recordProof() string { return cmp.Or(a.state().Record, a.inStatus("record")) }

// prove finds out whether the metadata of the newest record is as the operator wrote it when it last knew that
// the objects are as the chart wants them. If not, the inputs and children in it are only hints: the chart is
// rendered, and the objects are looked at. That is also so where the operator was killed between the record and
// the status, and where version 0.1.0 wrote the status.
func (a *actionClient) prove() {
	if a.proven = a.current.IsProven(a.recordProof()); a.proven {
		a.current.Children = a.knownChildren() // not what somebody may have written into the record
	}
}

// knownChildren are the objects of the release as they were applied last, nil if nothing trustworthy lists
// them. Until the first success of this process, the status does.
func (a *actionClient) knownChildren() []object.Child {
	if state := a.state(); state.Record != "" {
		return state.Children
	}
	return object.Children(a.inStatus("children"))
}

// isUnfinished is whether the newest record is of an installation that did not complete. Its record says
// deployed from the start (see operationDriver.Update); only the status says that it has succeeded.
func (a *actionClient) isUnfinished() bool {
	return a.current != nil && a.current.Status == release.StatusDeployed && !a.proven && a.appliedRevision() == 0
}

// isApplied is whether a manifest is the one that was applied last.
func (a *actionClient) isApplied(manifest string) bool {
	return a.key.Proves(a.appliedDigest(), manifest)
}

// lastApplied is the manifest that was applied last, empty if no record has it any more, or somebody has
// changed that record.
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

// isOfTheApplied is whether the record is that of what was applied last. Its creation time tells: another one has
// the same number if records were lost and the release was begun anew.
func (a *actionClient) isOfTheApplied() bool {
	applied := a.inStatus("lastApplied")
	if known := a.state().LastApplied; !known.IsZero() {
		applied = known.UTC().Format(time.RFC3339)
	}
	return applied == a.current.Created.UTC().Format(time.RFC3339)
}

// recordedElsewhere is whether the records are Secrets although the kind may no longer have any. The operator
// may have lost the right to read them.
func (a *actionClient) recordedElsewhere() bool {
	return !a.Secrets && object.Sealed(a.inStatus("digest"))
}

// checkRecords fails if the owner may not have a release record where it would be created.
func (a *actionClient) checkRecords() error {
	if a.recordedElsewhere() {
		return notAllowed{errors.New("not allowed: the release is recorded in Secrets, and the operator's watches.yaml allows this kind no Secrets any longer. " +
			"Nothing of it is changed until secrets: true is set there again, or the custom resource is deleted and made anew")}
	}
	return a.store.CheckName(a.ctx)
}

// trustInputs is for a record that is not proven. It is true if the status says that what was applied last was
// made from the wanted inputs, whatever was allowed then. The record is then taken to say the same, so that
// somebody who edits it does not cause a rendering, perhaps with another password.
func (a *actionClient) trustInputs() bool {
	applied, ok := a.appliedAsWanted()
	if ok && a.current.Status == release.StatusDeployed { // else the record is of another attempt, which has failed
		a.current.Inputs, a.current.MadeFrom, a.current.Capabilities, a.current.Lookups = applied.Inputs, "", applied.Capabilities, applied.Lookups
	}
	return ok
}

// appliedAsWanted is what inputsOf keeps of the last applied release, and whether that was made from the wanted
// inputs, whatever was allowed then.
func (a *actionClient) appliedAsWanted() (applied record.Record, ok bool) {
	digests := strings.Split(cmp.Or(a.state().Inputs, a.inStatus("inputs")), "/")
	if len(digests) != 3 || !a.matchesWanted(digests[0]) {
		return record.Record{}, false
	}
	return record.Record{Inputs: digests[0], Capabilities: digests[1], Lookups: digests[2]}, true
}

// inputsOf are the digests of a record that appliedAsWanted reads.
func inputsOf(r *record.Record) string {
	return strings.Join([]string{cmp.Or(r.MadeFrom, r.Inputs), r.Capabilities, r.Lookups}, "/")
}

// provenChildren are the objects of the release as the record lists them. They are nil if the record is not
// proven, or has more than the status lists and nobody has looked at them since the operator started.
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

// unownedChildren are the objects of the release without an owner reference. Until the first success of this
// process, the status lists them.
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

// maxAhead bounds how many failed revisions there can be after the one that was applied last.
const maxAhead = 1_000_000

// appliedRevision is the revision that was applied last, 0 if none is known.
func (a *actionClient) appliedRevision() int {
	return cmp.Or(a.state().Revision, int(a.numberInStatus("revision")))
}

// appliedGeneration is the generation of the custom resource that was applied last. Until the first success of
// this process, the status knows it. It is 0, which counts as edited, if an older version of the operator wrote
// the status.
func (a *actionClient) appliedGeneration() int64 {
	return cmp.Or(a.state().Generation, a.numberInStatus("generation"))
}

// lost is whether there was a release, but no record of it exists any more. Its hooks have run, and are not run
// again: whoever may delete records need not be allowed what hooks do.
func (a *actionClient) lost() bool { return a.current == nil && a.appliedRevision() > 0 }

// numberInStatus is a number in what the custom resource's status says of the release, 0 if it says none.
func (a *actionClient) numberInStatus(field string) int64 {
	number, _, _ := unstructured.NestedInt64(a.owner.Object, "status", "release", field)
	return number
}

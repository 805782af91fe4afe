package release

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// actionClient acts on the release of one custom resource during one reconcile. The library's reconciler calls, in
// this order, Get, Upgrade as a dry run and, depending on their answers, Install, Upgrade or Reconcile. While nothing
// has to be done, all answers come from the metadata of the newest record. Get is here; the others are in install.go,
// upgrade.go and repair.go (Reconcile).
//
// The fields below are filled in by the steps of that sequence, in the order in which they stand here.
type actionClient struct {
	*Kind
	ctx    context.Context // of the reconcile: the library's interface has none
	owner  *unstructured.Unstructured
	report func(message string) // told of what a record names although the owner has no right to it
	store  *record.Store
	key    object.Key // of digests, empty if the kind has no Secrets

	// What Get finds:
	current     *record.Record // the newest record, nil if there is none
	proven      bool           // whether current is known to have been written by the operator
	storedProof string         // proof of current as it is stored
	getErr      error          // why Get has failed
	unmade      *record.Record // the record of an installation that has made nothing, nil if there is none
	interrupted bool           // whether the release was interrupted, and is to be completed or rolled back

	// What Install, or Upgrade as a dry run, decides (see want, isDue and compare):
	desired
	request       string       // the value of the annotation AskReconcile, empty unless it is due
	inputsProven  bool         // whether the inputs that current names are known to be those of the release
	surroundings  surroundings // of the cluster, as far as they are known
	manifestProof string       // proof of current's manifest, if the chart was rendered and still makes the same
	brake         string       // why no further revision is made for now
	waitFor       string       // why an upgrade is put off
	held          error        // the last failure, while the same inputs are not to be tried again yet
	scheduled     bool         // whether nothing is to be done until the next attempt
	renderErr     error        // why the chart cannot be compared with what is applied, which is repaired all the same

	// What the action itself leaves:
	fought    []string       // those of resting that are not as the chart wants them
	resting   []object.Child // objects not repaired for now, since others change them again each time
	applied   []object.Child // the objects as they were applied, nil if nothing was
	rolledOut bool           // whether an upgrade that fails each time has replaced objects, and was rolled back
	done      []string       // in words, for who has asked by request
}

// desired is what the release is to be made from.
type desired struct {
	chart      *chart.Chart // the kind's, or a copy where Helm would remove disabled subcharts from it
	values     map[string]any
	coalesced  map[string]any // values with the chart's defaults
	inputsJSON string         // all inputs
	asks       questions      // of the chart with these values
	wanted     string         // digest of the inputs
	// wantedPlain is wanted without the key: records that were ConfigMaps have it so.
	wantedPlain string
	// wantedButAllow are both digests without what is allowed, which decides whether a release may be, not what it is.
	wantedButAllow [2]string
}

// Get returns the newest release, without its manifest. A release that was left in the middle of an action
// counts as failed from here on, so that the reconciler upgrades it: objects that exist are adopted, missing
// ones are created. It counts as deployed where the status proves that the action had completed.
func (a *actionClient) Get(string, ...helmclient.GetOption) (*release.Release, error) {
	current, err := a.newest()
	if err != nil {
		a.getErr = err
		return nil, err
	}
	a.current, a.getErr = current, nil
	if current == nil || a.recordedElsewhere() {
		a.current = nil
		return nil, driver.ErrReleaseNotFound
	}
	a.storedProof = current.Proof()
	current.Key = a.key // whatever somebody has written there
	a.prove()
	if a.owner.GetDeletionTimestamp() != nil {
		return a.bareRelease(), nil
	}
	if a.isUnmade() {
		a.unmade, a.current = current, nil
		return nil, driver.ErrReleaseNotFound
	}
	if (orphaned(current.Status) || a.isUnfinished()) && a.isOthers() {
		return nil, fmt.Errorf("operator %q has begun a release of this custom resource a moment ago", current.Operator)
	}
	if orphaned(current.Status) {
		if err := a.recover(); err != nil {
			return nil, err
		}
	}
	if a.current == nil {
		return nil, driver.ErrReleaseNotFound
	}
	return a.bareRelease(), nil
}

// isOthers is whether another operator has made the record since the custom resource was read, which no
// operator had claimed then. If this operator has taken the custom resource over from another one, the status
// says so by its claim.
func (a *actionClient) isOthers() bool {
	return a.current.Operator != "" && a.current.Operator != a.clients.operator && ClaimedBy(a.owner) != a.clients.operator
}

// newest is the newest record. A record whose revision is too far ahead to be the operator's is deleted: no
// upgrade could follow one with the highest number.
func (a *actionClient) newest() (*record.Record, error) {
	for range record.MaxHistory {
		current, err := a.store.Newest(a.ctx)
		if current == nil || err != nil || current.Revision <= a.appliedRevision()+maxAhead {
			return current, err
		}
		a.report(fmt.Sprintf("release record %s is nobody's: deleted", current.Name))
		if err := a.store.Delete(a.ctx, current.Name, metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
	}
	a.schedule.after(a.owner, time.Second)
	return nil, fmt.Errorf("somebody has written release records that are nobody's: %d are deleted, and the next reconcile goes on", record.MaxHistory)
}

// bareRelease is the current release as far as the reconciler has to know it.
func (a *actionClient) bareRelease() *release.Release {
	return &release.Release{
		Name:      a.owner.GetName(),
		Namespace: a.owner.GetNamespace(),
		Version:   a.current.Revision,
		Info:      &release.Info{Status: a.current.Status},
	}
}

// remembered is what is remembered of the custom resource, and remember changes that.
func (a *actionClient) remembered() note { return a.clients.ledger.read(a.owner.GetUID()) }

func (a *actionClient) remember(change func(*note)) { a.clients.ledger.write(a.owner.GetUID(), change) }

// state is what is known of the release, the zero value if it was not reconciled since the operator started.
func (a *actionClient) state() State { return a.clients.ledger.state(a.owner.GetUID()) }

// failure of the last action, the zero value if it succeeded.
func (a *actionClient) failure() failure { return a.remembered().failure }

// recorded is the newest record, whole.
func (a *actionClient) recorded() (*release.Release, error) {
	rel, err := a.store.Releases().Get(a.owner.GetName(), a.current.Revision)
	if err != nil {
		return nil, fmt.Errorf("read release record %s: %w", a.current.Name, err)
	}
	return rel, nil
}

// want finds out what the release is to be made from, and whether that is held back.
func (a *actionClient) want(coalesced map[string]any) (err error) {
	a.takeRequest()
	if a.desired, err = a.desire(coalesced); err != nil {
		return err
	}
	if a.asks.capabilities {
		a.surroundings.Capabilities = a.clients.capabilities.digest()
	}
	a.believe()
	switch decide(a.observe()) {
	case mustWait:
		a.held = a.hold(a.failure())
		return nil
	case isUnchanged: // and was rendered once
		return nil
	}
	err = a.checkTexts(a.values, a.inputsJSON)
	if err == nil && a.source.incomplete {
		err = checkSubcharts(a.Chart, coalesced)
	}
	if err != nil {
		a.failed(err) // so that the next attempt is scheduled, and nothing done until then
		a.held = err
	}
	return nil
}

// desire computes what the release is to be made from: the spec, into which Translate has put the overrides. coalesced
// is that with the chart's defaults. It counts for the digests, but is not what Helm is given: a default that the spec
// has removed by null would be back.
func (a *actionClient) desire(coalesced map[string]any) (desired, error) {
	spec, err := a.spec()
	if err != nil {
		return desired{}, err
	}
	allow := a.Allow
	allow.Options, allow.Adopt = nil, false // they say how an action goes, and not what it makes
	wanted := inputs{Chart: a.source.digest, Allow: allow, Values: coalesced}
	text, err := wanted.text()
	if err != nil {
		return desired{}, err
	}
	digests := func(text string) [2]string {
		return [2]string{a.key.Digest([]byte(text)), object.Plain.Digest([]byte(text))}
	}
	all := digests(text)
	butAllow := all
	if !reflect.ValueOf(allow).IsZero() {
		wanted.Allow = object.Allow{}
		text, err := wanted.text()
		if err != nil {
			return desired{}, err
		}
		butAllow = digests(text)
	}
	return desired{
		chart: Private(a.Chart), values: spec, coalesced: coalesced, inputsJSON: text, asks: a.source.questions(text),
		wanted: all[0], wantedPlain: all[1], wantedButAllow: butAllow,
	}, nil
}

// spec of the custom resource, with the overrides in it.
func (a *actionClient) spec() (map[string]any, error) {
	spec, _, err := unstructured.NestedMap(a.owner.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	return spec, nil
}

// believe finds out whether the inputs that the record names can be believed. A record that was a ConfigMap has
// digests without the key: they are replaced by those with it.
func (a *actionClient) believe() {
	if a.current == nil {
		return
	}
	a.inputsProven = a.proven || a.trustInputs()
	if a.current.Inputs == a.wantedPlain {
		a.current.Inputs = a.wanted
	}
	if a.isOfWanted() {
		a.current.MadeFrom = a.madeFrom()
	}
}

// observe gathers what decide needs.
func (a *actionClient) observe() observation {
	failed := a.failure()
	o := observation{wanted: a.wanted, failed: failed.inputs, until: failed.until, now: time.Now()}
	if a.request != "" || failed.inputs == a.wanted && slices.ContainsFunc(guard.Blocking(failed.err), a.isGone) {
		// It is tried again now. Who has deleted an object as the message says is to get what the chart wants in
		// its place, not the old one back.
		o.failed = ""
	}
	if a.current == nil {
		return o
	}
	o.status, o.recorded, o.alike, o.proven = a.current.Status, a.current.Inputs, a.isAlike(), a.inputsProven
	o.outdated = a.brake == "" && a.remembered().outdated == a.outdated()
	o.asks = a.current.Capabilities != a.surroundings.Capabilities && !a.unsettled() || a.asks.objects && a.looksAgain(o.now)
	return o
}

// madeFrom is what a record made from these inputs has in MadeFrom: their digest without what is allowed, if
// that is another one.
func (a *actionClient) madeFrom() string {
	if a.wantedButAllow[0] == a.wanted {
		return ""
	}
	return a.wantedButAllow[0]
}

// matchesWanted is whether a digest is of the wanted inputs, whatever was allowed when it was made.
func (a *actionClient) matchesWanted(digest string) bool {
	return digest == a.wanted || digest == a.wantedPlain || slices.Contains(a.wantedButAllow[:], digest)
}

// isAlike is whether the release was made from inputs that differ from the wanted ones only in what is allowed.
// They render the same, but have to be judged anew.
func (a *actionClient) isAlike() bool {
	return a.current.Inputs != a.wanted && a.matchesWanted(cmp.Or(a.current.MadeFrom, a.current.Inputs))
}

// unsettled is whether the chart asks for the cluster's APIs while one of them, of which nothing is known yet,
// does not answer.
func (a *actionClient) unsettled() bool {
	return a.asks.capabilities && a.request == "" && !a.clients.capabilities.settled()
}

// outdated identifies inputs and surroundings, for the ledger, that render something else than what was
// applied.
func (a *actionClient) outdated() string { return a.wanted + " " + a.surroundings.Capabilities }

// looksAgain is whether to repeat what the chart looks up. No event tells when the answers change.
func (a *actionClient) looksAgain(now time.Time) bool {
	looked := a.churn().looked
	return a.brake != "" || a.request != "" || looked.IsZero() || a.period() > 0 && now.Sub(looked) >= a.period()
}

// History returns the releases, newest first.
func (a *actionClient) History(name string, _ ...helmclient.HistoryOption) ([]*release.Release, error) {
	releases, err := a.store.Releases().History(name)
	releaseutil.Reverse(releases, releaseutil.SortByRevision)
	return releases, err
}

// Config is nil: each action has one of its own, and nobody asks for another in a reconcile.
func (a *actionClient) Config() *action.Configuration { return nil }

// isOfWanted is whether the record is known to be of what is wanted still.
func (a *actionClient) isOfWanted() bool { return a.inputsProven && a.current.Inputs == a.wanted }

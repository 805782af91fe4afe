package release

import (
	"cmp"
	"context"
	"errors"
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

// actionClient is what one reconcile of one custom resource knows of its release, and acts on it. The
// library's reconciler asks it in this order: Get, Upgrade as a dry run, and then what that calls for:
// Install, Upgrade or Reconcile. As long as nothing has to be done, all answers come from the
// metadata of the newest record. Each of these has a file of its own, Reconcile repair.go; Get is here.
type actionClient struct {
	*Kind
	ctx    context.Context // of the reconcile: the library's interface has none
	owner  *unstructured.Unstructured
	report func(message string) // of what a record names and the owner has no right to
	store  *record.Store

	// What somebody has asked for by an annotation, empty unless it is due, and what of it was done, in words:
	asked string
	done  []string

	// Get finds out:
	current     *record.Record // nil if there is none
	proven      bool           // whether the record is known to be the operator's
	stored      string         // proof of the record as it is stored
	key         object.Key     // of digests, empty if the kind has no Secrets
	unread      error          // why it has failed
	unmade      *record.Record // of an installation that has made nothing, nil if there is none
	interrupted bool           // whether the release was half done, and is to be brought to its end or rolled back

	// Install, or Upgrade as a dry run, finds out:
	chart   *chart.Chart // the kind's, or a copy where Helm would take subcharts out of that
	asks    questions    // of the chart with these values
	values  map[string]any
	whole   map[string]any // the values with the chart's defaults
	text    string         // all inputs, as JSON
	wanted  string         // digest of what the release is to be made from
	plain   string         // the same without the key, by which a record has it that was a ConfigMap
	made    [2]string      // both digests of that but for what is allowed
	known   bool           // whether what the record says of all this is known to be so
	around  surroundings   // of the cluster, as far as they are known
	brake   string         // why no further revision is made for now
	digest  string         // proof of the record's manifest, if the chart was rendered and is the same
	waitFor string         // why an upgrade is put off
	held    error          // the failure of a moment ago, while the same is not to be tried again
	// why what is wanted cannot be compared with what was applied, which is repaired all the same
	unrendered error

	rolledBack bool // whether objects that the API server would all take were put back after an upgrade that failed again

	// Reconcile finds out:
	resting []object.Child // objects that others change again each time that they are put back, until it is time to try again

	// An action that succeeds leaves:
	applied []object.Child // the objects as they were applied, nil if nothing was

	// One that is held back leaves:
	scheduled bool // whether nothing is to be done until the next attempt
}

// Get returns the newest release without its manifest. One that was left in the middle of an action counts as failed from here on, which makes the reconciler
// upgrade it: objects that exist are adopted, what is missing is made. Where the status proves that it had come to its end, it counts as deployed.
func (a *actionClient) Get(string, ...helmclient.GetOption) (*release.Release, error) {
	current, err := a.newest()
	if err != nil {
		a.unread = err
		return nil, err
	}
	a.current, a.unread = current, nil
	if current == nil || a.recordedElsewhere() {
		a.current = nil
		return nil, driver.ErrReleaseNotFound
	}
	a.stored = current.Proof()
	current.Key = a.key // whatever somebody has written there
	a.prove()
	if a.owner.GetDeletionTimestamp() != nil {
		return a.light(), nil
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
	return a.light(), nil
}

// isOthers is whether another operator has made the record since the custom resource was looked at: it had no operator then. One that was taken over says so.
func (a *actionClient) isOthers() bool {
	return a.current.Operator != "" && a.current.Operator != a.clients.operator && ClaimedBy(a.owner) != a.clients.operator
}

// newest is the newest record. One that is too far ahead to be the operator's is deleted: there is none after the highest number, and
// so no upgrade.
func (a *actionClient) newest() (*record.Record, error) {
	for range record.MaxHistory {
		current, err := a.store.Newest(a.ctx)
		if current == nil || err != nil || current.Revision <= a.appliedRevision()+maxAhead {
			return current, err
		}
		a.report(fmt.Sprintf("release record %s is nobody's: deleted", current.Name))
		if err := a.store.Delete(a.ctx, current.Name, metav1.DeleteOptions{}); err != nil {
			return nil, fmt.Errorf("delete release record %s: %w", current.Name, err)
		}
	}
	a.schedule.after(a.owner, time.Second)
	return nil, fmt.Errorf("somebody has written release records that are nobody's: %d are deleted, and the next reconcile goes on", record.MaxHistory)
}

// light is the current release as far as the reconciler needs to know it.
func (a *actionClient) light() *release.Release {
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

// want computes what the release is to be made from: the spec, into which Translate has put the overrides. coalesced, with the chart's defaults in it, says what that comes to, but Helm
// is not given it: a default that null has taken out would be in again.
func (a *actionClient) want(coalesced map[string]any) error {
	a.heed()
	spec, err := a.spec()
	if err != nil {
		return err
	}
	a.chart, a.values, a.whole = Private(a.Chart), spec, coalesced
	allow := a.Allow
	allow.Options, allow.Adopt = nil, false // they say how an action goes, and not what it makes
	wanted := inputs{Chart: a.source.digest, Allow: allow, Values: coalesced}
	text, err := wanted.text()
	if err != nil {
		return err
	}
	a.text, a.wanted, a.plain, a.asks = text, a.key.Digest([]byte(text)), object.Plain.Digest([]byte(text)), a.source.questions(text)
	a.made = [2]string{a.wanted, a.plain}
	if !reflect.ValueOf(allow).IsZero() {
		wanted.Allow = object.Allow{}
		made, err := wanted.text()
		if err != nil {
			return err
		}
		a.made = [2]string{a.key.Digest([]byte(made)), object.Plain.Digest([]byte(made))}
	}
	if a.asks.capabilities {
		a.around.Capabilities = a.clients.capabilities.digest()
	}
	a.believe()
	switch decide(a.observe()) {
	case mustWait:
		a.held = a.hold(a.failure())
		return nil
	case isUnchanged: // and was rendered once
		return nil
	}
	err = a.checkTexts(a.values, text)
	if err == nil && a.source.incomplete {
		err = checkSubcharts(a.Chart, coalesced)
	}
	if err != nil {
		a.failed(err) // so that it is waited, and nothing done
		a.held = err
	}
	return nil
}

// spec of the custom resource, with the overrides in it.
func (a *actionClient) spec() (map[string]any, error) {
	spec, _, err := unstructured.NestedMap(a.owner.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	return spec, nil
}

// believe finds out whether what the record says of its inputs is known to be so, and has it say that with the key: it may have been a ConfigMap.
func (a *actionClient) believe() {
	if a.current == nil {
		return
	}
	a.known = a.proven || a.trustInputs()
	if a.current.Inputs == a.plain {
		a.current.Inputs = a.wanted
	}
	if a.isOfWanted() {
		a.current.MadeFrom = a.madeFrom()
	}
}

// observe is all that decides about the release.
func (a *actionClient) observe() observation {
	failed := a.failure()
	o := observation{wanted: a.wanted, failed: failed.inputs, until: failed.until, now: time.Now()}
	if a.asked != "" || failed.inputs == a.wanted && a.isOutOfTheWay(failed.err) {
		o.failed = "" // it is tried again now
	}
	if a.current == nil {
		return o
	}
	o.status, o.recorded, o.alike, o.proven = a.current.Status, a.current.Inputs, a.isAlike(), a.known
	o.outdated = a.brake == "" && a.remembered().outdated == a.outdated()
	o.asks = a.current.Capabilities != a.around.Capabilities && !a.unsettled() || a.asks.objects && a.looksAgain(o.now)
	return o
}

// isOutOfTheWay is whether an action has failed for an object that is no longer there: who has deleted it, as the message says, is not to have the old one put back, but
// what the chart wants in its place.
func (a *actionClient) isOutOfTheWay(failed error) bool {
	blocked := unchangeable(failed)
	return blocked != nil && a.isGone(*blocked)
}

// unchangeable is the object for which an action has failed, as it cannot become what the chart wants, nil if it is not for that.
func unchangeable(failed error) *object.Child {
	if of, is := errors.AsType[*guard.Unchangeable](failed); is {
		return &of.Object
	}
	return nil
}

// madeFrom is what a record of what is wanted says of it.
func (a *actionClient) madeFrom() string {
	if a.made[0] == a.wanted {
		return ""
	}
	return a.made[0]
}

// isMade is whether a digest is of what is wanted, whatever was allowed then.
func (a *actionClient) isMade(digest string) bool {
	return digest == a.wanted || digest == a.plain || slices.Contains(a.made[:], digest)
}

// isAlike is whether the release was made from what is wanted but for what is allowed, which is to be judged anew and makes no other rendering.
func (a *actionClient) isAlike() bool {
	return a.current.Inputs != a.wanted && a.isMade(cmp.Or(a.current.MadeFrom, a.current.Inputs))
}

// unsettled is whether the chart asks for what the cluster can do while an API does not answer of which nothing is known.
func (a *actionClient) unsettled() bool {
	return a.asks.capabilities && a.asked == "" && !a.clients.capabilities.settled()
}

// outdated names what renders something else than what was applied, for the ledger.
func (a *actionClient) outdated() string { return a.wanted + " " + a.around.Capabilities }

// looksAgain is whether to look up again what the chart looks up: nobody tells when that changes.
func (a *actionClient) looksAgain(now time.Time) bool {
	looked := a.churn().looked
	return a.brake != "" || a.asked != "" || looked.IsZero() || a.period() > 0 && now.Sub(looked) >= a.period()
}

// History returns the releases, newest first.
func (a *actionClient) History(name string, _ ...helmclient.HistoryOption) ([]*release.Release, error) {
	releases, err := a.store.Releases().History(name)
	releaseutil.Reverse(releases, releaseutil.SortByRevision)
	return releases, err
}

// Config is nil: each action has one of its own, and nobody asks for another in a reconcile.
func (a *actionClient) Config() *action.Configuration { return nil }

package release

import (
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// State is what is known of the release of one custom resource.
type State struct {
	// Name is that by which Helm's commands find the release. It is empty while Revision is 0.
	Name string
	// Revision counts the upgrades of the release from 1. It is 0 while nothing was released.
	Revision int
	// Status is Helm's word for how the revision is: deployed, failed.
	Status release.Status
	// Chart and ChartVersion are what the release was made from.
	Chart, ChartVersion string
	// PagePath of the chart, see pagePathAnnotation. It is empty while Revision is 0.
	PagePath string
	// LastApplied is when the record of the revision was made, to the second.
	LastApplied time.Time
	// Generation of the custom resource whose spec is applied, and whose drift was looked for.
	Generation int64
	// Digest proves the manifest that was applied, Record the metadata of its record, and Inputs what of that decides about an upgrade, should
	// somebody change the metadata. They are empty if that was
	// before the operator started and the custom resource's status does not know them either.
	Digest, Record, Inputs string
	// WaitFor is why an upgrade to a new chart version is put off, empty if it is not.
	WaitFor string
	// Waits is what an action waits for that is under way, empty if there is none or it waits for nothing.
	Waits string
	// Children are the objects of the release.
	Children []object.Child
	// Brake is why no further revision is made for now although the rendering differs, empty if one may be.
	Brake string
	// Drift is what of these objects is not as the chart wants it, and stays so for now. It is empty if nothing is.
	Drift Drift
	// Ignored says which annotations of the custom resource have no effect. It is empty if none is without.
	Ignored string
	// Tests are those of the chart that ran last.
	Tests Tests
	// Answer is to the last reconcile that somebody has asked for.
	Answer Answer
	// Err is why the last action failed, nil once one succeeds.
	Err error

	// applied are the objects as this process has applied them, nil if it has not.
	applied []object.Child
}

// ledger remembers, from one reconcile to the next, how the releases are. It is lost with the
// process and filled again by the first reconciles of the next one.
type ledger struct {
	mu    sync.Mutex
	notes map[types.UID]*note
}

// note is what is remembered of one custom resource until that is gone.
type note struct {
	state   State // without its drift
	acted   bool  // whether this operator has acted on it since it started
	failure failure
	// rolledBack is whether nothing is left of the last upgrade that has failed since the operator started: the next one of the same that fails need not be rolled back then.
	rolledBack bool
	trial      tried
	drift      *drift // nil if there is nothing to remember
	churn      *churn // nil if its chart asks the cluster nothing
	key        object.Key
	// outdated are the inputs and surroundings that are known to render something else than what was applied, lest they are rendered at each reconcile until they are.
	outdated string
	orphaned bool // whether somebody has deleted it who wants to keep its objects: the garbage collector may be done with it before the operator has left it
	// inherited are manifests that other operators have applied, or name what a namesake has left, until there is a revision of this one.
	inherited []string
}

// failure is the last failed action of a custom resource.
type failure struct {
	inputs string
	count  int
	until  time.Time // when to try the same inputs again
	err    error
}

// tried is what came of the last trial of a custom resource.
type tried struct {
	inputs string
	err    error
}

func newLedger() *ledger {
	return &ledger{notes: map[types.UID]*note{}}
}

// read is what is noted of a custom resource, for who changes nothing of it.
func (l *ledger) read(uid types.UID) note {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.notes[uid]; n != nil {
		return *n
	}
	return note{}
}

// write changes what is noted of a custom resource.
func (l *ledger) write(uid types.UID, change func(*note)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notes[uid] == nil {
		l.notes[uid] = &note{}
	}
	change(l.notes[uid])
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.notes, uid)
}

// state of the release of the custom resource with that UID, the zero value if it was not
// reconciled since the operator started.
func (l *ledger) state(uid types.UID) State {
	n := l.read(uid)
	state := n.state
	if n.drift != nil {
		state.Drift = n.drift.told
	}
	return state
}

// key is that of the digests of a custom resource: the one it had so far, or else that of its record, or else a new one.
func (l *ledger) key(uid types.UID, newest *record.Record) (key object.Key) {
	l.write(uid, func(n *note) {
		if n.key == "" {
			n.key = object.NewKey()
			if newest != nil && len(newest.Key) == object.KeyLength {
				n.key = newest.Key
			}
		}
		key = n.key
	})
	return key
}

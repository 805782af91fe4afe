package release

import (
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Digest proves the manifest that was applied, Record the metadata of its record, and Inputs are the
	// digests in that metadata that decide about an upgrade, should somebody change it. They are empty if the
	// release was applied before the operator started and the status does not know them either.
	Digest, Record, Inputs string
	// WaitFor is why an upgrade to a new chart version is put off, empty if it is not.
	WaitFor string
	// Waits is what the action under way waits for, empty if nothing.
	Waits string
	// HookPods select the pods of the hooks that it waits for, none if it waits for none.
	HookPods []metav1.ListOptions
	// HookHasNoPods is whether one of these is a Job without pods.
	HookHasNoPods bool
	// Children are the objects of the release.
	Children []object.Child
	// Brake is why there is no further revision for now although the rendering differs, empty if there may be
	// one.
	Brake string
	// LeavesDrift is whether objects that others change or delete stay so.
	LeavesDrift bool
	// Drift is what of these objects differs from what the chart wants, and stays so for now.
	Drift Drift
	// Ignored says which annotations of the custom resource have no effect, empty if all have.
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

// ledger is what the operator remembers of releases from one reconcile to the next. It is lost with the
// process, and filled again by the first reconciles of the next one.
type ledger struct {
	mu    sync.Mutex
	notes map[types.UID]*note
}

// note is what is remembered of one custom resource until that is gone.
type note struct {
	state   State // without its drift
	acted   bool  // whether this operator has acted on it since it started
	failure failure
	// rolledBack is whether the last failed upgrade of this process was rolled back completely: if its next
	// attempt fails a rehearsal, there is nothing to roll back.
	rolledBack bool
	trial      tried
	drift      *drift // nil if there is nothing to remember
	churn      *churn // nil if its chart asks the cluster nothing
	key        object.Key
	// outdated are inputs and surroundings that are known to render something else than what was applied, lest
	// they are rendered at each reconcile until the upgrade.
	outdated string
	// Whether it was deleted with --cascade=orphan: the garbage collector may be done before the operator sees
	// that.
	orphaned bool
	// inherited are manifests that other operators have applied, or of what a namesake has left, until this
	// release has a revision.
	inherited []string
}

// failure is the last failed action of a custom resource.
type failure struct {
	inputs string
	count  int
	until  time.Time // when to try the same inputs again
	err    error
	// blocking are the objects that people have to delete (guard.Blocking), or have deleted since (actionClient.away).
	blocking []object.Child
}

// tried is the result of the last trial of a custom resource.
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

// key is the key for the digests of a custom resource: the one in use, else that in its record, else a new one.
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

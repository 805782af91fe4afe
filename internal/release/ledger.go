package release

import (
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
)

// pagePathAnnotation in a Chart.yaml tells the path of the URL at which people see what the chart
// deploys. Without it, that is /.
const pagePathAnnotation = "webapp.demo.welcome.domain/page-path"

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
	// LastApplied is when the objects were last applied, to the second.
	LastApplied time.Time
	// Generation of the custom resource whose spec is applied, and whose drift was looked for.
	Generation int64
	// Digest proves the manifest that was applied, Record the metadata of its record, and Inputs what of that decides about an upgrade, should
	// somebody change the metadata. They are empty if that was
	// before the operator started and the custom resource's status does not know them either.
	Digest, Record, Inputs string
	// WaitFor is why an upgrade to a new chart version is put off, empty if it is not.
	WaitFor string
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
	mu       sync.Mutex
	states   map[types.UID]State
	failures map[types.UID]failure
	drifts   map[types.UID]*drift
	churns   map[types.UID]*churn
	tests    map[types.UID]Tests
	answers  map[types.UID]Answer
	outdated map[types.UID]string // the inputs and surroundings that are known to render something else than what was applied
	keys     map[types.UID]object.Key
	orphaned map[types.UID]bool // those that somebody has deleted who wants to keep their objects
	sources  map[*chart.Chart]chartSource
	trials   map[types.UID]tried
	// inherited are manifests that other operators have applied, or name what a namesake has left, until there is a revision of this one.
	inherited map[types.UID][]string
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
	return &ledger{states: map[types.UID]State{}, failures: map[types.UID]failure{}, drifts: map[types.UID]*drift{}, churns: map[types.UID]*churn{}, tests: map[types.UID]Tests{}, answers: map[types.UID]Answer{}, outdated: map[types.UID]string{}, keys: map[types.UID]object.Key{}, orphaned: map[types.UID]bool{}, sources: map[*chart.Chart]chartSource{}, trials: map[types.UID]tried{}, inherited: map[types.UID][]string{}}
}

// state of the release of the custom resource with that UID, the zero value if it was not
// reconciled since the operator started.
func (l *ledger) state(uid types.UID) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.states[uid]
	if d := l.drifts[uid]; d != nil {
		state.Drift = d.told
	}
	state.Tests, state.Answer = l.tests[uid], l.answers[uid]
	return state
}

// knows is whether this operator has acted on that custom resource, and not forgotten it since.
func (l *ledger) knows(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.states[uid]
	return known
}

func (l *ledger) succeed(owner client.Object, chrt *chart.Chart, current *record.Record, digest string, applied []object.Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, owner.GetUID())
	delete(l.inherited, owner.GetUID())
	children := applied
	if applied == nil {
		children, applied = current.Children, l.states[owner.GetUID()].applied
	}
	l.states[owner.GetUID()] = State{
		applied:      applied,
		Name:         current.Release(),
		Revision:     current.Revision,
		Status:       current.Status,
		Chart:        chrt.Name(),
		ChartVersion: chrt.Metadata.Version,
		PagePath:     pagePath(chrt),
		LastApplied:  current.Created,
		Generation:   owner.GetGeneration(),
		Digest:       digest,
		Record:       current.Proof(),
		Inputs:       inputsOf(current),
		Children:     children,
	}
}

func pagePath(c *chart.Chart) string {
	return "/" + strings.TrimPrefix(c.Metadata.Annotations[pagePathAnnotation], "/")
}

// fail remembers a failed action, and returns how long to leave the same inputs alone.
func (l *ledger) fail(owner client.Object, inputs string, err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures[owner.GetUID()]
	if f.inputs != inputs {
		f = failure{inputs: inputs}
	}
	f.count++
	f.err = err
	delay := retryDelay(f.count)
	f.until = time.Now().Add(delay)
	l.failures[owner.GetUID()] = f
	state := l.states[owner.GetUID()]
	state.Err = err
	l.states[owner.GetUID()] = state
	return delay
}

// restored notes what the objects are like that were put back to what was applied last, of which the record has that proof, while what is wanted now fails.
func (l *ledger) restored(uid types.UID, proof string, children []object.Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.states[uid]
	state.Children, state.applied, state.Record = children, children, proof
	l.states[uid] = state
}

// postpone notes why the release stays as it is for now.
func (l *ledger) postpone(owner client.Object, current *record.Record, proven bool, waitFor, brake string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.states[owner.GetUID()]
	state.WaitFor, state.Brake, state.Children, state.Err = waitFor, brake, current.Children, nil
	if proven {
		state.Record = current.Proof()
	}
	l.states[owner.GetUID()] = state
}

func (l *ledger) failure(uid types.UID) failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[uid]
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.states, uid)
	delete(l.failures, uid)
	delete(l.drifts, uid)
	delete(l.churns, uid)
	delete(l.tests, uid)
	delete(l.answers, uid)
	delete(l.outdated, uid)
	delete(l.keys, uid)
	delete(l.orphaned, uid)
	delete(l.inherited, uid)
	delete(l.trials, uid)
}

func (l *ledger) try(uid types.UID, inputs string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trials[uid] = tried{inputs, err}
}

// tried is whether these inputs were tried last, and what came of it.
func (l *ledger) tried(uid types.UID, inputs string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.trials[uid]
	return ok && last.inputs == inputs, last.err
}

func (l *ledger) inherit(uid types.UID, manifest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inherited[uid] = append(l.inherited[uid], manifest)
}

func (l *ledger) inheritedBy(uid types.UID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inherited[uid]
}

// key is that of the digests of a custom resource: the one it had so far, or else that of its record, or else a new one.
func (l *ledger) key(uid types.UID, newest *record.Record) object.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys[uid] == "" {
		l.keys[uid] = object.NewKey()
		if newest != nil && len(newest.Key) == object.KeyLength {
			l.keys[uid] = newest.Key
		}
	}
	return l.keys[uid]
}

func (l *ledger) setTests(uid types.UID, tests Tests) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tests[uid] = tests
}

// setOrphaned remembers what the garbage collector may take off a custom resource before the operator has left it.
func (l *ledger) setOrphaned(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orphaned[uid] = true
}

func (l *ledger) isOrphaned(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.orphaned[uid]
}

// setOutdated remembers that a rendering differs, lest there is one at each reconcile until it is applied. Empty, it is.
func (l *ledger) setOutdated(uid types.UID, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outdated[uid] = by; by == "" {
		delete(l.outdated, uid)
	}
}

func (l *ledger) outdatedBy(uid types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outdated[uid]
}

// source digests a chart once.
func (l *ledger) source(c *chart.Chart) chartSource {
	l.mu.Lock()
	defer l.mu.Unlock()
	src, ok := l.sources[c]
	if !ok {
		src = newChartSource(c)
		l.sources[c] = src
	}
	return src
}

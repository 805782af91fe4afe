package release

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// health of the objects of a release.
type health int

const (
	progressing health = iota
	healthy
	broken
)

// Limits bound how a new chart version is rolled out over the custom resources of a kind.
type Limits struct {
	// MaxConcurrent is how many may be on their way to the new version at a time, at least 1.
	MaxConcurrent int
	// MaxFailures is how many broken ones stop the rollout, at least 1.
	MaxFailures int
}

const (
	// placeTime is how long an upgrade may keep its place. A Deployment has failed after 10 minutes without
	// progress, but somebody can pause it, or make it progress for ever. A custom resource that was ready, and
	// is not again by then, counts as broken.
	placeTime = 15 * time.Minute
	// lastDelay is how long one that is not ready waits at least: after a start, those that are ready have
	// asked by then.
	lastDelay = 5 * time.Second
	// rolloutPoll is how often a release that waits for its turn asks again by itself, in case nothing wakes
	// it. Not more often: thousands may wait.
	rolloutPoll = 2 * time.Minute
)

// Outdated begins the message of Ready while an upgrade to a new chart is put off. The reason follows.
const Outdated = "The chart is not up to date: "

// rollout counts the custom resources of one kind that are being upgraded to a new version of the chart or of
// the operator's overrides. A custom resource that somebody edits does not wait for its turn.
//
// Only what it broke itself stops it: those that were ready when their turn came. Those that are not ready go
// last, and nobody waits for them. In a namespace, many may be broken for reasons of their own: they stop the
// rollout there, and count as one for the other namespaces.
type rollout struct {
	limits Limits
	tell   func(stopped bool)

	mu       sync.Mutex
	stopped  bool // as it was told last
	underway map[types.UID]place
	failed   map[types.UID]string // the namespace
	waiting  map[types.UID]waiter
	last     map[types.UID]waiter // those that are not ready
}

// place of one that is underway.
type place struct {
	namespace string
	ready     bool // before the upgrade
	since     time.Time
}

type waiter struct {
	key          client.ObjectKey
	since, asked time.Time
}

func newRollout(limits Limits, tell func(stopped bool)) *rollout {
	return &rollout{
		limits:   limits,
		tell:     tell,
		underway: map[types.UID]place{},
		failed:   map[types.UID]string{},
		waiting:  map[types.UID]waiter{},
		last:     map[types.UID]waiter{},
	}
}

// admit lets a custom resource be upgraded, or says why it has to wait. It does not say how many others there
// are: the text is in the status of all that wait, and would change with each.
func (r *rollout) admit(owner client.Object, ready bool) (waitFor string) {
	uid, now := owner.GetUID(), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	if r.isFollowed(uid) { // a retry
		return ""
	}
	w := waiter{key: client.ObjectKeyFromObject(owner), since: now, asked: now}
	if before, asked := r.last[uid]; asked && !ready {
		w.since = before.since
	}
	r.forget(uid)
	stops := r.stops()
	switch {
	case stops.at(w.key.Namespace):
		r.say(true)
		waitFor = "the rollout of the new version has stopped, because too many of the upgraded ones are broken"
	case len(r.underway) >= r.limits.MaxConcurrent, !ready && (now.Sub(w.since) < lastDelay || r.othersFirst(stops, now)):
		waitFor = "waiting for the rollout of the new version to others"
	default:
		r.underway[uid] = place{namespace: w.key.Namespace, ready: ready, since: now}
		return ""
	}
	if ready {
		r.waiting[uid] = w
	} else {
		r.last[uid] = w
	}
	return waitFor
}

// expire takes back places that were held for too long.
func (r *rollout) expire(now time.Time) {
	for uid, p := range r.underway {
		if now.Sub(p.since) < placeTime {
			continue
		}
		delete(r.underway, uid)
		if p.ready {
			r.failed[uid] = p.namespace
		}
	}
}

// othersFirst is whether some that were ready are being upgraded, or wait and may be.
func (r *rollout) othersFirst(stops stops, now time.Time) bool {
	for _, p := range r.underway {
		if p.ready {
			return true
		}
	}
	for _, w := range r.waiting {
		if !stops.at(w.key.Namespace) && now.Sub(w.asked) < 2*rolloutPoll { // one that no longer asks holds up nobody
			return true
		}
	}
	return false
}

// stops says in which namespaces the rollout has stopped.
type stops struct {
	broken map[string]int
	limit  int
}

func (r *rollout) stops() stops {
	s := stops{broken: map[string]int{}, limit: r.limits.MaxFailures}
	for _, namespace := range r.failed {
		s.broken[namespace]++
	}
	return s
}

func (s stops) at(namespace string) bool {
	own := s.broken[namespace]
	return len(s.broken)-min(own, 1)+own >= s.limit
}

// anywhere is whether the rollout has stopped in any namespace.
func (s stops) anywhere() bool {
	for namespace := range s.broken {
		if s.at(namespace) {
			return true
		}
	}
	return false
}

// say reports, once, that the rollout has stopped and somebody waits for that, or that it goes on everywhere.
func (r *rollout) say(stopped bool) {
	if r.stopped != stopped {
		r.stopped = stopped
		r.tell(stopped)
	}
}

// follows is whether the rollout has to know how a custom resource fares that need not wait.
func (r *rollout) follows(owner client.Object) bool {
	uid := owner.GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isFollowed(uid) || r.waits(uid)
}

func (r *rollout) isFollowed(uid types.UID) bool {
	_, underway := r.underway[uid]
	_, failed := r.failed[uid]
	return underway || failed
}

func (r *rollout) waits(uid types.UID) bool {
	_, waiting := r.waiting[uid]
	_, last := r.last[uid]
	return waiting || last
}

func (r *rollout) forget(uid types.UID) {
	delete(r.underway, uid)
	delete(r.failed, uid)
	delete(r.waiting, uid)
	delete(r.last, uid)
}

// observe notes how a custom resource fares that does not wait, or no longer. It returns those that are to ask
// again whether it is their turn: as many as may go now, and those whose status would say the wrong reason,
// since the rollout has stopped in their namespace, or goes on there.
func (r *rollout) observe(owner client.Object, h health) (next []client.ObjectKey) {
	uid := owner.GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, counts := r.failed[uid]
	counts = counts || r.underway[uid].ready
	if counts && h == progressing || !r.isFollowed(uid) && !r.waits(uid) {
		return nil
	}
	before := r.stops()
	r.forget(uid)
	if counts && h == broken {
		r.failed[uid] = owner.GetNamespace()
	}
	return r.next(before)
}

// edited drops a custom resource that somebody edits, unless it was broken before: what becomes of it is due to
// the edit.
func (r *rollout) edited(owner client.Object) (next []client.ObjectKey) {
	return r.drop(owner, func(uid types.UID) bool { _, failed := r.failed[uid]; return !failed })
}

// notBegun frees the place of a custom resource whose upgrade could not begin. It is not broken.
func (r *rollout) notBegun(owner client.Object) (next []client.ObjectKey) {
	return r.drop(owner, func(uid types.UID) bool { _, underway := r.underway[uid]; return underway })
}

// leave drops a custom resource that is gone or paused: nothing tells any more how it fares.
func (r *rollout) leave(owner client.Object) (next []client.ObjectKey) {
	return r.drop(owner, func(types.UID) bool { return true })
}

// drop forgets a custom resource if those is true of it, and returns, as observe does, who is to ask again.
func (r *rollout) drop(owner client.Object, those func(types.UID) bool) (next []client.ObjectKey) {
	uid := owner.GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !those(uid) || !r.isFollowed(uid) && !r.waits(uid) {
		return nil
	}
	before := r.stops()
	r.forget(uid)
	return r.next(before)
}

func (r *rollout) next(before stops) (next []client.ObjectKey) {
	now := r.stops()
	if !now.anywhere() {
		r.say(false)
	}
	told := maps.Equal(before.broken, now.broken)
	free := r.limits.MaxConcurrent - len(r.underway)
	wake := func(waiting map[types.UID]waiter, goes bool) {
		for _, w := range waiting {
			stopped := now.at(w.key.Namespace)
			switch {
			case told && (free <= 0 || !goes):
				return
			case goes && !stopped && free > 0:
				free--
				next = append(next, w.key)
			case before.at(w.key.Namespace) != stopped:
				next = append(next, w.key)
			}
		}
	}
	wake(r.waiting, true)
	wake(r.last, !r.othersFirst(now, time.Now()))
	return next
}

package status

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// An unhealthy release is looked at again, pods included, after as long as its outage lasts,
	// within these bounds. With a shorter first one, a rollout of six minutes whose reason changes
	// at every look would cost more than 10 writes.
	firstLook = 8 * time.Second
	lastLook  = time.Minute
	// lastDetails bounds for how long counts and messages are not written for the same reason.
	lastDetails = 5 * time.Minute
)

// outage is the time in which objects of a release are not healthy. An edit begins a new one, lest its outcome
// is reported late because the outage before has lasted long. Another reason does not: with a tight quota, a
// rollout changes it with every pod.
type outage struct {
	generation int64
	since      time.Time
	look       time.Time // when to look again
	details    time.Time // when changes of mere counts and messages may be written next
}

// status computes the status that follows previous, and whether to write it.
func (r *Reporter) status(ctx context.Context, owner *unstructured.Unstructured, previous Status, reported []metav1.Condition) (Status, bool) {
	seen := r.observe(ctx, owner, reported)
	if _, failed := failure(reported); failed {
		// The next attempt may be ten minutes away, or 17 if the controller schedules it.
		r.releases.Requeue(owner, lastLook)
	}
	if len(seen.state.HookPods) > 0 {
		seen.pods = r.pods(ctx, seen)
	}
	status, v := next(previous, seen)
	if v.ready == metav1.ConditionTrue && !previous.wasReady(seen) && r.countEnding(ctx, seen) {
		status, v = next(previous, seen)
	}
	if !v.unhealthy {
		r.forget(owner.GetUID())
		return status, !equality.Semantic.DeepEqual(previous, status)
	}
	now, same := seen.now.Time, sameButForDetails(previous, status)
	o, known := r.outage(owner.GetUID())
	if o.generation != seen.generation {
		o = outage{generation: seen.generation, since: now}
	}
	requeue := func(wait time.Duration) {
		if v.again > 0 {
			wait = min(wait, v.again)
		}
		r.releases.Requeue(owner, wait)
	}
	if wait := o.look.Sub(now); same && wait > 0 {
		requeue(wait)
		return status, false
	}
	// Most rollouts are over before the first look: what was healthy until now costs no list.
	if known || same {
		seen.pods = r.pods(ctx, seen)
		status, _ = next(previous, seen)
	}
	lasts := max(now.Sub(o.since), firstLook)
	// A rollout changes its counts and messages all the time: they are written ever more rarely.
	changed := !same || previous.condition(Ready).Reason != status.condition(Ready).Reason ||
		!now.Before(o.details) && !equality.Semantic.DeepEqual(previous, status)
	if changed {
		o.details = now.Add(min(lasts, lastDetails))
	}
	o.look = now.Add(min(lasts, lastLook))
	r.remember(owner.GetUID(), o)
	requeue(o.look.Sub(now))
	return status, changed
}

// sameButForDetails is whether two statuses differ only in what a rollout keeps changing.
func sameButForDetails(a, b Status) bool {
	return equality.Semantic.DeepEqual(withoutDetails(a), withoutDetails(b))
}

func withoutDetails(s Status) Status {
	s = s.clone()
	s.Replicas, s.ReadyReplicas = 0, 0
	for i := range s.Conditions {
		switch s.Conditions[i].Type {
		case Ready, Reconciling, Stalled:
			s.Conditions[i].Reason, s.Conditions[i].Message = "", ""
		}
	}
	return s
}

func (r *Reporter) outage(uid types.UID) (o outage, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known = r.outages[uid]
	return o, known
}

func (r *Reporter) remember(uid types.UID, o outage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outages[uid] = o
}

// lookAgain makes the next status of an outage be computed and written at once, since the last one could not
// be.
func (r *Reporter) lookAgain(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, known := r.outages[uid]; known {
		o.look, o.details = time.Time{}, time.Time{}
		r.outages[uid] = o
	}
}

func (r *Reporter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.outages, uid)
}

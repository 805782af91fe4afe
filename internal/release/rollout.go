package release

import (
	"sync"

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

// rollout counts the custom resources of one kind on their way to a new version of the chart or of
// what the operator pins. A custom resource that somebody edits does not wait for it.
type rollout struct {
	limits Limits

	mu       sync.Mutex
	underway map[types.UID]bool
	failed   map[types.UID]bool
	waiting  map[types.UID]client.ObjectKey
}

func newRollout(limits Limits) *rollout {
	return &rollout{limits: limits, underway: map[types.UID]bool{}, failed: map[types.UID]bool{}, waiting: map[types.UID]client.ObjectKey{}}
}

// admit lets a custom resource go over to the new version, or says why it has to wait. How many
// there are is not said: the text stands in the status of all that wait, and would change with each.
func (r *rollout) admit(owner client.Object) (waitFor string) {
	uid := owner.GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.underway[uid] || r.failed[uid]: // a retry
	case r.stopped():
		waitFor = "the rollout of the new version has stopped, because too many of the upgraded ones are broken"
	case len(r.underway) >= r.limits.MaxConcurrent:
		waitFor = "waiting for the rollout of the new version to others"
	default:
		r.underway[uid] = true
	}
	if waitFor != "" {
		r.waiting[uid] = client.ObjectKeyFromObject(owner)
	} else {
		delete(r.waiting, uid)
	}
	return waitFor
}

func (r *rollout) stopped() bool { return len(r.failed) >= r.limits.MaxFailures }

// follows is whether it matters how a custom resource fares.
func (r *rollout) follows(owner client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.underway[owner.GetUID()] || r.failed[owner.GetUID()]
}

// observe notes how a custom resource fares, and returns those who are to ask again whether it is their
// turn: as many as may go now, or all, when what they wait for is no longer what they say.
func (r *rollout) observe(owner client.Object, h health) (next []client.ObjectKey) {
	uid := owner.GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	if h == progressing || !r.underway[uid] && !r.failed[uid] {
		return nil
	}
	stopped := r.stopped()
	delete(r.underway, uid)
	delete(r.failed, uid)
	if h == broken {
		r.failed[uid] = true
	}
	for _, key := range r.waiting {
		if stopped == r.stopped() && (stopped || len(r.underway)+len(next) >= r.limits.MaxConcurrent) {
			break
		}
		next = append(next, key)
	}
	return next
}

// leave drops a custom resource that is gone or paused: nobody looks any more how it fares.
func (r *rollout) leave(owner client.Object) (next []client.ObjectKey) {
	next = r.observe(owner, healthy)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, owner.GetUID())
	return next
}

package release

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
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

// rollout counts the custom resources of one kind on their way to a new chart version. A
// custom resource that somebody edits does not wait for it.
type rollout struct {
	limits Limits

	mu       sync.Mutex
	underway map[types.UID]bool
	failed   map[types.UID]bool
}

func newRollout(limits Limits) *rollout {
	return &rollout{limits: limits, underway: map[types.UID]bool{}, failed: map[types.UID]bool{}}
}

// admit lets a custom resource go over to the new version, or says why it has to wait.
func (r *rollout) admit(uid types.UID) (waitFor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.underway[uid] || r.failed[uid]: // a retry
		return ""
	case len(r.failed) >= r.limits.MaxFailures:
		return fmt.Sprintf("the rollout of the new chart version has stopped: %d of the upgraded ones are broken", len(r.failed))
	case len(r.underway) >= r.limits.MaxConcurrent:
		return fmt.Sprintf("waiting for the rollout of the new chart version: %d are underway", len(r.underway))
	}
	r.underway[uid] = true
	return ""
}

// follows is whether it matters how a custom resource fares.
func (r *rollout) follows(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.underway[uid] || r.failed[uid]
}

// observe notes how a custom resource fares. Others go on when it is healthy.
func (r *rollout) observe(uid types.UID, h health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.underway[uid] && !r.failed[uid] {
		return
	}
	switch h {
	case progressing:
	case broken:
		delete(r.underway, uid)
		r.failed[uid] = true
	case healthy:
		delete(r.underway, uid)
		delete(r.failed, uid)
	}
}

// forget drops a custom resource that is gone.
func (r *rollout) forget(uid types.UID) { r.observe(uid, healthy) }

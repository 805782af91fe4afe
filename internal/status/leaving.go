package status

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

const (
	// leavingLimit is how long after a rollout its old pods may keep a Deployment from being healthy. One that
	// hangs must not hold up those who wait for Ready.
	leavingLimit = 30 * time.Second
	// leavingCheck is how often pods are listed until then, where Deployments do not count those that are
	// terminating.
	leavingCheck = time.Second
)

// leaving is nil unless old pods of a healthy Deployment are still terminating. They still answer requests:
// somebody who has waited for Ready could get the old page. StatefulSets and DaemonSets replace a pod only once
// it is gone.
func (o childState) leaving(now time.Time) *verdict {
	left := o.mayLeave(now)
	pods, counted := o.ending()
	if left == 0 || pods == 0 {
		return nil
	}
	if !counted {
		left = min(left, leavingCheck)
	}
	return &verdict{
		ready: metav1.ConditionFalse, reason: ReasonProgressing, reconciling: true, unhealthy: true, again: left,
		message: fmt.Sprintf("%s is rolled out, and its former pods are ending: waiting until they are gone, for %s at most.", o, leavingLimit),
	}
}

// starting is nil unless a Job goes on of which no pod has run: its image may be missing, say, or a quota refuse its
// pods, which only events say.
func (o childState) starting(now time.Time) *verdict {
	if !o.isJob() || o.live == nil || count(o.live, "ready")+count(o.live, "succeeded")+count(o.live, "failed") > 0 {
		return nil
	}
	v := &verdict{ready: metav1.ConditionFalse, reason: ReasonProgressing, reconciling: true, unhealthy: true}
	parallelism, set, _ := unstructured.NestedInt64(o.live.Object, "spec", "parallelism")
	switch {
	case count(o.live, "active") > 0:
		v.message = fmt.Sprintf("%s: none of its pods runs yet.", o)
	case object.IsSuspended(o.live) || set && parallelism == 0 || !object.HasNoPods(o.live):
		return nil
	default:
		v.message = fmt.Sprintf("%s has no pods. If it stays so, see who refuses them: kubectl -n %s describe job/%s.", o, o.live.GetNamespace(), o.Name)
		text, _, _ := unstructured.NestedString(o.live.Object, "status", "startTime")
		if begun, err := time.Parse(time.RFC3339, text); err == nil && now.Sub(begun) > object.PodsDue {
			v.reason = ReasonJobHasNoPods
		}
	}
	return v
}

// wasReady is whether this revision was Ready before. Pods that terminate since then are not old ones: somebody
// has scaled down. Nor does a Job start whose pod fails now and then and is started again.
func (s Status) wasReady(seen observation) bool {
	return s.condition(Ready).Status == metav1.ConditionTrue && s.Release != nil && s.Release.Revision == int64(seen.state.Revision)
}

// mayLeave is for how long the old pods of the last rollout may still be waited for. The Deployment's
// controller says when that completed. If its clock and ours are far apart, nothing is waited for.
func (o childState) mayLeave(now time.Time) time.Duration {
	if o.APIVersion != "apps/v1" || o.Kind != "Deployment" || o.live == nil {
		return 0
	}
	conditions, _, _ := unstructured.NestedSlice(o.live.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] != "Progressing" || c["reason"] != "NewReplicaSetAvailable" {
			continue
		}
		updated, _ := c["lastUpdateTime"].(string)
		done, err := time.Parse(time.RFC3339, updated)
		if since := now.Sub(done); err == nil && since.Abs() < leavingLimit {
			return leavingLimit - since
		}
	}
	return 0
}

// ending is how many pods of a Deployment are terminating, and whether its controller counts them, as since
// Kubernetes 1.35. If not, it is what countEnding has found.
func (o childState) ending() (pods int64, counted bool) {
	pods, counted, _ = unstructured.NestedInt64(o.live.Object, "status", "terminatingReplicas")
	if !counted {
		pods = o.listed
	}
	return pods, counted
}

// countEnding lists the pods of Deployments that have just been rolled out, if nothing counts the terminating
// ones, and is whether it has found any. A release with a single revision has none.
func (r *Reporter) countEnding(ctx context.Context, seen observation) bool {
	found := false
	for i := range seen.objects {
		o := &seen.objects[i]
		if seen.state.Revision < 2 || o.mayLeave(seen.now.Time) == 0 {
			continue
		}
		if _, counted := o.ending(); counted {
			continue
		}
		for _, pod := range r.podsOf(ctx, seen.namespace, ofWorkload(o.live), o.String()) {
			if pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				o.listed, found = o.listed+1, true
			}
		}
	}
	return found
}

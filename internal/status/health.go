package status

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// health judges the objects of a release: the first that has failed counts, otherwise the first that waits for a person,
// otherwise the first that is progressing. A Job that has failed comes before all others: it was to migrate the database
// of pods that crash now, say.
func health(previous Status, seen observation) verdict {
	const goesOn, waits, failed, mayBeWhy = 1, 2, 3, 4
	var worst *verdict
	rank := 0
	for _, o := range seen.objects {
		v := o.health()
		if v == nil && !previous.wasReady(seen) {
			v = cmp.Or(o.leaving(seen.now.Time), o.starting(seen.now.Time))
		}
		its := 0
		switch {
		case v == nil:
		case !v.stalled && v.reason == ReasonProgressing:
			its = goesOn
		case !v.stalled:
			its = waits
		case o.isJob():
			its = mayBeWhy
		default:
			its = failed
		}
		if its > rank {
			worst, rank = v, its
		}
	}
	if worst == nil {
		return verdict{ready: metav1.ConditionTrue, reason: ReasonHealthy, message: "The release is applied, and all of its objects are healthy."}
	}
	if reason, message := podTrouble(seen.pods, seen.now.Time); reason != "" && rank < mayBeWhy {
		worst.reason, worst.message = reason, message
	}
	return *worst
}

// health is nil if o is healthy.
func (o childState) health() *verdict {
	v := &verdict{ready: metav1.ConditionFalse, reason: ReasonProgressing, reconciling: true, unhealthy: true}
	if o.Expired { // as failed, since only failed ones are here
		v.reconciling, v.stalled, v.reason = false, true, "JobFailed"
		v.message = fmt.Sprintf("%s has failed, and Kubernetes has deleted it since (ttlSecondsAfterFinished). To have it created and run again: kubectl welcome reconcile --force %s", o, o.called)
		return v
	}
	if o.gone { // with drift repair, it is created again at once
		if o.left {
			v.reason = ReasonObjectDeleted
		}
		v.message = fmt.Sprintf("%s was deleted. If drift is not repaired, have it created again by: kubectl welcome reconcile --force %s", o, o.called)
		return v
	}
	if o.live == nil {
		v.message = fmt.Sprintf("%s is not seen yet as it was applied.", o)
		return v
	}
	if o.unlabelled { // with drift repair, the label should be back
		v.reconciling, v.stalled, v.reason = false, true, "LabelTakenOff"
		v.message = fmt.Sprintf("%s lacks the label %s, so the operator cannot watch it. Let the webhook or policy that removes the label keep it; if drift is not repaired, restore it by: kubectl welcome reconcile --force %s", o, object.ManagedBy(), o.called)
		return v
	}
	result, err := object.Health(o.live)
	switch {
	case err != nil:
		v.message = fmt.Sprintf("%s cannot be judged: %v.", o, err)
		return v
	case result.Status == kstatus.CurrentStatus:
		return nil
	case result.Status == kstatus.FailedStatus:
		v.reconciling, v.stalled = false, true
		v.reason = "Failed"
		if len(result.Conditions) > 0 {
			v.reason = cmp.Or(result.Conditions[0].Reason, v.reason)
		}
	}
	v.message = fmt.Sprintf("%s: %s.", o, cmp.Or(object.Going(o.live), result.Message, string(result.Status)))
	if o.isHeld() {
		v.reason = ReasonRolloutPaused
		v.message += fmt.Sprintf(" Somebody has paused its rollout: kubectl -n %s rollout resume %s/%s.", o.live.GetNamespace(), strings.ToLower(o.Kind), o.Name)
	}
	if reason, message := o.replicaFailure(); reason != "" {
		v.reason, v.message = reason, fmt.Sprintf("%s: %s", o, message)
	}
	return v
}

// isHeld is whether a workload has pods of before because somebody has paused its rollout.
func (o childState) isHeld() bool {
	paused, _, _ := unstructured.NestedBool(o.live.Object, "spec", "paused")
	replicas, _, _ := unstructured.NestedInt64(o.live.Object, "spec", "replicas")
	return paused && o.isWorkload() && count(o.live, "updatedReplicas") < max(int32(replicas), count(o.live, "replicas"))
}

// replicaFailure is why the pods of a workload are not even created.
func (o childState) replicaFailure() (reason, message string) {
	content, err := kstatus.GetObjectWithConditions(o.live.Object)
	if err != nil {
		return "", ""
	}
	for _, c := range content.Status.Conditions {
		if c.Type != "ReplicaFailure" || c.Status != corev1.ConditionTrue {
			continue
		}
		// The name of the pod that could not be made differs from try to try.
		cause := podName.ReplaceAllString(c.Message, "its pods are ")
		p := explain(ReasonPodsRejected, cause)
		if p.reason == "Rejected" {
			p.reason = ReasonPodsRejected
		}
		return p.reason, p.message
	}
	return "", ""
}

var podName = regexp.MustCompile(`^pods "[^"]*" is `)

// pullReasons are the kubelet's words for an image that cannot be had.
var pullReasons = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}

// podTrouble is the worst reason that keeps pods from being ready. Its message is the same for each try of the
// kubelet: else each would cost a write of the status.
func podTrouble(pods []corev1.Pod, now time.Time) (reason, message string) {
	var found []trouble
	for i := range pods {
		if t := troubleOf(&pods[i], now); t != nil {
			found = append(found, *t)
		}
	}
	if len(found) == 0 {
		return "", ""
	}
	worst := slices.MinFunc(found, func(a, b trouble) int {
		return cmp.Or(a.rank-b.rank, strings.Compare(a.message, b.message))
	})
	return worst.reason, worst.message
}

type trouble struct {
	rank            int // 0 is the worst
	reason, message string
}

func troubleOf(pod *corev1.Pod, now time.Time) *trouble {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := ""
		if c.State.Waiting != nil {
			waiting = c.State.Waiting.Reason
		}
		switch {
		case slices.Contains(pullReasons, waiting):
			return &trouble{0, ReasonImagePullFailed, fmt.Sprintf("Pod %q cannot pull the image %s: %s", pod.Name, c.Image, pullCause(c.State.Waiting.Message))}
		case waiting == "CrashLoopBackOff" || c.RestartCount >= 2 && !c.Ready && !isLongUp(c, now):
			return &trouble{1, ReasonCrashLooping, fmt.Sprintf("Container %q of Pod %q keeps ending%s. Look why: kubectl -n %s logs %s -c %s --previous", c.Name, pod.Name, exit(c), pod.Namespace, pod.Name, c.Name)}
		case waiting != "" && waiting != "ContainerCreating" && waiting != "PodInitializing":
			return &trouble{2, ReasonContainerFailed, fmt.Sprintf("Container %q of Pod %q does not start: %s: %s", c.Name, pod.Name, waiting, c.State.Waiting.Message)}
		}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionFalse:
		case c.Type == corev1.PodScheduled && (c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulingGated):
			return &trouble{3, ReasonUnschedulable, fmt.Sprintf("Pod %q finds no node: %s", pod.Name, c.Message)}
		case c.Type == corev1.PodReadyToStartContainers && now.Sub(c.LastTransitionTime.Time) > longHeld: // events say why, which the operator may not read
			return &trouble{2, ReasonContainerFailed, fmt.Sprintf("Pod %q lacks a volume, because of a Secret or ConfigMap that does not exist, say, or the network. What it is: kubectl -n %s describe pod %s", pod.Name, pod.Namespace, pod.Name)}
		}
	}
	return nil
}

// longHeld is how long the kubelet waits for the volumes of a pod until it complains.
const longHeld = 2 * time.Minute

// longUp is how long a container runs until the kubelet no longer takes it for one that crashes.
const longUp = 10 * time.Minute

// isLongUp is whether a container runs for so long that earlier crashes are not why it is not ready.
func isLongUp(c corev1.ContainerStatus, now time.Time) bool {
	return c.State.Running != nil && now.Sub(c.State.Running.StartedAt.Time) > longUp
}

// exit says how a container ended last.
func exit(c corev1.ContainerStatus) string {
	last := c.LastTerminationState.Terminated
	if c.State.Terminated != nil {
		last = c.State.Terminated
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, exit code %d)", last.Reason, last.ExitCode)
}

// pullCause drops the kubelet's "back-off" around the cause, which comes and goes.
func pullCause(message string) string {
	if _, cause, found := strings.Cut(message, "ErrImagePull: "); found {
		return cause
	}
	return message
}

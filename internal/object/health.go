package object

import (
	"cmp"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Health is how an object fares, by the kstatus library (pkg/kstatus/status/core.go of cli-utils 0.37), with
// these corrections:
//
//   - With updateStrategy OnDelete, somebody else decides when a pod gets the new template. The pods must exist
//     and be ready all the same.
//   - A Pod that has failed is not healthy.
//   - A ReplicationController is judged by its pods, like a ReplicaSet.
//   - A PersistentVolumeClaim may wait for its first pod, which need not exist yet. A pod that does exist is
//     not ready before its claim is bound.
//   - A suspended Job has nothing to do.
//   - A Deployment whose rollout is paused tells of no progress; whether all of its pods are updated and
//     available, it does tell.
//   - Some kinds write their observed generation as a text (Argo Rollouts). If kstatus cannot read a kind that
//     is not Kubernetes' own, that says nothing about its health.
func Health(live *unstructured.Unstructured) (*status.Result, error) {
	text := func(path ...string) string {
		text, _, _ := unstructured.NestedString(live.Object, path...)
		return text
	}
	set := func(value any, path ...string) {
		live = live.DeepCopy()
		_ = unstructured.SetNestedField(live.Object, value, path...) // it fails only if a parent is not a map, which the API server does not store
	}
	if live.GetDeletionTimestamp() != nil {
		return status.Compute(live)
	}
	onDelete := text("spec", "updateStrategy", "type") == "OnDelete"
	switch live.GroupVersionKind().GroupKind() {
	case StatefulSet:
		if onDelete {
			replicas, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas")
			set(map[string]any{"rollingUpdate": map[string]any{"partition": replicas}}, "spec", "updateStrategy")
		}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		if paused, _, _ := unstructured.NestedBool(live.Object, "spec", "paused"); paused {
			set(int64(math.MaxInt32), "spec", "progressDeadlineSeconds") // no deadline: kstatus waits for no progress
		}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		if desired, ok, _ := unstructured.NestedFieldNoCopy(live.Object, "status", "desiredNumberScheduled"); ok && onDelete {
			set(desired, "status", "updatedNumberScheduled")
		}
	case schema.GroupKind{Kind: "ReplicationController"}:
		live = live.DeepCopy()
		live.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"})
	case Pod:
		if text("status", "phase") == "Failed" {
			return &status.Result{Status: status.FailedStatus, Message: "it has ended in failure: " + cmp.Or(text("status", "reason"), "its log says why"), Conditions: []status.Condition{{Reason: "PodFailed"}}}, nil
		}
	case Claim:
		if text("status", "phase") == "Pending" {
			return &status.Result{Status: status.CurrentStatus, Message: "it waits for its first pod, or for its volume"}, nil
		}
	case Job:
		if IsSuspended(live) {
			return &status.Result{Status: status.CurrentStatus, Message: "it is suspended"}, nil
		}
	}
	if observed, err := strconv.ParseInt(text("status", "observedGeneration"), 10, 64); err == nil {
		set(observed, "status", "observedGeneration")
	}
	result, err := status.Compute(live)
	if err != nil && !builtIn.Recognizes(live.GroupVersionKind()) {
		return &status.Result{Status: status.CurrentStatus, Message: "its status cannot be read"}, nil
	}
	return result, err
}

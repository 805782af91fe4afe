package object

import (
	"cmp"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Health is how an object fares, as the kstatus library says, which is told what it does not look at (pkg/kstatus/status/core.go of cli-utils 0.37):
//
//   - With updateStrategy OnDelete, somebody else decides when a pod gets the new template. The pods are to be there and ready all the same.
//   - A Pod that has ended in failure is not fine.
//   - The pods of a ReplicationController count as those of a ReplicaSet.
//   - A PersistentVolumeClaim may wait for its first pod, of which there may be none yet. Where there is one, that is not ready before it is bound.
//   - A Job that is suspended has nothing to do.
//   - The observed generation of some kinds is a text (Argo Rollouts), and what it cannot read of a kind that is not Kubernetes' own says nothing of its health.
func Health(live *unstructured.Unstructured) (*status.Result, error) {
	text := func(path ...string) string {
		text, _, _ := unstructured.NestedString(live.Object, path...)
		return text
	}
	set := func(value any, path ...string) {
		live = live.DeepCopy()
		_ = unstructured.SetNestedField(live.Object, value, path...) // what is no map here is none that the API server has
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
		if suspended, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend"); suspended {
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

package object

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsSuspended is whether somebody holds a Job: it makes no pods until that is taken back.
func IsSuspended(job *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
	return suspended
}

// PodsDue is how long a Job may have no pods until somebody has to look: its controller makes them at once, and a queue
// resumes it within seconds.
const PodsDue = 5 * time.Second

// HasNoPods is whether a Job that has not ended has no pods and had none: somebody holds it, or refuses its pods, which
// only events say.
func HasNoPods(job *unstructured.Unstructured) bool {
	status := fields(job.Object["status"])
	for _, pods := range []string{"active", "succeeded", "failed"} {
		if count, _ := status[pods].(int64); count > 0 {
			return false
		}
	}
	isTrue := func(condition any) bool { return field(condition, "status") == "True" } // else it was suspended, say
	return !slices.ContainsFunc(list(status["conditions"]), isTrue)
}

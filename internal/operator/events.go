package operator

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// quietRecorder drops the warnings of the library that the operator overrides values. What
// it pins is no field of the custom resource, so at each release they would tell people of
// something that they have not set.
type quietRecorder struct{ record.EventRecorder }

// Eventf records an event, other than that one.
func (q quietRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	if reason != "ValueOverridden" {
		q.EventRecorder.Eventf(object, eventType, reason, format, args...)
	}
}

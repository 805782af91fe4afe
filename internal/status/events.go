package status

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event about a custom resource.
type event struct{ eventType, reason, message string }

// announce returns the events for the change from one status to the next: a warning when Ready gets another
// cause, and when a pause begins or ends other than by a deletion. What is done to the release is reported by
// the code that does it.
func announce(before, after Status, deleting bool) []event {
	was, is := before.condition(Ready), after.condition(Ready)
	var events []event
	switch {
	case was.Reason != ReasonPaused && is.Reason == ReasonPaused:
		events = append(events, event{corev1.EventTypeNormal, ReasonPaused, is.Message})
	case was.Reason == ReasonPaused && is.Reason != ReasonPaused && !deleting:
		events = append(events, event{corev1.EventTypeNormal, "Resumed", "The annotation that paused it was removed, or is no longer true."})
	}
	if is.Status == metav1.ConditionFalse && is.Reason != ReasonProgressing && is.Reason != ReasonUninstalling &&
		(was.Reason != is.Reason || settled(was.Message) != settled(is.Message)) {
		events = append(events, event{corev1.EventTypeWarning, is.Reason, is.Message})
	}
	return events
}

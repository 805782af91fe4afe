package status

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnnounce(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason, message string) Status {
		return Status{Conditions: []metav1.Condition{{Type: Ready, Status: status, Reason: reason, Message: message}}}
	}
	healthy := ready(metav1.ConditionTrue, ReasonHealthy, "")
	progressing := ready(metav1.ConditionFalse, ReasonProgressing, "Updated: 1/2")
	crashing := ready(metav1.ConditionFalse, "CrashLooping", "pod a")
	paused := ready(metav1.ConditionUnknown, ReasonPaused, "")
	for name, c := range map[string]struct {
		before, after Status
		deleting      bool
		events        []string
	}{
		"the first status":           {Status{}, progressing, false, nil},
		"a rollout":                  {healthy, progressing, false, nil},
		"its end":                    {progressing, healthy, false, nil},
		"a failure":                  {progressing, crashing, false, []string{"Warning CrashLooping"}},
		"the same failure":           {crashing, crashing, false, nil},
		"the failure of another pod": {crashing, ready(metav1.ConditionFalse, "CrashLooping", "pod b"), false, []string{"Warning CrashLooping"}},
		"its end, too":               {crashing, healthy, false, nil},
		"a pause":                    {healthy, paused, false, []string{"Normal Paused"}},
		"a pause that goes on":       {paused, paused, false, nil},
		"its end at last":            {paused, progressing, false, []string{"Normal Resumed"}},
		"an end with a failure":      {paused, crashing, false, []string{"Normal Resumed", "Warning CrashLooping"}},
		"an uninstall":               {healthy, ready(metav1.ConditionFalse, ReasonUninstalling, ""), false, nil},
		"an uninstall after a pause": {paused, ready(metav1.ConditionFalse, ReasonUninstalling, ""), true, nil},
		"one that fails":             {paused, ready(metav1.ConditionFalse, "Forbidden", ""), true, []string{"Warning Forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range announce(c.before, c.after, c.deleting) {
				got = append(got, e.eventType+" "+e.reason)
			}
			if !slices.Equal(got, c.events) {
				t.Errorf("got %q, want %q", got, c.events)
			}
		})
	}
}

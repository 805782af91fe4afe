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
		events        []string
	}{
		"the first status":           {Status{}, progressing, nil},
		"a rollout":                  {healthy, progressing, nil},
		"its end":                    {progressing, healthy, nil},
		"a failure":                  {progressing, crashing, []string{"Warning CrashLooping"}},
		"the same failure":           {crashing, crashing, nil},
		"the failure of another pod": {crashing, ready(metav1.ConditionFalse, "CrashLooping", "pod b"), []string{"Warning CrashLooping"}},
		"its end, too":               {crashing, healthy, nil},
		"a pause":                    {healthy, paused, []string{"Normal Paused"}},
		"a pause that goes on":       {paused, paused, nil},
		"its end at last":            {paused, progressing, []string{"Normal Resumed"}},
		"an end with a failure":      {paused, crashing, []string{"Normal Resumed", "Warning CrashLooping"}},
		"an uninstall":               {healthy, ready(metav1.ConditionFalse, ReasonUninstalling, ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range announce(c.before, c.after) {
				got = append(got, e.eventType+" "+e.reason)
			}
			if !slices.Equal(got, c.events) {
				t.Errorf("got %q, want %q", got, c.events)
			}
		})
	}
}

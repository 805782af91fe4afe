package operator

import (
	"errors"
	"testing"
	"time"
)

func TestCountAction(t *testing.T) {
	count := countAction(testKind)
	count("install", time.Second, nil)
	count("install", time.Second, errors.New(`pods "x" is forbidden: exceeded quota: small`))
	count("install", time.Second, errors.New("something else"))
	got := gather(t, actions)
	for _, sample := range []string{
		"release_actions_total{install,Thing,,success}",
		"release_actions_total{install,Thing,QuotaExceeded,failure}",
		"release_actions_total{install,Thing,Other,failure}",
	} {
		if got[sample] != 1 {
			t.Errorf("%s is missing in %v", sample, got)
		}
	}
	if got := gather(t, durations)["release_action_duration_seconds{install,Thing}"]; got != 3 {
		t.Errorf("%v durations", got)
	}
}

package release

import (
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

func TestDecide(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		observation
		want verdict
	}{
		"no release":                       {observation{wanted: "a"}, needsInstall},
		"same inputs":                      {observation{status: release.StatusDeployed, recorded: "a", wanted: "a", proven: true}, isUnchanged},
		"other inputs":                     {observation{status: release.StatusDeployed, recorded: "a", wanted: "b", proven: true, asks: true}, needsUpgrade},
		"nothing but what is allowed":      {observation{status: release.StatusDeployed, recorded: "a", wanted: "b", alike: true, proven: true}, needsRender},
		"failed, and more is allowed":      {observation{status: release.StatusFailed, recorded: "a", wanted: "b", alike: true, proven: true}, needsUpgrade},
		"record of before digests":         {observation{status: release.StatusDeployed, wanted: "a"}, needsRender},
		"other answers of the cluster":     {observation{status: release.StatusDeployed, recorded: "a", wanted: "a", proven: true, asks: true}, needsRender},
		"known to render something else":   {observation{status: release.StatusDeployed, recorded: "a", wanted: "a", proven: true, asks: true, outdated: true}, needsUpgrade},
		"nothing proves the record":        {observation{status: release.StatusDeployed, recorded: "a", wanted: "a"}, needsRender},
		"other inputs, and no proof":       {observation{status: release.StatusDeployed, recorded: "b", wanted: "a"}, needsRender},
		"failed before a restart":          {observation{status: release.StatusFailed, recorded: "a", wanted: "a"}, needsUpgrade},
		"failed a moment ago":              {observation{status: release.StatusFailed, wanted: "a", failed: "a", until: now.Add(time.Second), now: now}, mustWait},
		"install failed a moment ago":      {observation{wanted: "a", failed: "a", until: now.Add(time.Second), now: now}, mustWait},
		"time to try again":                {observation{status: release.StatusFailed, wanted: "a", failed: "a", until: now, now: now}, needsUpgrade},
		"edited after a failure":           {observation{status: release.StatusFailed, wanted: "b", failed: "a", until: now.Add(time.Hour), now: now}, needsUpgrade},
		"edited back after a failure":      {observation{status: release.StatusDeployed, recorded: "a", wanted: "a", proven: true, failed: "b", until: now.Add(time.Hour), now: now}, isUnchanged},
		"interrupted, taken for a failure": {observation{status: release.StatusFailed, recorded: "", wanted: "a"}, needsUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(c.observation); got != c.want {
				t.Errorf("decide(%+v) = %s, want %s", c.observation, got, c.want)
			}
		})
	}
}

func TestOrphaned(t *testing.T) {
	for status, want := range map[release.Status]bool{
		release.StatusDeployed:        false,
		release.StatusFailed:          false,
		release.StatusSuperseded:      false,
		release.StatusPendingInstall:  true,
		release.StatusPendingUpgrade:  true,
		release.StatusPendingRollback: true,
		release.StatusUninstalling:    true,
		release.StatusUnknown:         true,
	} {
		if got := orphaned(status); got != want {
			t.Errorf("orphaned(%s) = %v", status, got)
		}
	}
}

func TestRetryDelayGrowsUpToItsCap(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := retryDelay(failures, lastRetry); got != want {
			t.Errorf("after %d failures wait %s, want %s", failures, got, want)
		}
	}
	if got := retryDelay(1000, lastRollout); got != 10*time.Minute {
		t.Errorf("what is rolled back each time is tried again after %s", got)
	}
}

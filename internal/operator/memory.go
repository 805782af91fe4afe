package operator

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// nearLimit is from what part of GOMEMLIMIT on the operator says that it needs more. It still works then: what is above is collected ever more
	// often, until that takes most of the CPU.
	nearLimit = 0.8
	// memoryPeriod is how often it looks.
	memoryPeriod = 10 * time.Second
)

// held is what the last collection of garbage has left, and GOMEMLIMIT, both in bytes.
type held struct{ live, limit uint64 }

func heldMemory() held {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)
	return held{live: samples[0].Value.Uint64(), limit: samples[1].Value.Uint64()}
}

// ratio is next to nothing without a limit, which then is the largest number there is.
func (h held) ratio() float64 { return float64(h.live) / float64(h.limit) }

// memoryWatch says in the log when memory comes near its limit, once until it was below it again.
type memoryWatch struct {
	log  logr.Logger
	near bool
}

// Start implements manager.Runnable.
func (w *memoryWatch) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, memoryPeriod, false, func(context.Context) (bool, error) { // it ends with ctx, and only so
		w.look(heldMemory())
		return false, nil
	})
	return nil
}

// NeedLeaderElection is false: who stands by holds as much.
func (w *memoryWatch) NeedLeaderElection() bool { return false }

func (w *memoryWatch) look(now held) {
	near := now.ratio() >= nearLimit
	if near && !w.near {
		w.log.Info("Memory comes near its limit: raise limits.memory and GOMEMLIMIT of the operator's container, as docs/runbook.md#welcomeoperatormemory says",
			"inUseMiB", now.live>>20, "GOMEMLIMITMiB", now.limit>>20)
	}
	w.near = near
}

package operator

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// nearLimit is the part of GOMEMLIMIT from which on the operator warns. It still works then, but the
	// garbage collector runs ever more often, until it takes most of the CPU.
	nearLimit = 0.8
	// memoryPeriod is how often memory is checked.
	memoryPeriod = 10 * time.Second
)

// held is what the last garbage collection has left, and GOMEMLIMIT, both in bytes.
type held struct{ live, limit uint64 }

func heldMemory() held {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)
	return held{live: samples[0].Value.Uint64(), limit: samples[1].Value.Uint64()}
}

// ratio is almost 0 without a limit, which then is the largest number.
func (h held) ratio() float64 { return float64(h.live) / float64(h.limit) }

// memoryWatch logs once that memory comes near its limit, and again only after it was below that.
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

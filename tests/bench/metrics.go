package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// readings are an operator's metrics that tell what it does.
type readings struct {
	reconciles int // that have ended
	waiting    int // in the queue
	working    int
	heap       int64 // the live bytes at the last garbage collection
	goroutines int
	installs   int           // that succeeded
	upgrades   int           // likewise
	onTheirWay int           // custom resources whose status says so, or that they wait
	took       time.Duration // to read these
}

// read asks an operator for its metrics.
func (b *bench) read(ctx context.Context, o *operator) (readings, error) {
	url, token := "http://"+o.Metrics+"/metrics", ""
	if o.ours {
		url, token = "https://"+o.Metrics+"/metrics", b.reader
	}
	start := time.Now()
	status, body, err := kit.Scrape(ctx, url, token)
	if err != nil {
		return readings{}, err
	}
	took := time.Since(start)
	if status != http.StatusOK {
		return readings{}, fmt.Errorf("%s answers %d: %s", url, status, body)
	}
	return readings{
		reconciles: int(kit.Metric(body, "controller_runtime_reconcile_total", "")),
		waiting:    int(kit.Metric(body, "workqueue_depth", "")),
		working:    int(kit.Metric(body, "controller_runtime_active_workers", "")),
		heap:       int64(kit.Metric(body, "go_gc_heap_live_bytes", "")),
		goroutines: int(kit.Metric(body, "go_goroutines", "")),
		installs:   int(kit.Metric(body, "welcome_operator_release_actions_total", `action="install".*result="success"`)),
		upgrades:   int(kit.Metric(body, "welcome_operator_release_actions_total", `action="upgrade".*result="success"`)),
		onTheirWay: int(kit.Metric(body, "welcome_operator_resources", `condition="Reconciling".*status="True"`)),
		took:       took,
	}, nil
}

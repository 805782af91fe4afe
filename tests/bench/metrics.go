package main

import (
	"context"
	"fmt"
	"net/http"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// readings are the metrics of controller-runtime that tell what an operator does.
type readings struct {
	reconciles int // that have ended
	waiting    int // in the queue
	working    int
}

// read asks an operator for its metrics.
func (b *bench) read(ctx context.Context, o *operator) (readings, error) {
	url, token := "http://"+o.Metrics+"/metrics", ""
	if o.ours {
		url, token = "https://"+o.Metrics+"/metrics", b.reader
	}
	status, body, err := kit.Scrape(ctx, url, token)
	if err != nil {
		return readings{}, err
	}
	if status != http.StatusOK {
		return readings{}, fmt.Errorf("%s answers %d: %s", url, status, body)
	}
	return readings{
		reconciles: int(kit.Metric(body, "controller_runtime_reconcile_total", "")),
		waiting:    int(kit.Metric(body, "workqueue_depth", "")),
		working:    int(kit.Metric(body, "controller_runtime_active_workers", "")),
	}, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
)

// trace prints one reconcile that has nothing to do: its steps from the operator's log, and its requests from the API
// server's audit log.
func (b *bench) trace(ctx context.Context) error {
	c := contender{
		name: "welcome-operator", user: "welcome-operator", welcomes: 1, program: ".", ours: true,
		args: []string{"--zap-log-level=debug", "--zap-encoder=console", "--zap-time-encoding=rfc3339nano"},
	}
	if err := b.prepare(ctx, c); err != nil {
		return err
	}
	o, err := b.startAndWait(ctx, c)
	if err != nil {
		return err
	}
	defer o.Stop()
	if err := b.install(ctx, o, 0, 1); err != nil {
		return err
	}
	if err := b.quiet(ctx, o, 1); err != nil {
		return err
	}
	before, err := b.read(ctx, o)
	if err != nil {
		return err
	}
	mark, err := b.Mark(ctx)
	if err != nil {
		return err
	}
	told, err := os.ReadFile(o.Log)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.poke(ctx, c, 1); err != nil {
		return err
	}
	if err := b.quiet(ctx, o, before.reconciles+1); err != nil {
		return err
	}
	progress("poked the Welcome, and waited until the operator was done", start)
	steps, err := os.ReadFile(o.Log)
	if err != nil {
		return err
	}
	requests, err := b.Requests(ctx, mark, controlplane.By(c.user))
	if err != nil {
		return err
	}
	fmt.Printf("\nAn annotation of Welcome %s was changed. The operator's log:\n\n%s\n\nRequests to the API server: %d\n",
		nameOf(0), strings.TrimSpace(string(steps[len(told):])), len(requests))
	if len(requests) > 0 {
		return fmt.Errorf("it should have sent none, and sent %s", requests)
	}
	return nil
}

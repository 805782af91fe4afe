package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// result is what was measured of a contender. What was not measured is zero.
type result struct {
	contender
	// Installing all Welcomes, with all reconciles that it causes.
	children        time.Duration // until all children exist
	settled         time.Duration // until the last request
	installRequests int
	installEvents   int
	installCPU      time.Duration
	// Reconciles that have nothing to do.
	reconciles   int
	idleRequests int
	idleCPU      time.Duration
	// How long single changes of Deployments lasted until they were repaired, the shortest first, and how many were made.
	drifts     []time.Duration
	drifting   int
	driftFirst int // the first that is changed
	// A restart with all Welcomes, until each was reconciled.
	restart         time.Duration
	restartRequests int
	restartWrites   int
	// Memory, in bytes: without any Welcome, after the installation, after the restart with all Welcomes.
	baseRSS, installRSS, restartRSS int64
}

// quietTime is how long an operator must have sent no request to count as done.
const quietTime = 3 * time.Second

// measure runs all measurements of a contender.
func (b *bench) measure(ctx context.Context, c contender) (result, error) {
	r := result{contender: c}
	if err := b.prepare(ctx, c); err != nil {
		return r, err
	}
	if c.program == "" {
		return r, b.measureFloor(ctx, &r)
	}
	o, err := b.startAndWait(ctx, c)
	if err != nil {
		return r, err
	}
	defer func() { o.Stop() }()
	if err := b.phases(ctx, &r, &o); err != nil {
		return r, fmt.Errorf("%w\nlast lines of its log:\n%s", err, o.LastLines(20))
	}
	return r, nil
}

func (b *bench) measureFloor(ctx context.Context, r *result) error {
	start := time.Now()
	if err := b.createObjects(ctx, r.user, r.welcomes); err != nil {
		return err
	}
	r.children, r.installRequests = time.Since(start), 3*r.welcomes
	progress(fmt.Sprintf("created %d Welcomes, Deployments and Services", r.welcomes), start)
	return nil
}

// phases runs o through all phases. The restart replaces it.
func (b *bench) phases(ctx context.Context, r *result, o **operator) error {
	for _, phase := range []func(context.Context, *result, *operator) error{b.measureInstall, b.measureIdle, b.measureDrift} {
		if err := phase(ctx, r, *o); err != nil {
			return err
		}
	}
	if r.more > 0 {
		if err := b.install(ctx, *o, r.welcomes, r.more); err != nil {
			return err
		}
		if err := b.quiet(ctx, *o, 0); err != nil {
			return err
		}
	}
	return b.measureRestart(ctx, r, o)
}

// startAndWait starts a contender and waits until it is ready and quiet.
func (b *bench) startAndWait(ctx context.Context, c contender) (*operator, error) {
	o, err := b.start(c)
	if err != nil {
		return nil, err
	}
	if err := b.ready(ctx, o); err != nil {
		o.Stop()
		return nil, fmt.Errorf("%w\n%s", err, o.LastLines(20))
	}
	return o, b.quiet(ctx, o, 0)
}

// ready waits until the operator's probe succeeds, and its metrics can be read. With 100,000 Welcomes, it has to read
// half a million objects first.
func (b *bench) ready(ctx context.Context, o *operator) error {
	return await(ctx, 15*time.Minute, "the operator is ready", func() (bool, error) {
		if o.HasEnded() {
			return false, errors.New("it ended")
		}
		_, err := b.read(ctx, o)
		return err == nil && o.Ready(ctx) == nil, nil
	})
}

// quiet waits until the operator has ended that many reconciles, none is queued, and it has sent no request for a
// while.
func (b *bench) quiet(ctx context.Context, o *operator, reconciles int) error {
	return await(ctx, 15*time.Minute, "the operator is done", func() (bool, error) {
		mark, err := b.Mark(ctx)
		if err != nil {
			return false, err
		}
		if !pause(ctx, quietTime) {
			return false, ctx.Err()
		}
		now, err := b.read(ctx, o)
		if err != nil || now.reconciles < reconciles || now.waiting+now.working > 0 {
			return false, err
		}
		requests, err := b.Requests(ctx, mark, controlplane.By(o.user))
		return len(requests) == 0, err
	})
}

func (b *bench) measureInstall(ctx context.Context, r *result, o *operator) (err error) {
	if r.baseRSS, err = o.RSS(); err != nil {
		return err
	}
	use, err := b.account(ctx, o)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.install(ctx, o, 0, r.welcomes); err != nil {
		return err
	}
	r.children = time.Since(start)
	if err := b.quiet(ctx, o, r.welcomes); err != nil {
		return err
	}
	requests, cpu, err := use()
	if err != nil {
		return err
	}
	r.installCPU = cpu
	for _, request := range requests {
		r.settled = max(r.settled, request.StageTimestamp.Sub(start))
		if request.Tells() {
			r.installEvents++
		}
	}
	r.installRequests = len(requests) - r.installEvents
	r.installRSS, err = o.RSS()
	progress(fmt.Sprintf("installing them cost %.1fs CPU and %s", cpu.Seconds(), requests), start)
	return err
}

// install creates Welcomes and waits until all children of all Welcomes exist.
func (b *bench) install(ctx context.Context, o *operator, first, count int) error {
	start := time.Now()
	wait, err := b.childrenExist(ctx, o.contender, count)
	if err != nil {
		return err
	}
	if err := b.createWelcomes(ctx, o.contender, first, count); err != nil {
		return err
	}
	progress(fmt.Sprintf("created %d Welcomes", count), start)
	if _, err := wait(); err != nil {
		return err
	}
	progress(fmt.Sprintf("all children of %d Welcomes exist", first+count), start)
	return nil
}

func (b *bench) measureIdle(ctx context.Context, r *result, o *operator) error {
	before, err := b.read(ctx, o)
	if err != nil {
		return err
	}
	use, err := b.account(ctx, o)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.poke(ctx, r.contender, r.pokes); err != nil {
		return err
	}
	if err := b.quiet(ctx, o, before.reconciles+r.pokes); err != nil {
		return err
	}
	requests, cpu, err := use()
	if err != nil {
		return err
	}
	after, err := b.read(ctx, o)
	r.reconciles, r.idleRequests, r.idleCPU = after.reconciles-before.reconciles, len(requests), cpu
	progress(fmt.Sprintf("%d idle reconciles cost %s CPU and %s", r.reconciles, cpu, requests), start)
	return err
}

// drifts is how many Deployments are changed.
const drifts = 200

func (b *bench) measureDrift(ctx context.Context, r *result, o *operator) (err error) {
	start := time.Now()
	r.drifting = min(drifts, r.pokes)
	if r.drifts, err = b.drift(ctx, r.contender, r.driftFirst, r.drifting); err != nil {
		return err
	}
	slices.Sort(r.drifts)
	progress(fmt.Sprintf("%d of %d drifts were repaired, half of them within %s", len(r.drifts), r.drifting, r.driftAt(50)), start)
	return b.quiet(ctx, o, 0)
}

// driftAt is the time in which that percentage of the drifts was repaired. 0 means never.
func (r result) driftAt(percent int) time.Duration {
	if at := (r.drifting*percent + 99) / 100; at > 0 && at <= len(r.drifts) {
		return r.drifts[at-1]
	}
	return 0
}

func (b *bench) measureRestart(ctx context.Context, r *result, o **operator) error {
	(*o).Stop()
	mark, err := b.Mark(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if *o, err = b.start(r.contender); err != nil {
		return err
	}
	if err := b.ready(ctx, *o); err != nil {
		return err
	}
	err = await(ctx, 15*time.Minute, "all are reconciled", func() (bool, error) {
		if !pause(ctx, time.Second) { // reading metrics takes CPU time, too
			return false, ctx.Err()
		}
		now, err := b.read(ctx, *o)
		return now.reconciles >= r.welcomes+r.more && now.waiting+now.working == 0, err
	})
	if err != nil {
		return err
	}
	r.restart = time.Since(start)
	if err := b.quiet(ctx, *o, 0); err != nil {
		return err
	}
	requests, err := b.Requests(ctx, mark, controlplane.By(r.user))
	if err != nil {
		return err
	}
	r.restartRequests = len(requests)
	for _, request := range requests {
		if request.Writes() {
			r.restartWrites++
		}
	}
	r.restartRSS, err = (*o).RSS()
	progress(fmt.Sprintf("a restart with %d Welcomes took %.1fs, %d writes and, in all, %s",
		r.welcomes+r.more, r.restart.Seconds(), r.restartWrites, requests), start)
	return err
}

// account starts to count what an operator uses.
func (b *bench) account(ctx context.Context, o *operator) (use func() (controlplane.Requests, time.Duration, error), err error) {
	mark, err := b.Mark(ctx)
	if err != nil {
		return nil, err
	}
	before, err := o.CPU()
	if err != nil {
		return nil, err
	}
	return func() (controlplane.Requests, time.Duration, error) {
		after, err := o.CPU()
		if err != nil {
			return nil, 0, err
		}
		requests, err := b.Requests(ctx, mark, controlplane.By(o.user))
		return requests, after - before, err
	}, nil
}

// await calls a function until it returns true.
func await(ctx context.Context, patience time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer waiting.While(logf, what)()
	for {
		yes, err := done()
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if yes {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waited %s in vain until %s", patience, what)
		}
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

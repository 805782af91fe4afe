package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

const (
	// loadPeriod is the time between two Welcomes that are created as load.
	loadPeriod = 250 * time.Millisecond
	// dies and stops are how a leader ends: killed, or by a signal.
	dies, stops = "is killed", "is told to stop"
)

// replicas are two processes of this operator, of which one is the leader.
type replicas struct {
	*bench
	contender
	started         int
	leader, standby *operator
	probes          int // Welcomes that were created after a leader had ended
}

// failoverTable measures how soon the standby installs a Welcome that is created after the leader has ended.
func (b *bench) failoverTable(ctx context.Context, o options) (string, error) {
	r := &replicas{bench: b, contender: contender{user: "failover", program: ".", ours: true, args: []string{"--leader-elect", "--leader-election-namespace=default"}}}
	if err := b.prepare(ctx, r.contender); err != nil {
		return "", err
	}
	var err error
	if r.leader, err = r.launch(ctx); err != nil {
		return "", err
	}
	defer func() { r.leader.Stop() }()
	start := time.Now()
	if err := b.createWelcomes(ctx, r.contender, 0, o.count); err != nil {
		return "", err
	}
	if err := b.quiet(ctx, r.leader, 0); err != nil {
		return "", err
	}
	progress(fmt.Sprintf("installed %d Welcomes", o.count), start)
	if r.standby, err = r.launch(ctx); err != nil {
		return "", err
	}
	defer func() { r.standby.Stop() }()

	loading, end := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- r.load(loading, o.count) }()
	var out strings.Builder
	out.WriteString("| the leader | times | p50 | p99 | longest |\n|---|---:|---:|---:|---:|\n")
	for _, way := range []string{dies, stops} {
		var took []time.Duration
		for range o.failover {
			one, err := r.lose(ctx, way)
			if err != nil {
				end()
				return "", errors.Join(fmt.Errorf("a leader that %s: %w", way, err), <-failed)
			}
			took = append(took, one)
			progress(fmt.Sprintf("the leader %s: a Welcome was deployed after %s", way, one.Round(10*time.Millisecond)), time.Now().Add(-one))
		}
		slices.Sort(took)
		fmt.Fprintf(&out, "| %s | %d | %s | %s | %s |\n", way, len(took), fine(took[len(took)/2]), fine(took[len(took)*99/100]), fine(took[len(took)-1]))
	}
	end()
	return out.String(), <-failed
}

func fine(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// launch starts a replica, and waits until it is ready.
func (r *replicas) launch(ctx context.Context) (*operator, error) {
	r.started++
	env := append(slices.Clone(r.deployedEnv), "KUBECONFIG="+r.kubeconfigs[r.user], "RELATED_IMAGE_WELCOME="+image)
	process, err := r.RunOperator(fmt.Sprintf("%s-%d.log", r.user, r.started), env, r.programs[r.user], r.args...)
	if err != nil {
		return nil, err
	}
	o := &operator{r.contender, process}
	return o, r.ready(ctx, o)
}

// load creates Welcomes until ctx ends.
func (r *replicas) load(ctx context.Context, first int) error {
	for number := first; pause(ctx, loadPeriod); number++ {
		if err := r.Client.Create(ctx, newWelcome(r.user, number)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("create the load: %w", err)
		}
	}
	return nil
}

// lose ends the leader, and returns how long it takes until the standby has installed a Welcome that is created
// after that.
func (r *replicas) lose(ctx context.Context, way string) (time.Duration, error) {
	if err := await(ctx, time.Minute, "the leader works", func() (bool, error) { return strings.Contains(r.leader.Text(), "Starting workers"), nil }); err != nil {
		return 0, err
	}
	// By then the standby has read the lease. The leader is at a random point between two renewals.
	pause(ctx, 2*time.Second+rand.N(time.Second))
	r.probes++
	probe := kit.Welcome(r.user, fmt.Sprintf("probe-%d", r.probes), kit.Greet("after "+way), kit.Set("service.type", "ClusterIP"))
	gone := r.leader
	start := time.Now()
	if way == dies {
		gone.Kill()
	} else {
		go gone.Stop()
	}
	if err := r.Client.Create(ctx, probe); err != nil {
		return 0, err
	}
	for {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(probe), probe); err != nil {
			return 0, err
		}
		if deployed, err := kit.Condition(probe, "Deployed"); err == nil && deployed.Status == "True" {
			break
		}
		if time.Since(start) > time.Minute || !pause(ctx, 10*time.Millisecond) {
			return 0, fmt.Errorf("%s is not deployed\n%s", probe.GetName(), r.standby.LastLines(20))
		}
	}
	took := time.Since(start)
	<-gone.Ended
	// In a cluster, its replacement starts on another node or before the stop. Here it would take processors from the
	// standby, so that it is started later.
	r.leader = r.standby
	next, err := r.launch(ctx)
	if next != nil {
		r.standby = next
	}
	return took, err
}

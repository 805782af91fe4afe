package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
	"demo.welcome.domain/welcome-operator/tests/kit"
)

// shardCounts are the numbers of operators with which the same Welcomes are installed.
var shardCounts = []int{1, 2, 4}

// sharded is what was measured of several operators that share the Welcomes.
type sharded struct {
	operators, welcomes int
	installing          time.Duration // until all children exist
	requests            int
	cpu                 map[string]time.Duration // of all operators, and of each other process
	largest, together   int64                    // resident memory of the operators
}

// shardTable installs the same Welcomes with one and with several operators, each time on a new control plane.
func shardTable(ctx context.Context, o options) (string, error) {
	var out strings.Builder
	out.WriteString("| operators | installs a second | requests per install | CPU per install: operators | kube-apiserver | etcd | resident, the largest operator | all of them |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, count := range shardCounts {
		s := sharded{operators: count, welcomes: o.shards}
		if err := onControlPlane(ctx, []string{scaleUser}, func(b *bench) error { return b.shard(ctx, &s) }); err != nil {
			return "", fmt.Errorf("%d shards: %w", count, err)
		}
		row := out.Len()
		fmt.Fprintf(&out, "| %d | %.1f | %s | %s | %s | %s | %s | %s |\n", s.operators, float64(s.welcomes)/s.installing.Seconds(), each(s.requests, s.welcomes),
			milliseconds(s.cpu[operatorProgram], s.welcomes), milliseconds(s.cpu["kube-apiserver"], s.welcomes), milliseconds(s.cpu["etcd"], s.welcomes), megabytes(s.largest), megabytes(s.together))
		fmt.Fprint(os.Stderr, out.String()[row:])
	}
	return out.String(), nil
}

// shard has that many operators install the Welcomes, which are divided by a label.
func (b *bench) shard(ctx context.Context, s *sharded) error {
	c := contender{user: scaleUser, namespaces: scaleNamespaces, welcomes: s.welcomes, program: ".", ours: true}
	played, stopPlaying := context.WithCancel(ctx)
	defer stopPlaying()
	if err := b.prepareMany(ctx, played, c); err != nil {
		return err
	}
	var operators []*operator
	defer func() {
		for _, o := range operators {
			o.Stop()
		}
	}()
	for i := range s.operators {
		part := c
		var err error
		if part.args, err = b.shardArgs(i); err != nil {
			return err
		}
		o, err := b.startAndWait(ctx, part)
		if err != nil {
			return err
		}
		operators = append(operators, o)
	}
	mark, err := b.Mark(ctx)
	if err != nil {
		return err
	}
	use, err := b.accountPrograms(operators...)
	if err != nil {
		return err
	}
	wait, err := b.childrenExist(ctx, c, s.welcomes)
	if err != nil {
		return err
	}
	start := time.Now()
	err = forEach(0, s.welcomes, func(number int) error {
		welcome := c.newWelcome(number)
		welcome.SetLabels(map[string]string{shardLabel: shardName(number % s.operators)})
		return b.Client.Create(ctx, welcome)
	})
	if err != nil {
		return err
	}
	if err := whileAlive(operators, wait); err != nil {
		return err
	}
	s.installing = time.Since(start)
	for _, o := range operators {
		if err := b.quiet(ctx, o, s.welcomes/s.operators); err != nil {
			return err
		}
		held, err := o.RSS()
		if err != nil {
			return err
		}
		s.largest, s.together = max(s.largest, held), s.together+held
	}
	if s.cpu, err = use(); err != nil {
		return err
	}
	requests, err := b.Requests(ctx, mark, controlplane.By(c.user))
	for _, request := range requests {
		if !request.Tells() {
			s.requests++
		}
	}
	progress(fmt.Sprintf("%d operators have installed %d Welcomes, %.1f/s", s.operators, s.welcomes, float64(s.welcomes)/s.installing.Seconds()), start)
	return err
}

// whileAlive is wait that also ends when an operator does.
func whileAlive(operators []*operator, wait func() (map[string]time.Time, error)) error {
	done, ended := make(chan error, 1), make(chan error, len(operators))
	go func() {
		_, err := wait()
		done <- err
	}()
	for _, o := range operators {
		go func() {
			<-o.Ended
			ended <- fmt.Errorf("an operator has ended:\n%s", o.LastLines(20))
		}()
	}
	select {
	case err := <-done:
		return err
	case err := <-ended:
		return err
	}
}

// shardLabel is the label that config/shards selects by.
const shardLabel = "webapp.demo.welcome.domain/shard"

func shardName(i int) string { return fmt.Sprintf("part-%d", i) }

// shardArgs are the arguments of an operator that serves the Welcomes with its label.
func (b *bench) shardArgs(i int) ([]string, error) {
	watches, err := os.ReadFile(kit.File("watches.yaml"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.Dir, shardName(i)+".yaml")
	selector := fmt.Appendf(nil, "  selector:\n    matchLabels: {%s: %s}\n", shardLabel, shardName(i))
	// On shared processors an operator may lose its lease, and nobody would restart it here.
	return []string{"--leader-elect", "--leader-election-lease-duration=15s", "--leader-election-namespace=default", "--shard=" + shardName(i), "--watches-file=" + file},
		os.WriteFile(file, append(watches, selector...), 0o600)
}

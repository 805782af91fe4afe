// Command bench measures, in one run on one control plane, what operators cost that turn Welcomes into Deployments and
// Services: ours, the two stock Helm operators, one written by hand, and the bare creation of the objects as the floor.
// It prints a Markdown table and writes it, with a plot, into docs/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
)

// options say how much to measure.
type options struct {
	count, peers, many int
	only               string
	trace, charts      bool
	failover           int
	scale, shards      int
	limit              time.Duration
	docs, profiles     string
}

func main() {
	var o options
	flag.IntVar(&o.count, "welcomes", 1000, "`Welcomes` for ours and the hand-written operator")
	flag.IntVar(&o.peers, "peer-welcomes", 300, "`Welcomes` for the stock Helm operators, which take longer")
	flag.IntVar(&o.many, "many", 10000, "`Welcomes` for the restart of ours, 0 to leave it out")
	flag.StringVar(&o.only, "only", "", "measure only the contender of that `name`, such as welcome-operator")
	flag.BoolVar(&o.trace, "trace", false, "show the steps of one idle reconcile instead")
	flag.BoolVar(&o.charts, "charts", false, "have the Helm operators take each chart of tests/charts through its life instead")
	flag.IntVar(&o.failover, "failover", 0, "have the leader of two replicas die so `often`, and be told to stop so often, instead")
	flag.IntVar(&o.scale, "scale", 0, "show what ours costs with more and more Welcomes instead, up to that `number`")
	flag.IntVar(&o.shards, "shards", 0, "have one, two and four operators share that `number` of Welcomes instead")
	flag.DurationVar(&o.limit, "limit", 150*time.Minute, "with -scale: the `time` of which two thirds are for creating them; it goes on with as many as there are by then")
	flag.StringVar(&o.profiles, "profiles", "", "with -scale: write a heap profile for each number of Welcomes into that `directory`")
	flag.StringVar(&o.docs, "docs", "", "write the table and the plot into that `directory`, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	if o.shards > 0 {
		table, err := shardTable(ctx, o)
		if err != nil {
			return err
		}
		return tell(o, shardMarks, table, "", "")
	}
	var users []string
	if o.scale > 0 {
		users = []string{scaleUser} // the requests of all others would fill gigabytes
		// Otherwise it would use twice the memory that it needs, 20 GB with 100,000 Welcomes. etcd inherits the variable.
		if err := os.Setenv("GOMEMLIMIT", serverMemory); err != nil {
			return err
		}
	}
	return onControlPlane(ctx, users, func(b *bench) error { return b.run(ctx, o) })
}

// serverMemory is GOMEMLIMIT of kube-apiserver where there are very many Welcomes.
const serverMemory = "16GiB"

// onControlPlane calls a function with a new control plane. Its audit log has the requests of users, or of everybody
// if none are named.
func onControlPlane(ctx context.Context, users []string, do func(*bench) error) (err error) {
	step := time.Now()
	plane, err := controlplane.Start(users...)
	defer func() {
		if stopErr := plane.Stop(); err == nil {
			err = stopErr
		}
	}()
	if err != nil {
		return err
	}
	progress("started kube-apiserver and etcd", step)
	b, err := newBench(ctx, plane)
	if err != nil {
		return err
	}
	return do(b)
}

// run measures what the options ask for.
func (b *bench) run(ctx context.Context, o options) error {
	if o.scale > 0 {
		s, err := b.scale(ctx, o)
		if len(s.steps) > 0 { // after an error, too: they have taken an hour
			err = errors.Join(err, tell(o, scaleMarks, s.table(), "scale.svg", s.plot()))
		}
		return err
	}
	if err := controlplane.RunDeployments(ctx, b.Admin); err != nil {
		return err
	}
	if o.trace {
		return b.trace(ctx)
	}
	if o.charts {
		table, err := b.chartTable(ctx, o)
		if err != nil {
			return err
		}
		return tell(o, chartMarks, table, "", "")
	}
	if o.failover > 0 {
		table, err := b.failoverTable(ctx, o)
		if err != nil {
			return err
		}
		return tell(o, failoverMarks, table, "", "")
	}
	var results []result
	var names []string
	for _, c := range contenders(o) {
		if names = append(names, c.user); o.only != "" && o.only != c.user {
			continue
		}
		if len(results) > 0 { // of a contender that failed, they are lost with the control plane
			if err := b.clean(ctx, results[len(results)-1].contender); err != nil {
				return fmt.Errorf("clean up: %w", err)
			}
		}
		fmt.Fprintf(os.Stderr, "\n%s\n", c.name)
		r, err := b.measure(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return fmt.Errorf("-only=%s is none of %s", o.only, strings.Join(names, ", "))
	}
	return tell(o, benchMarks, table(results), "benchmark.svg", plot(results))
}

// tell prints a table, writes it into the report between its marks, and the plot into the file beside it.
func tell(o options, m marks, table, file, plot string) error {
	command := "go run ./tests/bench " + strings.Join(os.Args[1:], " ")
	report := fmt.Sprintf("%s\nMeasured on %s with %d CPUs, kube-apiserver and etcd on the same machine, by `%s`.\n",
		table, time.Now().UTC().Format("2 January 2006"), runtime.NumCPU(), command)
	fmt.Print("\n", report)
	if o.docs == "" {
		return nil
	}
	if err := m.write(o.docs, report); err != nil || file == "" {
		return err
	}
	return os.WriteFile(filepath.Join(o.docs, file), []byte(plot), 0o644)
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, "           "+format+"\n", args...) }

// progress says what was done and how long it took.
func progress(what string, since time.Time) {
	fmt.Fprintf(os.Stderr, "  %6.1fs  %s\n", time.Since(since).Seconds(), what)
}

// marks are the comments in benchmark.md between which a report is written.
type marks struct{ begin, end string }

var (
	benchMarks    = marks{"<!-- begin: written by make bench -->\n", "<!-- end -->\n"}
	failoverMarks = marks{"<!-- begin: written by make bench-failover -->\n", "<!-- end of failover -->\n"}
	chartMarks    = marks{"<!-- begin: written by make bench-charts -->\n", "<!-- end of charts -->\n"}
	shardMarks    = marks{"<!-- begin: written by make bench-shards -->\n", "<!-- end of shards -->\n"}
	scaleMarks    = marks{"<!-- begin: written by make bench-scale -->\n", "<!-- end of scale -->\n"}
)

// write replaces the report between its marks.
func (m marks) write(docs, report string) error {
	page := filepath.Join(docs, "benchmark.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), m.begin)
	_, after, foundEnd := strings.Cut(rest, m.end)
	if !found || !foundEnd {
		return fmt.Errorf("%s lacks the marks %q and %q", page, m.begin, m.end)
	}
	return os.WriteFile(page, []byte(before+m.begin+report+m.end+after), 0o644)
}

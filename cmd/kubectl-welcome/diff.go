package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// diffAtOnce bounds how many custom resources are compared at once.
	diffAtOnce = 8
	// diffProgress is how often the progress is shown.
	diffProgress = 5 * time.Second
	// diffFailed is the exit code if the diff could not be made, as for kubectl diff.
	diffFailed = 2
)

// diffOptions are the flags of diff.
type diffOptions struct {
	selection
	charts   []string
	set      []string
	files    []string
	operator string
}

// NewCmdDiff shows what would change.
func NewCmdDiff(c *cluster) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [NAME | KIND/NAME | KIND/ ... | -l SELECTOR | -A] [--chart DIR] [--set KEY=VALUE | -f FILE]",
		Short: "Show what another chart or another spec would change, or what the operator would put back now",
		Long: `Show what another chart or another spec would change in the objects of custom resources. Without either: what the operator would put back now.

Nothing is changed. Each custom resource is rendered as its operator does, with its watches.yaml, overrides and flags, and compared with the cluster
by dry runs, with your own rights. Equal changes are shown once. What you may not ask about counts as unknown. Values of Secrets, and what the operator
has from its environment, are not shown.

The exit code is 0 if nothing would change, 1 if something would change or be refused, and 2 if that can't be told, be it of one kind, or if -l selects none.`,
		Example: examples(`
# What the chart of this directory would change, in all namespaces
kubectl welcome diff -A --chart helm-charts/welcome

# What an edit would do
kubectl welcome diff hello --set replicas=3
kubectl welcome diff -f hello.yaml

# What somebody has changed, and the operator would put back; of one that is paused, what a resume would do
kubectl welcome diff -A
kubectl welcome diff hello`),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.diff(cmd.Context(), o, args)
			if _, said := errors.AsType[*exitError](err); err != nil && !said {
				err = &exitError{code: diffFailed, err: err}
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{code: diffFailed, err: err} }) // 1 would mean that something changes
	o.addTo(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&o.charts, "chart", nil, "The chart that takes the place of the operator's chart of that name: a directory or a package. May be repeated")
	flags.StringArrayVar(&o.set, "set", nil, "A value of the spec, in Helm's words: replicas=3, ingress.enabled=true. May be repeated")
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "A file with custom resources, new ones or changed ones, as kubectl apply would have them; - is stdin. May be repeated")
	flags.StringVar(&o.operator, "operator", "", "The operator whose entries are taken, as NAMESPACE or NAMESPACE/NAME-OF-ITS-LEASE (default: the one that serves the custom resource)")
	return cmd
}

// diff prints what would change. Its error carries the exit code, or says why something could not be
// compared.
func (c *cluster) diff(ctx context.Context, o diffOptions, args []string) error {
	asks, missing := c.proposals(ctx, o, args)
	if missing != nil && !isUnlisted(missing) {
		return missing
	}
	servers, err := c.newServers(o)
	if err != nil {
		return err
	}
	if asks, err = servers.serving(ctx, asks, len(args) == 0 && len(o.files) == 0); err != nil {
		return errors.Join(missing, err)
	}
	results := make([]result, len(asks))
	var done atomic.Int64
	stop := c.tellProgress(&done, len(asks))
	var running errgroup.Group
	running.SetLimit(diffAtOnce)
	for i := range asks {
		running.Go(func() error {
			defer done.Add(1)
			results[i] = asks[i].result(ctx)
			return results[i].failed
		})
	}
	err = running.Wait()
	stop()
	if err != nil {
		return err
	}
	err = c.tellResults(results)
	if missing != nil {
		return missing // takes precedence over the exit code of other changes
	}
	return err
}

// tellProgress shows the progress from time to time, until stop is called.
func (c *cluster) tellProgress(done *atomic.Int64, all int) (stop func()) {
	ended := make(chan struct{})
	go func() {
		ticks := time.NewTicker(diffProgress)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
				c.notef("%d of %d custom resources are compared\n", done.Load(), all)
			}
		}
	}()
	return func() { close(ended) }
}

// ask is a question about one custom resource: what would change in its objects?
type ask struct {
	name *unstructured.Unstructured // the custom resource, or the one that is proposed
	obj  *unstructured.Unstructured // as the cluster has it; nil if it is new
	// propose asks the API server, by a dry run, what the custom resource would become. live is in the API
	// version that the operator serves. propose is nil if no change of the spec is proposed.
	propose func(_ context.Context, _ *readOnly, live *unstructured.Unstructured) (*unstructured.Unstructured, error)
	isFile  bool // its API version is that of the file
	isNamed bool // by itself: then it is asked what a resume would do
	kind    *servedKind
	// unserved is why kind is not known.
	unserved error
}

// result is the answer to an ask.
type result struct {
	name    *unstructured.Unstructured
	changes []change
	// refused is why the operator would do nothing, and unknown why that cannot be told. failed is why the
	// whole diff has to end.
	refused, unknown, failed error
}

func (a ask) result(ctx context.Context) result {
	r := result{name: a.name}
	switch {
	case errors.As(a.unserved, &notServed{}):
		r.refused = a.unserved
		return r
	case a.unserved != nil:
		r.unknown = a.unserved
		return r
	}
	owner, err := a.obj, error(nil)
	if owner != nil && owner.GroupVersionKind() != a.kind.GroupVersionKind { // the operator renders the version that it serves
		owner = object.Empty(a.kind.GroupVersionKind)
		err = a.kind.cluster.Get(ctx, client.ObjectKeyFromObject(a.obj), owner)
	}
	if err == nil && a.propose != nil {
		owner, err = a.propose(ctx, a.kind.cluster, owner)
	}
	if err != nil {
		r.fail(err)
		return r
	}
	preview, err := a.kind.Preview(ctx, owner, a.kind.unknown)
	words := hider(preview.Hidden)
	if err != nil {
		r.fail(words.error(err))
		return r
	}
	for _, outlook := range preview.Objects {
		if outlook.Err != nil {
			r.fail(words.error(outlook.Err))
			continue
		}
		if change := newChange(owner, outlook, preview, words); change != nil {
			r.changes = append(r.changes, *change)
		}
	}
	return r
}

// fail files an error under unknown, failed or refused.
func (r *result) fail(err error) {
	var answer apierrors.APIStatus
	switch {
	case isNoRight(err), isForNow(err), errors.Is(err, release.ErrInTheMiddle):
		r.unknown = errors.Join(r.unknown, err)
	case errors.Is(err, errNoDryRun), errors.Is(err, context.Canceled), !errors.As(err, &answer) && isOutage(err):
		r.failed = errors.Join(r.failed, fmt.Errorf("%s/%s: %w", r.name.GetNamespace(), r.name.GetName(), err))
	default:
		r.refused = errors.Join(r.refused, err)
	}
}

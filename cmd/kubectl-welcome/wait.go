package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/status"
)

// waiting is whether a command waits until what it asked for is done, and for how long.
type waiting struct {
	wanted  bool
	timeout time.Duration
}

func (w *waiting) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wanted, "wait", false, "Wait until it is done, and say how it goes")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "How long --wait waits")
}

// bounded is ctx until all that a command waits for has to be done.
func (w waiting) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.timeout)
}

// await calls check twice a second until it says that all is done, and prints each new step.
func (c *cluster) await(ctx context.Context, w waiting, check func(context.Context) (step string, done bool, err error)) error {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	told := ""
	for {
		step, done, err := check(ctx)
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if err != nil && isTemporary(err) {
			step, done, err = noAnswer(err), false, nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("not done after %s (--timeout): %s", w.timeout, cmp.Or(told, "the API server has not answered by then"))
		}
		if errors.Is(err, context.Canceled) {
			return errInterrupted // an adoption adds how to go on
		}
		if err != nil {
			return err
		}
		if step != told && step != "" {
			told = step
			c.notef("%s\n", safe(step))
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// noAnswer is the step while an API server is replaced, for example.
func noAnswer(err error) string { return "Waiting for the API server: " + err.Error() }

// readiness says how far a custom resource is, and whether it is Ready. It fails if the operator says that somebody has
// to act first.
func readiness(obj *unstructured.Unstructured) (step string, ready bool, err error) {
	r := reportOf(obj)
	if r.Reason != notSeen && meta.IsStatusConditionTrue(r.Conditions, status.Stalled) {
		return "", false, fmt.Errorf("%s in %s: %s: %s", label(obj), obj.GetNamespace(), r.Reason, safe(r.Message))
	}
	return label(obj) + ": " + r.Message, r.Ready == metav1.ConditionTrue, nil
}

// reread reads an object anew.
func (c *cluster) reread(ctx context.Context, obj *unstructured.Unstructured) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	return api.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

// fieldOwner is the manager of the fields that the plugin writes, but for those of askOwner.
const fieldOwner = client.FieldOwner("kubectl-welcome")

// askOwner is the manager of the annotations by which the plugin asks for something. It must not begin with "kubectl":
// Flux removes what such a manager has set and the repository lacks, so that a pause would end.
const askOwner = client.FieldOwner("welcome-plugin")

// annotate sets an annotation of a custom resource, or removes it if value is empty.
func (c *cluster) annotate(ctx context.Context, obj *unstructured.Unstructured, key, value string) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	before := obj.DeepCopy()
	annotations := labels.Merge(obj.GetAnnotations(), labels.Set{key: value})
	if value == "" {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
	return api.Patch(ctx, obj, client.MergeFrom(before), askOwner)
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// NewCmdReconcile makes the operator reconcile a custom resource now.
func NewCmdReconcile(c *cluster) *cobra.Command {
	var w waiting
	var force bool
	cmd := &cobra.Command{
		Use:   "reconcile NAME | KIND/NAME",
		Short: "Have the operator reconcile a custom resource now; with --force, apply its last manifest again",
		Long: `Have the operator reconcile a custom resource now: what has failed is tried again at once, and a chart that asks the cluster is rendered again.
With --force, the last manifest is applied again, too: each object is read from the API server, and what is not as the chart wants it
is put back, whatever driftDetection in the operator's watches.yaml says.

The operator does this once a minute at most. It ends no pause, takes no place in a rollout, repairs nothing that others keep changing (DriftLoop), and allows
nothing. No pod restarts unless somebody has changed its template.`,
		Example: examples(`
kubectl welcome reconcile hello --wait
kubectl welcome reconcile hello --force --wait`),
		Args:              oneName,
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			obj, err := c.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := c.checkServed(cmd.Context(), []unstructured.Unstructured{*obj}); err != nil {
				return err
			}
			value := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
			if force {
				value = release.ForceReconcile + "-" + value
			}
			if err := c.annotate(cmd.Context(), obj, release.AskReconcile, value); err != nil {
				return err
			}
			c.printf("%s in %s: asked the operator, by the annotation %s=%s\n", label(obj), obj.GetNamespace(), release.AskReconcile, value)
			if w.wanted {
				err = c.awaitReconciled(cmd.Context(), w, obj, value)
			}
			c.notef("Next: kubectl welcome status %s\n", typed(obj))
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "Apply the last manifest again")
	w.addTo(cmd)
	return cmd
}

// awaitReconciled waits until the operator has answered the annotation with that value, and prints the
// answer.
func (c *cluster) awaitReconciled(ctx context.Context, w waiting, obj *unstructured.Unstructured, value string) error {
	var answer *metav1.Condition
	err := c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		if err := c.reread(ctx, obj); err != nil {
			return "", false, err
		}
		s := status.Of(obj)
		if s.Reconciled == value {
			answer = meta.FindStatusCondition(s.Conditions, status.Reconciled)
			return "", true, nil
		}
		if asked := obj.GetAnnotations()[release.AskReconcile]; asked != value {
			return "", false, fmt.Errorf("somebody else has asked since, by %s=%s", release.AskReconcile, asked)
		}
		if release.IsPaused(obj) {
			return "Waiting: it is paused. To end that: kubectl welcome resume " + typed(obj), false, nil
		}
		return "Waiting for the operator, which does this once a minute at most. If it takes longer: kubectl welcome doctor.", false, nil
	})
	if err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	if answer.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s: %s", answer.Reason, safe(answer.Message))
	}
	c.printf("Done: %s\n", safe(answer.Message))
	return nil
}

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// NewCmdPause has the operator leave custom resources alone.
func NewCmdPause(c *cluster) *cobra.Command {
	return newCmdPausing(c, true, &cobra.Command{
		Use:   "pause [NAME | KIND/NAME ... | -l SELECTOR | -A]",
		Short: "Have the operator leave custom resources alone",
		Long: `Have the operator leave custom resources alone: nothing of them is applied, repaired or looked at until they are resumed. A deletion
goes through. Their pods go on running.`,
		Example: examples(`
kubectl welcome pause hello --wait
kubectl welcome pause -l tier=web
kubectl welcome pause -A`),
	})
}

// NewCmdResume ends what NewCmdPause has begun.
func NewCmdResume(c *cluster) *cobra.Command {
	return newCmdPausing(c, false, &cobra.Command{
		Use:   "resume [NAME | KIND/NAME ... | -l SELECTOR | -A]",
		Short: "Have the operator serve custom resources again that were paused",
		Long:  `Have the operator serve custom resources again that were paused. What was edited or has drifted meanwhile is applied now.`,
		Example: examples(`
kubectl welcome resume hello --wait
kubectl welcome resume -A`),
	})
}

func newCmdPausing(c *cluster, pause bool, cmd *cobra.Command) *cobra.Command {
	var s selection
	var w waiting
	cmd.ValidArgsFunction = c.completeNames
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && s.labels == "" && !s.all {
			return errors.New("say which: NAME, KIND/NAME, KIND/ for all of a kind, -l or -A")
		}
		found, err := c.find(cmd.Context(), s, args)
		if err != nil {
			return err
		}
		changed := make([]bool, len(found))
		group, ctx := errgroup.WithContext(cmd.Context())
		group.SetLimit(atOnce)
		for i := range found {
			group.Go(func() (err error) {
				changed[i], err = c.pause(ctx, &found[i], pause)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if len(found) > 1 {
			c.printf("%d of %s changed.\n", len(slices.DeleteFunc(changed, func(did bool) bool { return !did })), plural(len(found), "custom resource"))
		}
		for i := range found {
			if !w.wanted {
				break
			}
			if err := c.awaitPaused(cmd.Context(), w, &found[i], pause); err != nil {
				return err
			}
		}
		if len(found) == 1 {
			c.notef("Next: kubectl welcome %s %s\n", map[bool]string{true: "resume", false: "status"}[pause], typed(&found[0]))
		}
		return nil
	}
	s.addTo(cmd)
	w.addTo(cmd)
	return cmd
}

// pause sets or removes the annotation, unless it is as it should be.
func (c *cluster) pause(ctx context.Context, obj *unstructured.Unstructured, pause bool) (changed bool, err error) {
	if (obj.GetAnnotations()[release.Pause] == "true") == pause {
		c.printf("%s in %s is %s already\n", label(obj), obj.GetNamespace(), map[bool]string{true: "paused", false: "not paused"}[pause])
		return false, nil
	}
	if pause {
		err = c.annotate(ctx, obj, release.Pause, "true")
	} else {
		err = c.annotate(ctx, obj, release.Pause, nil)
	}
	if err == nil {
		c.printf("%s in %s %s\n", label(obj), obj.GetNamespace(), map[bool]string{true: "paused", false: "resumed"}[pause])
	}
	return true, err
}

// awaitPaused waits until the operator says that it leaves obj alone or, once it no longer does, that all is well.
func (c *cluster) awaitPaused(ctx context.Context, w waiting, obj *unstructured.Unstructured, pause bool) error {
	return c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		if err := c.again(ctx, obj); err != nil {
			return "", false, err
		}
		r := reportOf(obj)
		if pause {
			ready := meta.FindStatusCondition(r.Conditions, status.Ready)
			return "Waiting for the operator to see it", ready != nil && ready.Reason == "Paused", nil
		}
		return label(obj) + ": " + r.Message, r.Ready == metav1.ConditionTrue, nil
	})
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// NewCmdPause makes the operator leave custom resources alone.
func NewCmdPause(c *cluster) *cobra.Command {
	return newCmdPausing(c, true, &cobra.Command{
		Use:   "pause [NAME | KIND/NAME | KIND/ ... | -l SELECTOR | -A]",
		Short: "Pause custom resources: the operator leaves them alone",
		Long: `Pause custom resources: the operator applies, repairs and looks at nothing of them until they are resumed. A deletion
goes through. Their pods go on running.`,
		Example: examples(`
kubectl welcome pause hello --wait
kubectl welcome pause -l tier=web
kubectl welcome pause -A`),
	})
}

// NewCmdResume ends a pause.
func NewCmdResume(c *cluster) *cobra.Command {
	return newCmdPausing(c, false, &cobra.Command{
		Use:   "resume [NAME | KIND/NAME | KIND/ ... | -l SELECTOR | -A]",
		Short: "Resume custom resources that were paused",
		Long: `Resume custom resources that were paused. The operator now applies what was edited, and repairs what has drifted, meanwhile.
kubectl welcome diff NAME shows before what that would change.`,
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
		found, missing := c.find(cmd.Context(), s, args)
		if missing != nil && !isUnlisted(missing) {
			return missing
		}
		if len(found) == 0 {
			return errors.Join(missing, fmt.Errorf("no custom resources found%s", c.where(s)))
		}
		if err := c.checkServed(cmd.Context(), found); err != nil {
			return err
		}
		// This is used in emergencies: a failure for one must not keep the others from being paused.
		failed := make([]error, len(found))
		var changed atomic.Int32
		_ = each(cmd.Context(), len(found), func(ctx context.Context, i int) error {
			did, err := c.pause(ctx, &found[i], pause)
			if did {
				changed.Add(1)
			}
			failed[i] = err
			return nil
		})
		if len(found) > 1 {
			c.printf("%d of %s changed.\n", changed.Load(), counted(len(found), "custom resource"))
		}
		if err := errors.Join(append(failed, missing)...); err != nil {
			return err
		}
		if w.wanted {
			all := make([]*unstructured.Unstructured, len(found))
			for i := range found {
				all[i] = &found[i]
			}
			if err := c.awaitPaused(cmd.Context(), w, pause, all...); err != nil {
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

// pause sets or removes the annotation, if that is not done already.
func (c *cluster) pause(ctx context.Context, obj *unstructured.Unstructured, pause bool) (changed bool, err error) {
	if release.IsPaused(obj) == pause {
		c.printf("%s in %s is %s\n", label(obj), obj.GetNamespace(), map[bool]string{true: "paused already", false: "not paused"}[pause])
		return false, nil
	}
	err = c.annotate(ctx, obj, release.Pause, map[bool]string{true: "true"}[pause])
	switch {
	case apierrors.IsNotFound(err):
		c.printf("%s in %s is deleted\n", label(obj), obj.GetNamespace())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s in %s: %w", label(obj), obj.GetNamespace(), err)
	}
	c.printf("%s in %s %s\n", label(obj), obj.GetNamespace(), map[bool]string{true: "paused", false: "resumed"}[pause])
	return true, nil
}

// awaitPaused waits until the operator says of all custom resources that it leaves them alone or, after a resume, that
// they are Ready. One that does not get there keeps nobody from hearing of the others.
func (c *cluster) awaitPaused(ctx context.Context, w waiting, pause bool, all ...*unstructured.Unstructured) error {
	steps, ended, failed := make([]string, len(all)), make([]bool, len(all)), make([]error, len(all))
	err := c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		_ = each(ctx, len(all), func(ctx context.Context, i int) error {
			if ended[i] {
				return nil
			}
			step, done, err := c.isPaused(ctx, all[i], pause)
			if err != nil && (isTemporary(err) || ctx.Err() != nil) {
				step, err = noAnswer(err), nil
			}
			steps[i], ended[i], failed[i] = step, done || err != nil, err
			return nil
		})
		var left []string
		step := ""
		for i, obj := range all {
			if !ended[i] {
				left, step = append(left, fmt.Sprintf("%s in %s", label(obj), obj.GetNamespace())), cmp.Or(step, steps[i])
			}
		}
		if len(all) > 1 && len(left) > 0 {
			step = fmt.Sprintf("Left: %s. %s", few(left), step)
		}
		return step, len(left) == 0, nil
	})
	return errors.Join(append(failed, err)...)
}

// isPaused is whether the operator leaves a custom resource alone or, after a resume, it is Ready. It fails if it does not
// become so before somebody acts.
func (c *cluster) isPaused(ctx context.Context, obj *unstructured.Unstructured, pause bool) (step string, done bool, err error) {
	switch err := c.reread(ctx, obj); {
	case apierrors.IsNotFound(err):
		return "", true, nil // deletions go through
	case err != nil:
		return "", false, fmt.Errorf("%s in %s: %w", label(obj), obj.GetNamespace(), err)
	case pause && obj.GetDeletionTimestamp() != nil:
		c.notef("%s in %s is being deleted: a pause does not keep that from going on\n", label(obj), obj.GetNamespace())
		return "", true, nil
	case pause:
		ready := meta.FindStatusCondition(status.Of(obj).Conditions, status.Ready)
		return "Waiting for the operator to see it. " + elseDoctor, ready != nil && ready.Reason == status.ReasonPaused, nil
	}
	return readiness(obj)
}

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// cluster is the API of the cluster that the test runs in, and the namespace that it may use.
type cluster struct {
	client.Client
	namespace string
}

// await repeats condition until it returns nil. When ctx ends, its last error says what was still missing.
func (c *cluster) await(ctx context.Context, what string, condition func() error) error {
	silent := func(string, ...any) {} // scorecard takes what else is printed for a broken result
	return waiting.For(ctx, silent, what, timeout, 300*time.Millisecond, func(context.Context) error { return condition() })
}

// install creates object and waits until it is ready.
func (c *cluster) install(ctx context.Context, object *unstructured.Unstructured) error {
	if err := c.Create(ctx, object); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return c.awaitReady(ctx, object)
}

// awaitReady waits until the operator says that object, as it is now, is ready.
func (c *cluster) awaitReady(ctx context.Context, object *unstructured.Unstructured) error {
	return c.await(ctx, "condition Ready", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return kit.Ready(object)
	})
}

// change applies fn to the latest version of object and writes it.
func (c *cluster) change(ctx context.Context, object client.Object, fn func() error) error {
	return c.await(ctx, "a change without a conflict", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
		return c.Update(ctx, object)
	})
}

func (c *cluster) deployment(ctx context.Context, owner client.Object) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := c.Get(ctx, client.ObjectKeyFromObject(owner), deployment)
	return deployment, err
}

// remove deletes object, if it exists, and waits until it is gone.
func (c *cluster) remove(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return c.await(ctx, "the object to be gone", func() error { return c.gone(ctx, object.DeepCopy()) })
}

// gone returns an error while object exists.
func (c *cluster) gone(ctx context.Context, object client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%T %s still exists", object, object.GetName())
	}
	return err
}

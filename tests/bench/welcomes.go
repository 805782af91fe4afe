package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// clients is how many requests the bench itself sends at a time.
const clients = 4

func newWelcome(namespace string, number int) *unstructured.Unstructured {
	// A load balancer would cost the API server a node port.
	return kit.Welcome(namespace, nameOf(number), kit.Greet(fmt.Sprintf("friend %d", number)), kit.Set("service.type", "ClusterIP"))
}

func nameOf(number int) string { return fmt.Sprintf("welcome-%05d", number) }

// forEach calls do for the numbers from first on, several at a time.
func forEach(first, count int, do func(number int) error) error {
	numbers := make(chan int)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for number := range numbers {
				if errs[i] == nil {
					errs[i] = do(number)
				}
			}
		})
	}
	for number := first; number < first+count; number++ {
		numbers <- number
	}
	close(numbers)
	wg.Wait()
	return errors.Join(errs...)
}

// createWelcomes creates custom resources.
func (b *bench) createWelcomes(ctx context.Context, namespace string, first, count int) error {
	return forEach(first, count, func(number int) error { return b.Client.Create(ctx, newWelcome(namespace, number)) })
}

// createObjects creates custom resources and what the chart makes of them: there is no operator that would.
func (b *bench) createObjects(ctx context.Context, namespace string, count int) error {
	return forEach(0, count, func(number int) error {
		welcome := newWelcome(namespace, number)
		if err := b.Client.Create(ctx, welcome); err != nil {
			return err
		}
		objects, err := b.children(welcome)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := b.Client.Create(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// poke changes an annotation that means nothing to anybody, which makes an operator reconcile.
func (b *bench) poke(ctx context.Context, namespace string, count int) error {
	return forEach(0, count, func(number int) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/poke":"now"}}}`))
		return b.Client.Patch(ctx, newWelcome(namespace, number), patch)
	})
}

// clean removes everything that a contender left in its namespace. Nobody else would: there is no garbage collector.
func (b *bench) clean(ctx context.Context, c contender) error {
	err := forEach(0, c.welcomes+c.more, func(number int) error {
		return b.Client.Patch(ctx, newWelcome(c.user, number), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{newWelcome(c.user, 0), &appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Secret{}} {
		if err := b.Client.DeleteAllOf(ctx, kind, client.InNamespace(c.user), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
	}
	return b.Client.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(c.user))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// clients bounds the requests that the bench itself sends at once.
const clients = 4

func newWelcome(namespace string, number int) *unstructured.Unstructured {
	// For a load balancer, the API server would allocate a node port.
	return kit.Welcome(namespace, nameOf(number), kit.Greet(fmt.Sprintf("friend %d", number)), kit.Set("service.type", "ClusterIP"))
}

// namespace is that of the Welcome with a number.
func (c contender) namespace(number int) string {
	if c.namespaces == 0 {
		return c.user
	}
	return fmt.Sprintf("%s-%02d", c.user, number%c.namespaces)
}

// everywhere is the namespace to list and watch all of a contender's Welcomes in.
func (c contender) everywhere() client.InNamespace {
	if c.namespaces == 0 {
		return client.InNamespace(c.user)
	}
	return client.InNamespace("")
}

func (c contender) newWelcome(number int) *unstructured.Unstructured {
	return newWelcome(c.namespace(number), number)
}

// namePrefix begins the names of all Welcomes.
const namePrefix = "welcome-"

func nameOf(number int) string { return fmt.Sprintf(namePrefix+"%05d", number) }

// forEach calls do for consecutive numbers from first on, several at once.
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
func (b *bench) createWelcomes(ctx context.Context, c contender, first, count int) error {
	return forEach(first, count, func(number int) error { return b.Client.Create(ctx, c.newWelcome(number)) })
}

// createObjects creates custom resources and, because there is no operator, the objects of the chart.
func (b *bench) createObjects(ctx context.Context, namespace string, count int) error {
	return forEach(0, count, func(number int) error { return b.createWithChildren(ctx, newWelcome(namespace, number)) })
}

func (b *bench) createWithChildren(ctx context.Context, welcome *unstructured.Unstructured) error {
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
}

// poke changes an annotation without a meaning, which makes an operator reconcile.
func (b *bench) poke(ctx context.Context, c contender, count int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/poke":"%d"}}}`, time.Now().UnixNano())
	return forEach(0, count, func(number int) error {
		return b.Client.Patch(ctx, c.newWelcome(number), client.RawPatch(types.MergePatchType, patch))
	})
}

// clean deletes everything that a contender has left in its namespace: there is no garbage collector.
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

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// cluster is the API of the cluster that the test runs in, and the namespace that it may use.
type cluster struct {
	client.Client
	namespace string
	kinds     []schema.GroupVersionKind // of objects in namespaces that can be listed, perhaps not by us
}

// visibleKinds are those of all objects in namespaces that can be listed, but for events, which stay.
func visibleKinds(api *rest.Config) ([]schema.GroupVersionKind, error) {
	discovery, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredNamespacedResources()
	if err != nil && len(lists) == 0 { // else a single API is down
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	var kinds []schema.GroupVersionKind
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && resource.Kind != "Event" {
				kinds = append(kinds, version.WithKind(resource.Kind))
			}
		}
	}
	return kinds, nil
}

// owned are the objects that e owns, or that what it owns does, and so on, and those of before that are still there.
func (c *cluster) owned(ctx context.Context, e *example, before ...*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	all, err := c.everything(ctx)
	if err != nil {
		return nil, err
	}
	owners := map[types.UID]bool{e.GetUID(): true}
	for _, object := range before {
		owners[object.GetUID()] = true
	}
	var owned []*unstructured.Unstructured
	for found := true; found; {
		found = false
		all = slices.DeleteFunc(all, func(object *unstructured.Unstructured) bool {
			is := object.GetUID() != e.GetUID() && owners[object.GetUID()] ||
				slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owners[owner.UID] })
			if is {
				owned, owners[object.GetUID()], found = append(owned, object), true, true
			}
			return is
		})
	}
	return owned, nil
}

// children are the objects of the release of e: those that it controls, without the records and hooks of Helm.
func (c *cluster) children(ctx context.Context, e *example) ([]*unstructured.Unstructured, error) {
	all, err := c.everything(ctx)
	return slices.DeleteFunc(all, func(object *unstructured.Unstructured) bool {
		return !metav1.IsControlledBy(object, e) || object.GetLabels()["owner"] == "helm" || object.GetAnnotations()["helm.sh/hook"] != ""
	}), err
}

// everything is what is in the namespace, as far as we may list it. What we may not is not asked for again.
func (c *cluster) everything(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, kind := range slices.Clone(c.kinds) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		switch err := c.List(ctx, list, client.InNamespace(c.namespace)); {
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			c.kinds = slices.DeleteFunc(c.kinds, func(other schema.GroupVersionKind) bool { return other == kind })
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
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
	var refused error
	err := c.await(ctx, "a change without a conflict", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
		err := c.Update(ctx, object)
		if apierrors.IsInvalid(err) {
			refused, err = err, nil
		}
		return err
	})
	if refused != nil {
		return refused
	}
	return err
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

// nameOf is how people call an object.
func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

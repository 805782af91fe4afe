package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// installAndReady: what a user applies becomes ready.
func installAndReady(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	return c.install(ctx, example)
}

// edit: a new greeting reaches the pods.
func edit(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	if err := c.install(ctx, example); err != nil {
		return err
	}
	const greeted = "scorecard"
	err := c.change(ctx, example, func() error {
		return unstructured.SetNestedField(example.Object, greeted, "spec", "name")
	})
	if err != nil {
		return err
	}
	err = c.await(ctx, "the new greeting in the Deployment", func() error {
		deployment, err := c.deployment(ctx, example)
		if err != nil {
			return err
		}
		if now := kit.Greeting(deployment); now != greeted {
			return fmt.Errorf("the greeting is %q", now)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.awaitReady(ctx, example)
}

// driftHeals: a child that somebody deletes or changes is put right.
func driftHeals(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	if err := c.install(ctx, example); err != nil {
		return err
	}
	service := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(example), service); err != nil {
		return err
	}
	deleted := service.UID
	if err := c.Delete(ctx, service); err != nil {
		return err
	}
	err := c.await(ctx, "the deleted Service to come back", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(example), service); err != nil {
			return err
		}
		if service.UID == deleted {
			return fmt.Errorf("it is not deleted yet")
		}
		return nil
	})
	if err != nil {
		return err
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: example.GetName(), Namespace: example.GetNamespace()}}
	var image string
	err = c.change(ctx, deployment, func() error {
		image = deployment.Spec.Template.Spec.Containers[0].Image
		deployment.Spec.Template.Spec.Containers[0].Image = "example.com/foreign:v1"
		return nil
	})
	if err != nil {
		return err
	}
	err = c.await(ctx, "the changed image to be put right", func() error {
		healed, err := c.deployment(ctx, example)
		if err != nil {
			return err
		}
		if found := healed.Spec.Template.Spec.Containers[0].Image; found != image {
			return fmt.Errorf("the image is %s, not %s", found, image)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.awaitReady(ctx, example)
}

// scale: `kubectl scale` works; while an autoscaler is in charge, its lower bound does.
func scale(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	if err := c.install(ctx, example); err != nil {
		return err
	}
	const pods = 3
	var err error
	if autoscaled, _, _ := unstructured.NestedBool(example.Object, "spec", "autoscaling", "enabled"); autoscaled {
		err = c.change(ctx, example, func() error {
			return unstructured.SetNestedField(example.Object, int64(pods), "spec", "autoscaling", "minReplicas")
		})
	} else {
		err = c.SubResource("scale").Update(ctx, example, client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: example.GetName(), Namespace: example.GetNamespace()},
			Spec:       autoscalingv1.ScaleSpec{Replicas: pods},
		}))
	}
	if err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	err = c.await(ctx, fmt.Sprintf("%d ready pods", pods), func() error {
		deployment, err := c.deployment(ctx, example)
		if err == nil && deployment.Status.ReadyReplicas != pods {
			err = fmt.Errorf("%d are ready", deployment.Status.ReadyReplicas)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.awaitReady(ctx, example)
}

// badInputRefused: what cannot work is refused when it is written, with the field that is wrong.
func badInputRefused(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	for _, bad := range []struct {
		value any
		path  []string
	}{
		{"two\nlines", []string{"spec", "name"}},
		{int64(-1), []string{"spec", "replicas"}},
		{"ExternalName", []string{"spec", "service", "type"}},
		{int64(70000), []string{"spec", "service", "port"}},
		{"no quantity", []string{"spec", "resources", "limits", "memory"}},
	} {
		object := example.DeepCopy()
		if err := unstructured.SetNestedField(object.Object, bad.value, bad.path...); err != nil {
			return err
		}
		err := c.Create(ctx, object, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("%v may be %q", bad.path, bad.value)
		}
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("%v set to %q is refused for another reason: %w", bad.path, bad.value, err)
		}
	}
	return nil
}

// deleteLeavesNothing: with the object goes everything that the operator made for it.
func deleteLeavesNothing(ctx context.Context, c *cluster, example *unstructured.Unstructured) error {
	if err := c.install(ctx, example); err != nil {
		return err
	}
	if err := c.remove(ctx, example); err != nil {
		return err
	}
	return c.await(ctx, "nothing to be left", func() error {
		for _, list := range []client.ObjectList{
			&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.PodList{},
			&networkingv1.IngressList{}, &networkingv1.NetworkPolicyList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
		} {
			if err := c.nothingLeft(ctx, list, example); err != nil {
				return err
			}
		}
		return nil
	})
}

// nothingLeft returns an error that names an object of list's kind that belongs to owner: by its owner reference, or, for
// a pod, by its label.
func (c *cluster) nothingLeft(ctx context.Context, list client.ObjectList, owner client.Object) error {
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(client.Object)
		if metav1.IsControlledBy(object, owner) || object.GetLabels()["welcome"] == owner.GetName() {
			return fmt.Errorf("%T %s is left", object, object.GetName())
		}
		return nil
	})
}

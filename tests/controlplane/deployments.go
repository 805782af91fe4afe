package controlplane

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RunDeployments plays the Deployment controller and the nodes until ctx ends: it sets the status of each
// Deployment so that all its pods run and are ready.
func RunDeployments(ctx context.Context, cluster *rest.Config) error {
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // one process may run it on several control planes
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			deployment := &appsv1.Deployment{}
			if err := mgr.GetClient().Get(ctx, request.NamespacedName, deployment); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if deployment.Status.ObservedGeneration == deployment.Generation {
				return reconcile.Result{}, nil
			}
			deployment.Status = Status(deployment, ptr.Deref(deployment.Spec.Replicas, 1))
			err := mgr.GetClient().Status().Update(ctx, deployment)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return reconcile.Result{}, nil // the change brings the next reconcile
			}
			return reconcile.Result{}, err
		}))
	if err != nil {
		return err
	}
	go func() { _ = mgr.Start(ctx) }() // it ends with ctx
	return nil
}

// Status is the status of a Deployment with its current spec, if count pods are updated and ready.
func Status(deployment *appsv1.Deployment, count int32) appsv1.DeploymentStatus {
	replicas := ptr.Deref(deployment.Spec.Replicas, 1)
	available, progress := corev1.ConditionFalse, "ReplicaSetUpdated"
	if count >= replicas {
		available, progress = corev1.ConditionTrue, "NewReplicaSetAvailable"
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           replicas,
		UpdatedReplicas:    count,
		ReadyReplicas:      count,
		AvailableReplicas:  count,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: available, Reason: "Played"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: progress},
		},
	}
}

package integration

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/utils/ptr"
)

// Nobody runs pods here: these play the Deployment controller and the nodes.

// runs says that count pods of the Deployment, as it is now, are updated and ready.
func (s *scene) runs(name string, count int32) error {
	s.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment := &appsv1.Deployment{}
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, deployment); err != nil {
			return err
		}
		available, progress := corev1.ConditionFalse, "ReplicaSetUpdated"
		if count >= ptr.Deref(deployment.Spec.Replicas, 1) {
			available, progress = corev1.ConditionTrue, "NewReplicaSetAvailable"
		}
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation,
			Replicas:           ptr.Deref(deployment.Spec.Replicas, 1),
			UpdatedReplicas:    count,
			ReadyReplicas:      count,
			AvailableReplicas:  count,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: available, Reason: "Played"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: progress},
			},
		}
		return env.client.Status().Update(ctx, deployment)
	})
}

// runsAll says that all pods of a Deployment are ready, as soon as there is one.
func (s *scene) runsAll(name string) {
	s.Helper()
	s.await(fmt.Sprintf("Deployment %s exists", name), func() error {
		deployment := &appsv1.Deployment{}
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, deployment); err != nil {
			return err
		}
		return s.runs(name, ptr.Deref(deployment.Spec.Replicas, 1))
	})
}

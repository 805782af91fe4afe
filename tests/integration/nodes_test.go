package integration

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"demo.welcome.domain/welcome-operator/tests/controlplane"
)

// Nobody runs pods here: these play the Deployment controller and the nodes.

// play writes the status of a Deployment with its current spec. It retries often, for the operator may write
// to it at the same time.
func (s *scene) play(name string, status func(*appsv1.Deployment) appsv1.DeploymentStatus) error {
	return retry.RetryOnConflict(wait.Backoff{Steps: 300, Duration: 10 * time.Millisecond}, func() error {
		deployment := &appsv1.Deployment{}
		if err := s.find(deployment, name); err != nil {
			return err
		}
		deployment.Status = status(deployment)
		return env.Client.Status().Update(ctx, deployment)
	})
}

// runs writes the status that count pods of the Deployment's current spec are updated and ready.
func (s *scene) runs(name string, count int32) error {
	return s.play(name, func(d *appsv1.Deployment) appsv1.DeploymentStatus { return controlplane.Status(d, count) })
}

// breaks writes the status that the pods of a Deployment do not come up.
func (s *scene) breaks(name string) {
	s.Helper()
	s.must(s.play(name, func(d *appsv1.Deployment) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation,
			Replicas:           1,
			Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "Played"}},
		}
	}))
}

// runsAll writes the status that all pods of a Deployment are ready, as soon as the Deployment exists.
func (s *scene) runsAll(name string) {
	s.Helper()
	s.await(fmt.Sprintf("Deployment %s exists", name), func() error {
		deployment := &appsv1.Deployment{}
		if err := s.find(deployment, name); err != nil {
			return err
		}
		return s.runs(name, ptr.Deref(deployment.Spec.Replicas, 1))
	})
}

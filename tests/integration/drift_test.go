package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// changeDeployment edits the Deployment of the Welcome "hello", even if others write to it at the same time.
func (s *scene) changeDeployment(change func(*appsv1.Deployment)) {
	s.Helper()
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	before := deployment.DeepCopy()
	change(deployment)
	s.must(env.Client.Patch(ctx, deployment, client.MergeFrom(before)))
}

// awaitDeployment waits until a Deployment passes check.
func (s *scene) awaitDeployment(name, what string, check func(*appsv1.Deployment) error) {
	s.Helper()
	s.await(what, func() error {
		deployment := &appsv1.Deployment{}
		if err := s.find(deployment, name); err != nil {
			return err
		}
		return check(deployment)
	})
}

func greets(greeting string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if got := kit.Greeting(d); got != greeting {
			return fmt.Errorf("it greets %q", got)
		}
		return nil
	}
}

func TestDrift(t *testing.T) {
	s := newScene(t)
	operator := s.operator()
	s.deploy("hello", kit.Greet("myfriends"))

	for name, drift := range map[string]struct {
		make func(*appsv1.Deployment)
		gone func(*appsv1.Deployment) error
	}{
		"a field is changed": {
			func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" },
			greets("myfriends"),
		},
		"a value is replaced by a reference": {
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Env[0] = corev1.EnvVar{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
			},
			greets("myfriends"),
		},
		"a list has one more element": {
			func(d *appsv1.Deployment) {
				container := &d.Spec.Template.Spec.Containers[0]
				container.Env = append(container.Env, corev1.EnvVar{Name: "ADDED", Value: "by hand"})
			},
			func(d *appsv1.Deployment) error {
				for _, env := range d.Spec.Template.Spec.Containers[0].Env {
					if env.Name == "ADDED" {
						return errors.New("it is still there")
					}
				}
				return nil
			},
		},
		"a pod has one more container": {
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "added", Image: "example.com/added:1"})
			},
			func(d *appsv1.Deployment) error {
				if got := len(d.Spec.Template.Spec.Containers); got != 1 {
					return fmt.Errorf("there are %d containers", got)
				}
				return nil
			},
		},
		"the pods get a field that the chart does not have": {
			func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostNetwork = true },
			func(d *appsv1.Deployment) error {
				if d.Spec.Template.Spec.HostNetwork {
					return errors.New("it is still there")
				}
				return nil
			},
		},
		"the label by which the operator finds it is removed": {
			func(d *appsv1.Deployment) { delete(d.Labels, kit.ManagedBy) },
			func(d *appsv1.Deployment) error {
				if d.Labels[kit.ManagedBy] == "" {
					return errors.New("it is still missing")
				}
				return nil
			},
		},
		"it is scaled by hand": {
			func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) },
			func(d *appsv1.Deployment) error {
				if *d.Spec.Replicas != 1 {
					return fmt.Errorf("there are %d replicas", *d.Spec.Replicas)
				}
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t) // whose objects nobody has changed so often that it passes for a fight
			s.operator()
			s.deploy("hello", kit.Greet("myfriends"))
			s.changeDeployment(drift.make)
			s.awaitDeployment("hello", "the drift is repaired", drift.gone)
		})
	}

	t.Run("a child is deleted", func(t *testing.T) {
		s.deleteService("hello")
		s.awaitExists(&corev1.Service{}, "hello")
	})

	t.Run("what belongs to others stays", func(t *testing.T) {
		s.changeDeployment(func(d *appsv1.Deployment) {
			d.Annotations["example.com/note"], d.Labels["example.com/team"] = "mine", "mine"
			d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders"
		})
		s.awaitGreeting("hello", "myfriends")
		s.awaitDeployment("hello", "annotation and label stay", func(d *appsv1.Deployment) error {
			if d.Annotations["example.com/note"] != "mine" || d.Labels["example.com/team"] != "mine" {
				return fmt.Errorf("annotations %v, labels %v", d.Annotations, d.Labels)
			}
			return nil
		})
	})

	t.Run("a repair is no new revision", func(t *testing.T) {
		s.must(s.hasRecords("hello", 1))
		s.settled(operator)
	})
}

// A Deployment whose status changes all the time, as in a rollout, is repaired at once all the same: that its controller was
// faster is no failure.
func TestDriftDuringARollout(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Greet("myfriends"))
	for range 7 {
		over, stopped := make(chan struct{}), make(chan error, 1)
		go func() {
			for count := int32(0); ; count = 1 - count {
				select {
				case <-over:
					stopped <- nil
					return
				default:
				}
				if err := s.runs("hello", count); err != nil {
					stopped <- err
					return
				}
			}
		}()
		for range 3 { // a fourth time would pass for a fight
			s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(99)) })
			s.awaitDeployment("hello", "the drift is repaired", func(d *appsv1.Deployment) error {
				if *d.Spec.RevisionHistoryLimit == 99 {
					return errors.New("not yet")
				}
				return nil
			})
		}
		close(over)
		s.must(<-stopped)
		s.delete(s.welcome("hello"))
		s.deploy("hello", kit.Greet("myfriends"))
	}
	if failed := operator.metric(t, "welcome_operator_release_actions_total", `action="drift-correction".*result="failure"`); failed > 0 {
		t.Errorf("%v repairs failed\n%s", failed, s.dump())
	}
}

// An autoscaler and drift repair must not fight over the replicas.
func TestDriftLeavesTheAutoscalersReplicas(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Set("autoscaling.enabled", true), kit.Greet("myfriends"))
	s.get(&autoscalingv2.HorizontalPodAutoscaler{}, "hello")
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders" })
	s.awaitGreeting("hello", "myfriends")
	deployment := &appsv1.Deployment{}
	s.get(deployment, "hello")
	if *deployment.Spec.Replicas != 4 {
		t.Errorf("the autoscaler's 4 replicas became %d", *deployment.Spec.Replicas)
	}
}

// What somebody adds while a Welcome is paused goes with the next edit, too.
func TestDriftWithAnEdit(t *testing.T) {
	s := newScene(t)
	s.operator()
	s.deploy("hello", kit.Greet("before"))
	s.pause()
	s.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = map[string]string{"nowhere": "true"} })
	s.edit("hello", kit.Pause(false), kit.Greet("after"))
	s.awaitGreeting("hello", "after")
	s.awaitDeployed("hello")
	s.awaitDeployment("hello", "what was added is gone", func(d *appsv1.Deployment) error {
		if len(d.Spec.Template.Spec.NodeSelector) > 0 {
			return fmt.Errorf("pods need a node with %v", d.Spec.Template.Spec.NodeSelector)
		}
		return nil
	})
}

// Who deletes the children of a Welcome, one after the other and faster than they come back, has each of them back at once.
func TestDeletedChildrenComeBackAtOnce(t *testing.T) {
	s := newScene(t)
	operator := s.ownOperator(settings{namespaces: []string{s.namespace}})
	s.deploy("hello", kit.Set("autoscaling.enabled", true), kit.Set("podDisruptionBudget", map[string]any{"enabled": true, "maxUnavailable": int64(1)}), kit.Set("networkPolicy.enabled", true))
	children := []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}}
	var took []time.Duration
	back := func(child client.Object, since time.Time) {
		t.Helper()
		s.awaitExists(child, "hello")
		took = append(took, time.Since(since))
	}
	for _, child := range children {
		s.get(child, "hello")
	}
	s.settled(operator)
	for i := range 6 {
		for j, child := range children {
			s.must(env.Client.Delete(ctx, child))
			deleted := time.Now()
			if other := children[(j+1)%2]; i%2 == 0 { // while it comes back, or after
				s.must(client.IgnoreNotFound(env.Client.Delete(ctx, other)))
				back(other, deleted)
			}
			back(child, deleted)
		}
	}
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	t.Logf("half were back after %s, the slowest after %s", median.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if median > 3*time.Second || slowest > 20*time.Second { // a machine has other work to do, and may stand still now and then
		t.Errorf("half of the children were back after %s, the slowest after %s\n%s", median, slowest, s.dump())
	}
	if failed := operator.metric(t, "welcome_operator_release_actions_total", `action="drift-correction".*result="failure"`); failed > 0 {
		t.Errorf("%v repairs failed", failed)
	}
}

// An event about a repair names what the operator has put back and who had changed it, and nothing that a
// controller of Kubernetes has written meanwhile.
func TestEventNamesWhatWasPutBack(t *testing.T) {
	s := newScene(t)
	controllers, err := env.RunControllers("deployment-controller", "replicaset-controller")
	s.must(err)
	s.Cleanup(controllers.Stop)
	s.operator()
	for i := range 10 {
		s.create(fmt.Sprintf("hello-%d", i), kit.Greet("before"))
	}
	for i := range 10 {
		name := fmt.Sprintf("hello-%d", i)
		s.awaitDeployment(name, "its controller has seen it", func(d *appsv1.Deployment) error {
			return says(d.Annotations["deployment.kubernetes.io/revision"], []string{"1"})
		})
		s.awaitDeployed(name)
		deployment := &appsv1.Deployment{}
		s.get(deployment, name)
		before := deployment.DeepCopy()
		deployment.Spec.Template.Spec.Containers[0].Env[0].Value = "intruders"
		s.must(env.Client.Patch(ctx, deployment, client.MergeFrom(before), client.FieldOwner("intruder")))
		s.awaitGreeting(name, "before")
		s.awaitEvent(name, "DriftCorrected", "spec.template.spec.containers[0].env[0].value")
	}
	events := &corev1.EventList{}
	s.must(env.Client.List(ctx, events, client.InNamespace(s.namespace)))
	for _, event := range events.Items {
		if event.Reason == "DriftCorrected" && !strings.HasSuffix(event.Message, `: put back spec.template.spec.containers[0].env[0].value, which was changed by field manager "intruder"`) {
			t.Errorf("an event says: %s", event.Message)
		}
	}
}

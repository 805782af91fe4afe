package object

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		live string
		want status.Status
	}{
		"OnDelete, without pods":                    {"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {replicas: 3}}", status.InProgressStatus},
		"OnDelete, with pods of before":             {"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {replicas: 3, readyReplicas: 3, currentRevision: a, updateRevision: b}}", status.CurrentStatus},
		"OnDelete of a DaemonSet, with such":        {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 2, numberReady: 2, updatedNumberScheduled: 0}}", status.CurrentStatus},
		"OnDelete of a DaemonSet, without pods":     {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2}}", status.InProgressStatus},
		"RollingUpdate of a DaemonSet, with former": {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 2}, spec: {updateStrategy: {type: RollingUpdate}}, status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 2, numberReady: 2}}", status.InProgressStatus},
		"a paused rollout that is complete":         {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 2, paused: true, progressDeadlineSeconds: 600}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: Unknown, reason: DeploymentPaused}]}}", status.CurrentStatus},
		"a paused rollout that is not":              {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 2, paused: true, progressDeadlineSeconds: 600}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: Unknown, reason: DeploymentPaused}]}}", status.InProgressStatus},
		"a pod that has failed":                     {"{apiVersion: v1, kind: Pod, status: {phase: Failed}}", status.FailedStatus},
		"a pod that has succeeded":                  {"{apiVersion: v1, kind: Pod, status: {phase: Succeeded}}", status.CurrentStatus},
		"a ReplicationController without pods":      {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 1}, status: {replicas: 1}}", status.InProgressStatus},
		"a claim that waits for its first pod":      {"{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}", status.CurrentStatus},
		"a claim that has lost its volume":          {"{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Lost}}", status.InProgressStatus},
		"a claim that goes":                         {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Pending}}", status.TerminatingStatus},
		"a suspended Job":                           {"{apiVersion: batch/v1, kind: Job, spec: {suspend: true}}", status.CurrentStatus},
		"an observed generation that is a text":     {"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {generation: 2}, status: {observedGeneration: '2', conditions: [{type: Ready, status: 'True'}]}}", status.CurrentStatus},
		"one before in a text":                      {"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {generation: 2}, status: {observedGeneration: '1'}}", status.InProgressStatus},
		"another status than that of Kubernetes":    {"{apiVersion: example.com/v1, kind: Odd, metadata: {generation: 2}, status: {observedGeneration: [2], conditions: fine}}", status.CurrentStatus},
		"a Job that has not begun":                  {"{apiVersion: batch/v1, kind: Job}", status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			whole := func() *unstructured.Unstructured { // with whole numbers, as the API server has them
				live := &unstructured.Unstructured{}
				text, err := yaml.YAMLToJSON([]byte(c.live))
				if err == nil {
					err = utiljson.Unmarshal(text, &live.Object)
				}
				if err != nil {
					t.Fatal(err)
				}
				return live
			}
			live := whole()
			got, err := Health(live)
			if err != nil || got.Status != c.want {
				t.Errorf("it is %+v (%v)", got, err)
			}
			if !reflect.DeepEqual(live, whole()) {
				t.Error("the argument was changed")
			}
		})
	}
}

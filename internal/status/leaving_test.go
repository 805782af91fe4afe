package status

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rolledOut are the conditions of a Deployment whose rollout was complete then.
func rolledOut(then time.Time) []any {
	return []any{
		map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "lastUpdateTime": then.UTC().Format(time.RFC3339)},
		map[string]any{"type": "Available", "status": "True"},
	}
}

func TestLeaving(t *testing.T) {
	const none, one = int64(0), int64(1)
	for name, c := range map[string]struct {
		ended  time.Duration // the rollout, before now
		ending any           // what the Deployment says of its pods, nil for nothing
		listed int64
		want   time.Duration
	}{
		"nobody is left":             {2 * time.Second, none, 0, 0},
		"a pod is left":              {2 * time.Second, one, 0, 28 * time.Second},
		"it hangs":                   {30 * time.Second, one, 0, 0},
		"somebody scales down later": {time.Hour, one, 0, 0},
		"the controller's clock is a little ahead":     {-2 * time.Second, one, 0, 32 * time.Second},
		"the clocks are far apart":                     {-time.Hour, one, 0, 0},
		"not counted, and a pod was listed":            {2 * time.Second, nil, 1, time.Second},
		"not counted, and one that hangs was listed":   {30 * time.Second, nil, 1, 0},
		"not counted, and none was listed":             {2 * time.Second, nil, 0, 0},
		"counted, which is better than what we listed": {2 * time.Second, none, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(t, nil).objects[0]
			o.listed = c.listed
			status := o.live.Object["status"].(map[string]any)
			status["conditions"] = rolledOut(noon.Add(-c.ended))
			if c.ending != nil {
				status["terminatingReplicas"] = c.ending
			}
			var got time.Duration
			if v := o.leaving(noon.Time); v != nil {
				got = v.again
			}
			if got != c.want {
				t.Errorf("waits for %s, want %s", got, c.want)
			}
		})
	}
	t.Run("nothing is known of a rollout", func(t *testing.T) {
		seen := observed(t, func(o *observation) {
			unstructured.RemoveNestedField(o.deployment(), "status", "conditions")
			o.objects[0].listed = 1
		})
		if v := seen.objects[0].leaving(noon.Time); v != nil {
			t.Errorf("it waits: %+v", v)
		}
	})
}

// rollOut is an edit whose new pods are ready after a second.
func (s *stage) rollOut() {
	s.Helper()
	s.edit()
	s.state.Revision++
	s.setDeployment("updatedReplicas", 1)
	s.report(s.read())
	time.Sleep(time.Second)
	s.setDeploymentStatus("conditions", rolledOut(time.Now()))
	s.setDeployment("updatedReplicas", 2)
}

// wantReady also wants that nothing more was written than that it was not Ready, and that it is.
func (s *stage) wantReady(is metav1.ConditionStatus) {
	s.Helper()
	want := map[metav1.ConditionStatus]int{metav1.ConditionFalse: 1, metav1.ConditionTrue: 2}[is]
	if got := s.stored().condition(Ready); got.Status != is || s.writes != want {
		s.Errorf("after %d writes %+v, want %s after %d", s.writes, got, is, want)
	}
}

func TestReporterWaitsForPodsOfBefore(t *testing.T) {
	start := func(t *testing.T) *stage {
		s := newStage(t)
		s.report(s.read())
		s.writes = 0
		return s
	}
	t.Run("until they are gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.setDeployment("terminatingReplicas", 1)
			s.rollOut()
			s.work(5*time.Second, nil)
			s.wantReady(metav1.ConditionFalse)
			s.setDeployment("terminatingReplicas", 0)
			s.report(s.read())
			s.wantReady(metav1.ConditionTrue)
			s.setDeployment("terminatingReplicas", 1) // somebody scales down
			s.work(time.Minute, nil)
			s.wantReady(metav1.ConditionTrue)
			if s.lists != 0 {
				t.Errorf("%d lists of pods that are counted", s.lists)
			}
		})
	})
	t.Run("for 30 seconds at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.setDeployment("terminatingReplicas", 1)
			s.rollOut()
			s.work(28*time.Second, nil)
			if got := s.stored().condition(Ready); got.Status != metav1.ConditionFalse {
				t.Errorf("it does not wait: %+v", got)
			}
			s.work(3*time.Second, nil)
			if got := s.stored().condition(Ready); got.Status != metav1.ConditionTrue {
				t.Errorf("a pod that hangs holds it: %+v", got)
			}
		})
	})
	t.Run("where nobody counts them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			ending := pod("hello-1", corev1.ContainerStatus{Ready: true})
			ending.Labels, ending.Finalizers = map[string]string{"welcome": "hello"}, []string{"example.com/kept"}
			if err := s.server.Create(t.Context(), &ending); err != nil {
				t.Fatal(err)
			}
			if err := s.server.Delete(t.Context(), &ending); err != nil {
				t.Fatal(err)
			}
			s.rollOut()
			s.work(5*time.Second, nil)
			s.wantReady(metav1.ConditionFalse)
			if err := s.server.Patch(t.Context(), &ending, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				t.Fatal(err)
			}
			s.work(2*time.Second, nil)
			s.wantReady(metav1.ConditionTrue)
			if s.lists < 1 || s.lists > 8 {
				t.Errorf("%d lists of pods in 6 seconds", s.lists)
			}
			s.lists = 0
			for range 5 {
				s.report(s.read())
			}
			if s.lists != 0 {
				t.Errorf("%d lists of pods of a release that is ready", s.lists)
			}
		})
	})
	t.Run("but for a first installation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.setDeploymentStatus("conditions", rolledOut(time.Now()))
			s.report(s.read())
			if got := s.stored().condition(Ready); got.Status != metav1.ConditionTrue || s.lists != 0 {
				t.Errorf("%d lists of pods, and %+v", s.lists, got)
			}
		})
	})
}

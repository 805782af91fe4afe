package release

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestIsPaused(t *testing.T) {
	for name, c := range map[string]struct {
		annotation string
		deleting   bool
		want       bool
	}{
		"no annotation":       {},
		"paused":              {annotation: "true", want: true},
		"as Go says it":       {annotation: "True", want: true},
		"by a number":         {annotation: "1", want: true},
		"not paused any more": {annotation: "false"},
		"anything else":       {annotation: "yes"},
		"paused and deleted":  {annotation: "true", deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			if c.annotation != "" {
				object.SetAnnotations(map[string]string{Pause: c.annotation})
			}
			if c.deleting {
				now := metav1.Now()
				object.SetDeletionTimestamp(&now)
			}
			if got := IsPaused(object); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

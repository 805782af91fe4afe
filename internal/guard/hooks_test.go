package guard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// Of a hook that fails it is said which one it is, and what tells why. A List may hold several, and what nobody waits for.
func TestHookFailed(t *testing.T) {
	hook := func(group schema.GroupVersion, kind, name string) *resource.Info {
		return &resource.Info{Namespace: "a", Name: name, Mapping: &meta.RESTMapping{GroupVersionKind: group.WithKind(kind)}}
	}
	job, held, pod, config := hook(batchv1.SchemeGroupVersion, "Job", "m"), hook(batchv1.SchemeGroupVersion, "Job", "s"), hook(corev1.SchemeGroupVersion, "Pod", "n"), hook(corev1.SchemeGroupVersion, "ConfigMap", "c")
	timedOut := fmt.Errorf("1 error occurred:\n\t* %w", errors.New("timed out waiting for the condition"))
	for _, c := range []struct {
		hooks kube.ResourceList
		err   error
		want  string
	}{
		{kube.ResourceList{job}, timedOut, `hook Job "m" in namespace "a" has not succeeded within 5m0s: timed out waiting for the condition: see kubectl -n a logs job/m`},
		{kube.ResourceList{config, job, pod}, timedOut,
			`hook Job "m" in namespace "a", Pod "n" in namespace "a" has not succeeded within 5m0s: timed out waiting for the condition: see kubectl -n a logs job/m, kubectl -n a logs pod/n`},
		{kube.ResourceList{held, job}, timedOut, `hook Job "s" in namespace "a", Job "m" in namespace "a" has not succeeded within 5m0s: timed out waiting for the condition: see ` +
			`kubectl -n a describe job/s, which is suspended, kubectl -n a logs job/m`},
		{nil, kube.ErrNoObjectsVisited, kube.ErrNoObjectsVisited.Error()},
		{kube.ResourceList{job}, nil, "<nil>"},
	} {
		if got := fmt.Sprint(hookFailed(awaited(c.hooks), 5*time.Minute, c.err, func(hook *resource.Info) string {
			if hook == held {
				return "which is suspended"
			}
			return ""
		})); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

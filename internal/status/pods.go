package status

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/pace"
)

const (
	// podsAtOnce bounds the pods read by one request, and mostPods those of one workload: each may be as large
	// as somebody could make it.
	podsAtOnce, mostPods = 20, 200
	// podsPatience bounds the time for all pods of a custom resource, part of which a worker may wait for a
	// place. It asks for one this often.
	podsPatience, placePatience, placePoll = 10 * time.Second, time.Second, 20 * time.Millisecond
)

// podPlaces are places for reading pods, one in each namespace: otherwise a namespace with large pods would
// keep all others waiting.
var podPlaces = pace.NewPlaces(1, 4)

// pods lists the pods of workloads that are not healthy, or of hooks that are awaited. To watch all pods would take
// more memory than all else, for something that is only needed when things go wrong.
func (r *Reporter) pods(ctx context.Context, seen observation) []corev1.Pod {
	ctx, cancel := context.WithTimeout(ctx, podsPatience)
	defer cancel()
	var pods []corev1.Pod
	for _, its := range seen.state.HookPods {
		pods = append(pods, r.podsOf(ctx, seen.namespace, its, seen.state.Waits)...)
	}
	if len(seen.state.HookPods) > 0 {
		return pods
	}
	for _, o := range seen.objects {
		if o.live != nil && o.hasPods() && o.health() != nil || o.starting(seen.now.Time) != nil && count(o.live, "active") > 0 {
			pods = append(pods, r.podsOf(ctx, seen.namespace, ofWorkload(o.live), o.String())...)
		}
	}
	return pods
}

// ofWorkload selects the pods of a workload.
func ofWorkload(live *unstructured.Unstructured) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: podSelector(live)}
}

// podsOf lists the pods of a workload or a hook, with no more of each than is read.
func (r *Reporter) podsOf(ctx context.Context, namespace string, which metav1.ListOptions, workload string) (pods []corev1.Pod) {
	list := &corev1.PodList{}
	for more := true; more && len(pods) < mostPods; more = list.Continue != "" {
		next := list.Continue
		list = &corev1.PodList{}
		if err := r.pageOfPods(ctx, list, namespace, which, next); err != nil {
			logf.FromContext(ctx).Error(err, "Cannot look at pods", "object", workload)
			return pods
		}
		for i := range list.Items {
			pod := &list.Items[i]
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, DeletionTimestamp: pod.DeletionTimestamp}, Status: pod.Status})
		}
	}
	return pods
}

func (r *Reporter) pageOfPods(ctx context.Context, list *corev1.PodList, namespace string, which metav1.ListOptions, next string) error {
	err := wait.PollUntilContextTimeout(ctx, placePoll, placePatience, true, func(context.Context) (bool, error) { return podPlaces.Take(namespace), nil })
	if err != nil {
		return err
	}
	defer podPlaces.Give(namespace)
	return r.live.List(ctx, list, client.InNamespace(namespace), client.Limit(podsAtOnce), client.Continue(next), &client.ListOptions{Raw: &which})
}

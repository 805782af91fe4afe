package olm

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// welcome is a Welcome that greets its own name, and requests so little that many fit on a small node.
func welcome(ns, name string) *unstructured.Unstructured {
	return kit.Welcome(ns, name, kit.Greet(name), kit.Set("resources.requests.cpu", "10m"))
}

// greet edits whom a Welcome greets.
func greet(t *testing.T, w *unstructured.Unstructured, greeted string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"name":%q}}`, greeted)
	if err := api.Patch(t.Context(), w.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("edit Welcome %s: %v", w.GetName(), err)
	}
}

// pageURL is the URL of a Welcome's page from outside of the cluster.
func pageURL(ctx context.Context, w *unstructured.Unstructured) (string, error) {
	service := &corev1.Service{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(w), service); err != nil {
		return "", err
	}
	return fmt.Sprintf("http://%s:%d/hello/", nodeIP, service.Spec.Ports[0].NodePort), nil
}

// awaitPage waits until the page of a Welcome greets somebody.
func awaitPage(t *testing.T, w *unstructured.Unstructured, greeted string) {
	t.Helper()
	await(t, 2*time.Minute, "page of "+w.GetName(), func(ctx context.Context) error {
		url, err := pageURL(ctx, w)
		if err != nil {
			return err
		}
		return kit.Page(ctx, url, "Hello "+greeted)
	})
}

// visitor requests pages one after the other, and counts answers and failures.
type visitor struct {
	requests, failures atomic.Int64
	firstFailure       atomic.Value
	stop               context.CancelFunc
	stopped            chan struct{}
}

// visit requests the pages of welcomes until stop is called. Each must always greet what it greets now.
func visit(t *testing.T, welcomes []*unstructured.Unstructured) *visitor {
	t.Helper()
	var urls []string
	for _, w := range welcomes {
		url, err := pageURL(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, url)
	}
	ctx, cancel := context.WithCancel(t.Context())
	v := &visitor{stop: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(v.stopped)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			err := kit.Page(ctx, urls[i%len(urls)], "Hello")
			if ctx.Err() != nil {
				return
			}
			v.requests.Add(1)
			if err != nil {
				v.failures.Add(1)
				v.firstFailure.CompareAndSwap(nil, err.Error())
			}
			<-pace.C
		}
	}()
	t.Cleanup(cancel)
	return v
}

// expectNoFailure stops the visitor and fails the test unless every request was answered.
func (v *visitor) expectNoFailure(t *testing.T, during string) {
	t.Helper()
	v.stop()
	<-v.stopped
	t.Logf("%d requests during %s, %d failed", v.requests.Load(), during, v.failures.Load())
	if v.failures.Load() > 0 || v.requests.Load() == 0 {
		t.Errorf("%d of %d requests failed during %s; the first: %v", v.failures.Load(), v.requests.Load(), during, v.firstFailure.Load())
	}
}

// identities are the UIDs of Welcomes and of their pods, with the restarts and the image of each pod.
func identities(t *testing.T, welcomes ...*unstructured.Unstructured) (uids, pods map[string]string) {
	t.Helper()
	uids, pods = map[string]string{}, map[string]string{}
	for _, w := range welcomes {
		found := w.DeepCopy()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), found); err != nil {
			t.Fatal(err)
		}
		uids[w.GetName()] = string(found.GetUID())
		list := &corev1.PodList{}
		if err := api.List(t.Context(), list, client.InNamespace(w.GetNamespace()), client.MatchingLabels{"welcome": w.GetName()}); err != nil {
			t.Fatal(err)
		}
		for _, pod := range list.Items {
			for _, status := range pod.Status.ContainerStatuses {
				pods[w.GetName()] += fmt.Sprintf("pod %s, %d restarts, image %s; ", pod.UID, status.RestartCount, pod.Spec.Containers[0].Image)
			}
		}
	}
	return uids, pods
}

// children lists the objects that the operator has created in ns.
func children(ctx context.Context, ns string) ([]string, error) {
	var names []string
	for _, list := range []*unstructured.UnstructuredList{kit.List("apps/v1", "Deployment"), kit.List("v1", "Service"), kit.List("v1", "ConfigMap")} {
		if err := api.List(ctx, list, client.InNamespace(ns), client.MatchingLabels{kit.ManagedBy: "welcome-operator"}); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			names = append(names, item.GetKind()+"/"+item.GetName())
		}
	}
	return names, nil
}

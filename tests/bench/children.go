package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// children renders the objects that the operator creates for a Welcome.
func (b *bench) children(welcome *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	release, err := b.renderer.Render(welcome)
	if err != nil {
		return nil, err
	}
	return kit.Objects([]byte(release.Manifest))
}

// childrenExist starts a watch. The returned function waits until there are that many more Deployments and Services,
// and returns when the later of the two was created, by name. The watch starts at the present resource version:
// otherwise, it would begin with all objects that exist.
func (b *bench) childrenExist(ctx context.Context, c contender, count int) (wait func() (map[string]time.Time, error), err error) {
	ctx, cancel := context.WithTimeout(ctx, childrenLimit)
	done, complete := make(chan error, 2), &births{at: map[string]time.Time{}}
	for _, kind := range []string{"apps/v1 Deployment", "v1 Service"} {
		list := &metav1.PartialObjectMetadataList{}
		if _, err := fmt.Sscan(kind, &list.APIVersion, &list.Kind); err != nil {
			cancel()
			return nil, err
		}
		list.Kind += "List"
		if err := b.Client.List(ctx, list, c.everywhere(), client.Limit(1)); err != nil {
			cancel()
			return nil, err
		}
		events, err := b.Client.Watch(ctx, list, c.everywhere(), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil {
			cancel()
			return nil, err
		}
		go func() {
			defer events.Stop()
			names := map[string]bool{}
			for len(names) < count {
				event, open := <-events.ResultChan()
				if !open {
					done <- fmt.Errorf("the watch ended: %d of %d exist: %s", len(names), count, kind)
					return
				}
				if object, ok := event.Object.(client.Object); ok && event.Type == watch.Added && strings.HasPrefix(object.GetName(), namePrefix) {
					names[object.GetName()] = true
					complete.add(object.GetName())
				}
			}
			done <- nil
		}()
	}
	return func() (map[string]time.Time, error) {
		defer cancel()
		return complete.at, errors.Join(<-done, <-done)
	}, nil
}

// childrenLimit bounds how long the creation of children may take.
const childrenLimit = 40 * time.Minute

// births are the times when the last object of each name was created.
type births struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (b *births) add(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[name] = time.Now()
}

// driftPause is the pause between two changes: real drift is seldom, and not on a thousand objects at once.
const driftPause = 50 * time.Millisecond

// drift changes that many Deployments, one after the other, and returns how long each change lasted.
func (b *bench) drift(ctx context.Context, c contender, first, count int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(count)*driftPause+time.Minute)
	defer cancel()
	list := &appsv1.DeploymentList{}
	if err := b.Client.List(ctx, list, c.everywhere(), client.Limit(1)); err != nil {
		return nil, err
	}
	events, err := b.Client.Watch(ctx, list, c.everywhere(), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	type change struct {
		name string
		at   time.Time
	}
	// The change is noted before it is made, for its event may come before the answer.
	changes, failed := make(chan change, count), make(chan error, 1)
	go func() {
		for number := first; number < first+count; number++ {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(number), Name: nameOf(number)}}
			patch := `{"spec":{"template":{"spec":{"containers":[{"name":"welcome","env":[{"name":"NAME","value":"an intruder"}]}]}}}}`
			changes <- change{deployment.Name, time.Now()}
			if err := b.Client.Patch(ctx, deployment, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
				failed <- err
				return
			}
			time.Sleep(driftPause)
		}
	}()
	began, drifted := map[string]time.Time{}, map[string]bool{}
	var lasted []time.Duration
	for len(lasted) < count {
		select {
		case change := <-changes:
			began[change.name] = change.at
		case err := <-failed:
			return nil, err
		case event, open := <-events.ResultChan():
			if !open {
				return lasted, nil // changes that were not repaired in time are missing
			}
			deployment, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			changed := kit.Greeting(deployment) == "an intruder"
			if changed {
				drifted[deployment.Name] = true
			} else if drifted[deployment.Name] {
				delete(drifted, deployment.Name)
				for began[deployment.Name].IsZero() {
					change := <-changes
					began[change.name] = change.at
				}
				lasted = append(lasted, time.Since(began[deployment.Name]))
			}
		}
	}
	return lasted, nil
}

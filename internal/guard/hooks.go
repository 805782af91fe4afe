package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// createHooks makes hooks, which are no part of the release: they come and go.
func (g *Guard) createHooks(hooks kube.ResourceList) (*kube.Result, error) {
	made, err := g.Client.Create(hooks)
	if apierrors.IsAlreadyExists(err) {
		if err = g.clearRun(hooks); err == nil {
			made, err = g.Client.Create(hooks)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		if why := g.hookInTheWay(hooks); why != nil {
			return nil, why
		}
	}
	for _, info := range hooks {
		err = said(info, err)
	}
	return made, err
}

// clearRun makes room for hooks that are to be made. Helm itself deletes what is there of a hook only where its delete policy is before-hook-creation, the default. With another
// one, what an attempt has left that failed or was killed would be in the way of each further one. So this deletes the owner's Jobs and Pods of these names, which have run, be it as
// objects that the chart has made hooks of since; and any other hook whose policy is hook-succeeded, which was not to stay.
func (g *Guard) clearRun(hooks kube.ResourceList) error {
	for _, info := range hooks {
		live, err := g.live(info)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		kind := info.Mapping.GroupVersionKind.GroupKind()
		runs := (kind == object.Job || kind == object.Pod) && !g.keeps(info, live)
		goes := runs || object.IsHook(live) && strings.Contains(live.GetAnnotations()[release.HookDeleteAnnotation], release.HookSucceeded.String())
		if !goes || !g.owns(live) {
			continue
		}
		if err := g.takeOut(&target{info: info, live: live}); err != nil {
			return err
		}
	}
	return nil
}

// WatchUntilReady waits for the end of a hook.
func (g *Guard) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	hooks := awaited(resources)
	return g.await("hook "+names(hooks)+" to end", g.plan.IsDeleted, func() error {
		err := g.Client.WatchUntilReady(resources, timeout)
		if err == nil {
			err = g.checkStay(hooks)
		}
		return hookFailed(hooks, timeout, err)
	})
}

// awaited are those of hooks that Helm waits for.
func awaited(hooks kube.ResourceList) kube.ResourceList {
	return hooks.Filter(func(info *resource.Info) bool {
		kind := info.Mapping.GroupVersionKind.GroupKind()
		return kind == object.Job || kind == object.Pod
	})
}

func names(resources kube.ResourceList) string {
	var names []string
	for _, info := range resources {
		names = append(names, describe(info))
	}
	return strings.Join(names, ", ")
}

// checkStay fails if a hook is gone, which Helm takes for its success: somebody has deleted it before its end, unless it is to go by itself after that.
func (g *Guard) checkStay(hooks kube.ResourceList) error {
	for _, info := range hooks {
		if _, expires, _ := unstructured.NestedInt64(content(info.Object).Object, "spec", "ttlSecondsAfterFinished"); expires {
			continue
		}
		if _, err := g.live(info); apierrors.IsNotFound(err) {
			return errors.New("somebody has deleted it")
		}
	}
	return nil
}

// hookFailed says which hook it was, and where to look: of one that takes too long, Helm says only that it timed out.
func hookFailed(hooks kube.ResourceList, timeout time.Duration, err error) error {
	if err == nil || len(hooks) == 0 {
		return err
	}
	var logs []string
	for _, info := range hooks {
		logs = append(logs, fmt.Sprintf("kubectl -n %s logs %s/%s", info.Namespace, strings.ToLower(info.Mapping.GroupVersionKind.Kind), info.Name))
	}
	if first := errors.Unwrap(err); first != nil {
		err = first // without the number of errors, and in one line
	}
	return fmt.Errorf("hook %s"+ofAHook+"%s: %w: see %s", names(hooks), timeout, err, strings.Join(logs, ", "))
}

// ofAHook is how the error of a hook is known: Helm makes a text of it.
const ofAHook = " has not succeeded within "

// IsOfAHook is whether an action has failed because a hook has.
func IsOfAHook(err error) bool { return err != nil && strings.Contains(err.Error(), ofAHook) }

// hookInTheWay is why a hook can't be made where an object of its name is kept, or somebody else's, nil where none is. Who deletes by hand what is kept has it put back until the
// upgrade has succeeded.
func (g *Guard) hookInTheWay(hooks kube.ResourceList) error {
	for _, info := range hooks {
		live, err := g.live(info)
		switch {
		case err != nil:
		case (g.owns(live) || g.isMarked(live)) && g.keeps(info, live):
			return fmt.Errorf("%s cannot be changed to what the chart wants, a hook, for it is kept: have the chart give the hook another name", describe(info))
		case !g.owns(live):
			return g.inTheWay(info, live)
		}
	}
	return nil
}

// WaitForDelete waits until an old hook is gone, if it is the owner's: of another's, and of what is kept, nothing was deleted.
func (g *Guard) WaitForDelete(resources kube.ResourceList, timeout time.Duration) (err error) {
	defer g.caught(&err)
	var owned kube.ResourceList
	for _, info := range resources {
		live, err := g.live(info)
		if err == nil && g.owns(live) && !g.keeps(info, live) {
			owned.Append(info)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
	}
	if len(owned) == 0 {
		return nil
	}
	return g.await(names(owned)+" to be gone", g.plan.IsDeleted, func() error { return g.Client.WaitForDelete(owned, timeout) })
}

// GetPodList finds no pod whose log Helm could print for a hook that asks for that: the operator has no right on logs, its own log is no place for them, and
// Helm, to which the library says no place either, would end in a panic.
func (g *Guard) GetPodList(string, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{}, nil
}

const (
	// tellAfter is how long an action waits before it says what for: most hooks have ended by then, and to say so costs a write.
	tellAfter = 2 * time.Second
	// deletedPoll is how often it looks, into the cache, whether its custom resource is deleted.
	deletedPoll = time.Second
)

// await gives the slot to others while wait, for a hook or a deletion, runs, and ends with the operator, of which Helm would not hear, or if abandon says so: a custom resource
// that somebody deletes would stay until the end of a hook that has none.
func (g *Guard) await(what string, abandon func() bool, wait func() error) error {
	g.slots.Give(g.owner.GetNamespace())
	defer func() { _ = g.slots.Take(context.Background(), g.owner.GetNamespace()) }() // which has no end
	ended := make(chan error, 1)
	go func() { ended <- g.try(wait) }()
	late := time.NewTimer(tellAfter)
	defer late.Stop()
	poll := time.NewTicker(deletedPoll)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-late.C:
			g.plan.Waiting(what)
			defer g.plan.Waiting("") // there is one such time
		case <-poll.C:
			if abandon() {
				g.Abandoned = true
				g.plan.Abandon(ended)
				return fmt.Errorf("the custom resource is deleted, and no longer waits for %s", what)
			}
		case <-g.ctx.Done():
			return fmt.Errorf("wait: %w", g.ctx.Err())
		}
	}
}

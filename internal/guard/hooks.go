package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// createHooks creates hooks, which are not part of the release.
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

// clearRun makes room for hooks that are to be created. With the delete policy before-hook-creation, the
// default, Helm deletes an existing hook itself. With another one, what a failed or killed attempt has left
// would be in the way of each further attempt. So this deletes the owner's Jobs and Pods of these names, which
// have run, even if they were ordinary objects of the chart before; and other hooks with the policy
// hook-succeeded, which were not to stay.
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
		if !goes || !g.owns(live) && !g.isLeftHook(info, live) {
			continue
		}
		if err := g.takeOut(&target{info: info, live: live}); err != nil {
			return err
		}
	}
	return nil
}

// isLeftHook is whether a live object is a hook of the owner's release that nobody owns: a namesake of the owner has
// left it, or it was restored from a backup. It is taken over where a hook of the owner's would be deleted, and goes.
// That is so in a deletion, too: an orphaning one, in which nothing may be taken over, runs no hooks.
func (g *Guard) isLeftHook(info *resource.Info, live *unstructured.Unstructured) bool {
	switch {
	case g.owns(live), g.isGiven(live), !object.IsHook(content(info.Object)), !object.IsHook(live):
		return false
	case info.Mapping.GroupVersionKind.GroupKind() == object.Claim: // what is stored in it would go with it
		return false
	case !object.Inheritable(live, g.owner), len(object.Unmarked(live, g.shape(info), g.owner)) > 0:
		return false
	}
	return g.owner.GetDeletionTimestamp() != nil || g.plan.MayInherit() == nil
}

// WatchUntilReady waits for the end of a hook.
func (g *Guard) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	hooks, begun := awaited(resources), time.Now()
	what := func() Awaited {
		awaited := Awaited{Pods: podsOf(hooks)}
		awaited.What = "hook " + names(hooks, func(info *resource.Info) string {
			why := g.withoutLogs(info)
			if why != "" {
				awaited.HasNoPods = time.Since(begun) > object.PodsDue
				why += fmt.Sprintf(" (kubectl -n %s describe job/%s)", info.Namespace, info.Name)
			}
			return why
		}) + " to end"
		return awaited
	}
	return g.await(what, g.plan.IsDeleted, func() error {
		err := g.Client.WatchUntilReady(resources, timeout)
		if err == nil {
			err = g.checkStay(hooks)
		}
		return hookFailed(hooks, timeout, err, g.withoutLogs)
	})
}

// awaited are the hooks that Helm waits for.
func awaited(hooks kube.ResourceList) kube.ResourceList {
	return hooks.Filter(func(info *resource.Info) bool {
		kind := info.Mapping.GroupVersionKind.GroupKind()
		return kind == object.Job || kind == object.Pod
	})
}

// names are objects, each with what why says of it.
func names(resources kube.ResourceList, why func(*resource.Info) string) string {
	var names []string
	for _, info := range resources {
		name := describe(info)
		if why := why(info); why != "" {
			name += ", " + why + ","
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// bare is for names without more.
func bare(*resource.Info) string { return "" }

// podsOf select the pods of hooks.
func podsOf(hooks kube.ResourceList) (pods []metav1.ListOptions) {
	for _, info := range hooks {
		if info.Mapping.GroupVersionKind.GroupKind() == object.Job {
			pods = append(pods, metav1.ListOptions{LabelSelector: labels.Set{batchv1.JobNameLabel: info.Name}.String()})
		} else {
			pods = append(pods, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, info.Name).String()})
		}
	}
	return pods
}

// checkStay fails if a hook is gone, which Helm counts as its success: somebody has deleted it before its end,
// unless it has a TTL.
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

// withoutLogs is why a hook has no logs to look at, empty if it may have some: somebody may hold a Job, or refuse its
// pods.
func (g *Guard) withoutLogs(info *resource.Info) string {
	if info.Mapping.GroupVersionKind.GroupKind() != object.Job {
		return ""
	}
	live, err := g.live(info)
	if err != nil {
		return ""
	}
	switch {
	case object.IsSuspended(live):
		return "which is suspended (spec.suspend: true)"
	case object.HasNoPods(live):
		return "which has no pods"
	}
	return ""
}

// hookFailed adds to an error of Helm's which hook it was, and where to look: of a timeout, Helm says no more
// than that.
func hookFailed(hooks kube.ResourceList, timeout time.Duration, err error, withoutLogs func(*resource.Info) string) error {
	if err == nil || len(hooks) == 0 {
		return err
	}
	var where []string
	for _, info := range hooks {
		look, why := "logs", withoutLogs(info)
		if why != "" {
			look, why = "describe", ", "+why
		}
		where = append(where, fmt.Sprintf("kubectl -n %s %s %s/%s%s", info.Namespace, look, strings.ToLower(info.Mapping.GroupVersionKind.Kind), info.Name, why))
	}
	if first := errors.Unwrap(err); first != nil {
		err = first // without Helm's count of errors, and on one line
	}
	return fmt.Errorf("hook %s"+ofAHook+"%s: %w: see %s", names(hooks, bare), timeout, err, strings.Join(where, ", "))
}

// ofAHook marks the error of a hook, which Helm turns into a string.
const ofAHook = " has not succeeded within "

// IsOfAHook is whether an action has failed because of a hook.
func IsOfAHook(err error) bool { return err != nil && strings.Contains(err.Error(), ofAHook) }

// hookInTheWay is why a hook cannot be created where an object of its name is somebody else's, is kept, or is one of the
// owner's that nothing deletes before; else nil. To delete one by hand that is kept, or was an object of the chart, does
// not help: it is put back until the upgrade has succeeded.
func (g *Guard) hookInTheWay(hooks kube.ResourceList) error {
	for _, info := range hooks {
		live, err := g.live(info)
		switch {
		case err != nil:
		case (g.owns(live) || g.isMarked(live)) && g.keeps(info, live):
			return fmt.Errorf("%s cannot be changed to what the chart wants, a hook, for it is kept: have the chart give the hook another name", describe(info))
		case !g.owns(live):
			return g.inTheWay(info, live)
		case live.GetDeletionTimestamp() == nil:
			return fmt.Errorf("%s cannot be changed to what the chart wants, a hook, for nothing deletes it before: have the chart add before-hook-creation to helm.sh/hook-delete-policy, or give the hook another name", describe(info))
		}
	}
	return nil
}

// WaitForDelete waits until an old hook of the owner's is gone. What is somebody else's, or kept, was not
// deleted.
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
	what := func() Awaited { return Awaited{What: names(owned, bare) + " to be gone"} }
	return g.await(what, g.plan.IsDeleted, func() error { return g.Client.WaitForDelete(owned, timeout) })
}

// GetPodList finds no pods, whose logs Helm would print for a hook that asks for that. The operator has no
// right to read logs, and its own log is no place for them. Besides, the library gives Helm no writer for them,
// so that it would panic.
func (g *Guard) GetPodList(string, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{}, nil
}

const (
	// tellAfter is how long an action waits before the status says what for: most hooks have ended by then, and
	// each such status is a write. It looks again this often at what is in the way.
	tellAfter, tellAgain = 2 * time.Second, 15 * time.Second
	// deletedPoll is how often the cache is asked whether the custom resource was deleted.
	deletedPoll = time.Second
)

// await calls wait, for a hook or a deletion, and lends the slot to others meanwhile. It returns early when the
// operator ends, which Helm would not notice, and when abandon says so: a custom resource that was deleted
// would otherwise stay as long as a hook that never ends.
func (g *Guard) await(what func() Awaited, abandon func() bool, wait func() error) error {
	g.slots.Give(g.owner.GetNamespace())
	defer func() { _ = g.slots.Take(context.Background(), g.owner.GetNamespace()) }() // which has no end
	ended := make(chan error, 1)
	go func() { ended <- g.try(wait) }()
	late := time.NewTimer(tellAfter)
	defer late.Stop()
	poll := time.NewTicker(deletedPoll)
	defer poll.Stop()
	told, again := false, object.PodsDue
	defer func() {
		if told {
			g.plan.Waiting(Awaited{})
		}
	}()
	for {
		select {
		case err := <-ended:
			return err
		case <-late.C:
			told = true
			g.plan.Waiting(what())
			late.Reset(again)
			again = tellAgain
		case <-poll.C:
			if abandon() {
				g.Abandoned = true
				g.plan.Abandon(ended)
				return fmt.Errorf("the custom resource is deleted, and no longer waits for %s", what().What)
			}
		case <-g.ctx.Done():
			return fmt.Errorf("wait: %w", g.ctx.Err())
		}
	}
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// driftMemory is how long a drift is shown. Events are kept for about as long.
const driftMemory = time.Hour

// onlooker looks at one custom resource more closely.
type onlooker struct {
	*cluster
	api client.Client
	obj *unstructured.Unstructured

	mu     sync.Mutex
	unread []string
}

// look adds details to the report of obj, as far as the caller may read them.
func (c *cluster) look(ctx context.Context, obj *unstructured.Unstructured, r *report) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	l := &onlooker{cluster: c, api: api, obj: obj}
	r.details = &details{Drift: []happening{}, Events: []happening{}}
	children, err := l.children(ctx)
	if err != nil {
		return err
	}
	if r.Objects, err = l.nodes(ctx, children); err != nil {
		return err
	}
	r.contradictedBy(r.Objects)
	if err := l.events(ctx, r); err != nil {
		return err
	}
	if r.WaitsFor != "" {
		if err := l.rollout(ctx, r); err != nil {
			return err
		}
	}
	slices.Sort(l.unread)
	r.Unread = slices.Compact(l.unread)
	return nil
}

// refused notes what the caller has no right to read. Other errors are returned.
func (l *onlooker) refused(what string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = append(l.unread, "you have no right to read "+what)
	return nil
}

// children are the objects of the release. The status lists them; if it does not, because an older version
// wrote it, the record does. If the caller may not read that, they are found by their labels.
func (l *onlooker) children(ctx context.Context) ([]object.Child, error) {
	of := status.Of(l.obj).Release
	if of == nil {
		return nil, nil
	}
	if known := object.Children(of.Children); known != nil {
		return slices.DeleteFunc(known, func(child object.Child) bool { return child.Expired }), nil
	}
	newest, err := l.record(ctx, of)
	if newest != nil && newest.Children != nil {
		return newest.Children, nil
	}
	if err := l.refused("the record of the release, so that objects of kinds that you may not list are missing here", client.IgnoreNotFound(err)); err != nil {
		return nil, err
	}
	return l.labelled(ctx)
}

// record is the metadata of the newest release record.
func (l *onlooker) record(ctx context.Context, of *status.Release) (*record.Record, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(recordKind(of))
	err := l.api.Get(ctx, client.ObjectKey{Namespace: l.obj.GetNamespace(), Name: record.NameOf(of.Name, int(of.Revision))}, meta)
	if err != nil {
		return nil, err
	}
	return record.Parse(meta, of.Name), nil
}

// recordKind is the kind of the release's records: they are Secrets if the digests in the status are sealed.
func recordKind(of *status.Release) schema.GroupVersionKind {
	if object.Sealed(of.Digest) {
		return object.Secret
	}
	return corev1.SchemeGroupVersion.WithKind("ConfigMap")
}

// labelled finds the objects that the custom resource owns, among all objects with the operator's label, of
// every kind that the caller may list.
func (l *onlooker) labelled(ctx context.Context) ([]object.Child, error) {
	known, err := l.flags.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	lists, err := known.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	var kinds []schema.GroupVersionKind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, lists) {
		for _, resource := range list.APIResources {
			kind := schema.FromAPIVersionAndKind(list.GroupVersion, resource.Kind)
			if kind.Kind != "Event" && kind.GroupKind() != l.obj.GroupVersionKind().GroupKind() {
				kinds = append(kinds, kind)
			}
		}
	}
	var found []object.Child
	err = each(ctx, len(kinds), func(ctx context.Context, i int) error {
		kind := kinds[i]
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := l.api.List(ctx, page, client.InNamespace(l.obj.GetNamespace()), client.MatchingLabelsSelector{Selector: object.ManagedBy()})
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err): // most kinds are of no release
		case err != nil: // an aggregated API that fails, for example
			l.unread = append(l.unread, kind.GroupKind().String()+": "+err.Error())
		}
		for i := range page.Items {
			child := object.Child{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: page.Items[i].Name}
			if l.owns(&page.Items[i]) && !record.Is(child) && page.Items[i].Annotations[helmrelease.HookAnnotation] == "" {
				found = append(found, child)
			}
		}
		return nil
	})
	slices.SortFunc(found, object.Child.Compare)
	return found, err
}

// owns is whether an object belongs to the custom resource. A release record may be forged, and name any
// object.
func (l *onlooker) owns(obj metav1.Object) bool {
	var unowned []types.UID
	if of := status.Of(l.obj).Release; of != nil {
		for _, object := range of.Unowned {
			unowned = append(unowned, object.UID)
		}
	}
	return object.Owned(obj, l.obj, unowned)
}

// live reads a child from the cluster.
func (l *onlooker) live(ctx context.Context, child object.Child) (*unstructured.Unstructured, error) {
	live := child.Empty()
	return live, l.api.Get(ctx, client.ObjectKey{Namespace: l.obj.GetNamespace(), Name: child.Name}, live)
}

// nodes looks at objects, and at the pods of workloads.
func (l *onlooker) nodes(ctx context.Context, children []object.Child) ([]*node, error) {
	nodes := make([]*node, len(children))
	return nodes, each(ctx, len(children), func(ctx context.Context, i int) (err error) {
		nodes[i], err = l.node(ctx, children[i])
		return err
	})
}

func (l *onlooker) node(ctx context.Context, child object.Child) (*node, error) {
	n := &node{Kind: child.Kind, Name: child.Name, Health: string(kstatus.UnknownStatus)}
	live, err := l.live(ctx, child)
	switch {
	case apierrors.IsForbidden(err):
		n.Message = "you may not read it"
		return n, nil
	case apierrors.IsNotFound(err) && l.obj.GetDeletionTimestamp() != nil:
		n.Health, n.Message = string(kstatus.NotFoundStatus), "it is gone"
		return n, nil
	case apierrors.IsNotFound(err) && child.Expires:
		n.Message = "it is gone: Kubernetes deletes it once it is done (ttlSecondsAfterFinished), or somebody has deleted it"
		return n, nil
	case apierrors.IsNotFound(err):
		n.Health, n.Message = string(kstatus.NotFoundStatus), "somebody has deleted it"
		return n, nil
	case err != nil && ctx.Err() == nil && !isOutage(err): // the cluster no longer has the kind, or its conversion webhook is down
		n.Message = err.Error()
		return n, nil
	case err != nil:
		return nil, err
	case !l.owns(live):
		n.Health, n.Message = string(kstatus.NotFoundStatus), "another object has its name, which is not this custom resource's"
		return n, nil
	}
	n.judge(live)
	if child.Kind == "CronJob" {
		n.Parts, err = l.jobs(ctx, live)
		return n, err
	}
	if _, workload := object.PodsOf[child.Kind]; workload && child.Kind != "Pod" && child.Kind != "PodTemplate" {
		n.Parts, err = l.pods(ctx, live)
	}
	return n, err
}

// judge sets the health of an object, as the operator sees it.
func (n *node) judge(live *unstructured.Unstructured) {
	result, err := object.Health(live)
	if err != nil {
		n.Message = err.Error()
		return
	}
	n.Health = string(result.Status)
	if result.Status != kstatus.CurrentStatus {
		n.Message = result.Message
	}
	if paused, _, _ := unstructured.NestedBool(live.Object, "spec", "paused"); paused && live.GetKind() == "Deployment" {
		n.Message = strings.TrimPrefix(n.Message+"; somebody has paused its rollout", "; ")
	}
}

// jobs are the newest runs of a CronJob, with their pods.
func (l *onlooker) jobs(ctx context.Context, cronJob *unstructured.Unstructured) ([]*node, error) {
	jobs, err := l.list(ctx, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, client.InNamespace(cronJob.GetNamespace()))
	if err != nil {
		return nil, l.refused("jobs", err)
	}
	jobs = slices.DeleteFunc(jobs, func(job unstructured.Unstructured) bool { return !metav1.IsControlledBy(&job, cronJob) })
	slices.SortFunc(jobs, func(a, b unstructured.Unstructured) int {
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	var nodes []*node
	for i := range jobs[:min(len(jobs), 3)] {
		n := &node{Kind: "Job", Name: jobs[i].GetName()}
		n.judge(&jobs[i])
		if n.Parts, err = l.pods(ctx, &jobs[i]); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// pods are the pods that a workload selects.
func (l *onlooker) pods(ctx context.Context, workload *unstructured.Unstructured) ([]*node, error) {
	content, _, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	if workload.GetKind() == "ReplicationController" { // older than label selectors
		content = map[string]any{"matchLabels": content}
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector); err != nil {
		return nil, err
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selects.Empty() {
		return nil, err
	}
	list := &corev1.PodList{}
	if err := l.api.List(ctx, list, client.InNamespace(workload.GetNamespace()), client.MatchingLabelsSelector{Selector: selects}); err != nil {
		return nil, l.refused("pods", err)
	}
	var nodes []*node
	for i := range list.Items {
		nodes = append(nodes, nodeOfPod(&list.Items[i]))
	}
	return nodes, nil
}

// nodeOfPod says whether a pod is ready, how often its containers were restarted, and why the last time, and what
// has failed and is not restarted yet.
func nodeOfPod(pod *corev1.Pod) *node {
	n := &node{Kind: "Pod", Name: pod.Name, Health: string(kstatus.CurrentStatus)}
	phase := string(pod.Status.Phase)
	words := []string{phase}
	var ready, restarts int32
	var last, failed *corev1.ContainerStateTerminated
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range containers {
		c := &containers[i]
		restarts += c.RestartCount
		if ended := c.LastTerminationState.Terminated; ended != nil && (last == nil || last.FinishedAt.Before(&ended.FinishedAt)) {
			last = ended
		}
		if ended := c.State.Terminated; ended != nil && ended.ExitCode != 0 && (failed == nil || ended.FinishedAt.Before(&failed.FinishedAt)) {
			failed = ended // the first: the kubelet then ends the sidecars, too
		}
		if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "" {
			if words[0] == phase || !isStarting(waiting) { // else it waits for the one that has a reason
				words[0] = waiting.Reason
			}
			n.Health = string(kstatus.InProgressStatus)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Ready {
			ready++
		}
	}
	if pod.Status.Phase != corev1.PodSucceeded {
		words = append(words, fmt.Sprintf("%d of %d ready", ready, len(pod.Spec.Containers)))
		if int(ready) < len(pod.Spec.Containers) {
			n.Health = string(kstatus.InProgressStatus)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			words = append(words, c.Reason+": "+c.Message)
		}
	}
	switch {
	case pod.DeletionTimestamp != nil:
		words[0], n.Health = "Terminating", string(kstatus.TerminatingStatus)
	case pod.Status.Phase == corev1.PodFailed:
		words[0], n.Health = phase, string(kstatus.FailedStatus) // what waits never starts
		if pod.Status.Reason != "" {
			words = append(words, strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": "))
		}
	}
	if restarts > 0 {
		words = append(words, counted(int(restarts), "restart"))
	}
	if last != nil {
		words = append(words, "the last after "+endOf(last))
	}
	if failed != nil && pod.Status.Phase != corev1.PodSucceeded {
		words = append(words, "ended with "+endOf(failed))
	}
	n.Message = strings.Join(words, ", ")
	return n
}

// isStarting is whether a container only waits to be started, for which the kubelet has these two reasons.
func isStarting(waiting *corev1.ContainerStateWaiting) bool {
	return waiting.Reason == "PodInitializing" || waiting.Reason == "ContainerCreating"
}

// endOf says how a container has ended. The kubelet may have lost when.
func endOf(ended *corev1.ContainerStateTerminated) string {
	end := fmt.Sprintf("%s, exit code %d", ended.Reason, ended.ExitCode)
	if !ended.FinishedAt.IsZero() {
		end += ", at " + ended.FinishedAt.UTC().Format(time.RFC3339)
	}
	return end
}

// events are the events of the custom resource, and of those of its pods that are not healthy.
func (l *onlooker) events(ctx context.Context, r *report) error {
	about := map[string]fields.Selector{string(l.obj.GetUID()): fields.OneTermEqualSelector("involvedObject.uid", string(l.obj.GetUID()))}
	for _, n := range r.Objects {
		for _, part := range n.Parts {
			if part.Kind == "Pod" && part.Health != string(kstatus.CurrentStatus) && len(about) < 4 {
				about[part.Name] = fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": part.Name, "type": corev1.EventTypeWarning}.AsSelector()
			}
		}
	}
	for _, selector := range about {
		list := &corev1.EventList{}
		if err := l.api.List(ctx, list, client.InNamespace(l.obj.GetNamespace()), client.MatchingFieldsSelector{Selector: selector}); err != nil {
			r.eventless = apierrors.IsForbidden(err)
			return l.refused("events, which also tell of drift", err)
		}
		for i := range list.Items {
			r.Events = append(r.Events, happeningOf(&list.Items[i]))
		}
	}
	slices.SortFunc(r.Events, func(a, b happening) int { return b.Last.Compare(a.Last.Time) })
	r.Drift = append(r.Drift, driftIn(r.Events, time.Now())...)
	return nil
}

// driftIn are the events about drift in the last hour.
func driftIn(events []happening, now time.Time) (drift []happening) {
	for _, event := range events {
		tells := slices.Contains([]string{release.DriftCorrected, release.DriftDetected, release.DriftLoop}, event.Reason)
		if tells && now.Sub(event.Last.Time) < driftMemory {
			drift = append(drift, event)
		}
	}
	return drift
}

// rollout counts the custom resources that wait for a new chart, as far as the caller may see them.
func (l *onlooker) rollout(ctx context.Context, r *report) error {
	others, err := l.list(ctx, l.obj.GroupVersionKind())
	if apierrors.IsForbidden(err) {
		others, err = l.list(ctx, l.obj.GroupVersionKind(), client.InNamespace(l.obj.GetNamespace()))
	}
	if err != nil {
		return l.refused("how far the rollout is", err)
	}
	waiting := 0
	for i := range others {
		if reportOf(&others[i]).WaitsFor != "" {
			waiting++
		}
	}
	r.Rollout = fmt.Sprintf("%d of %s wait", waiting, counted(len(others), r.Kind))
	return nil
}

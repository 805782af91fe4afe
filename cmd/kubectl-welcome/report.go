package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"demo.welcome.domain/welcome-operator/internal/release"
	"demo.welcome.domain/welcome-operator/internal/status"
)

// report is what is shown of one custom resource. -o json prints exactly this.
type report struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready, Reason and Message are those of the condition Ready, if that is about the current spec.
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
	Since   *metav1.Time           `json:"since,omitempty"`
	// Turn is who has to act: nobody, you, operator, cluster, rollout or others.
	Turn turn `json:"turn"`
	// WaitsFor is why the upgrade to a new chart is delayed.
	WaitsFor   string             `json:"waitsFor,omitempty"`
	Generation int64              `json:"generation"`
	Release    *releaseReport     `json:"release,omitempty"`
	URL        string             `json:"url,omitempty"`
	Operator   string             `json:"operator,omitempty"`
	Age        metav1.Time        `json:"created"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	*details   `json:",inline"`
}

// releaseReport is what is shown of the Helm release.
type releaseReport struct {
	Name        string      `json:"name"`
	Revision    int64       `json:"revision"`
	Chart       string      `json:"chart"`
	Version     string      `json:"version"`
	Status      string      `json:"status"`
	LastApplied metav1.Time `json:"lastApplied"`
	Generation  int64       `json:"generation"`
}

type turn string

const (
	nobodys    turn = "nobody"
	yours      turn = "you"
	operators  turn = "operator"
	clusters   turn = "cluster"
	rollouts   turn = "rollout"
	othersTurn turn = "others"
)

// unhealthy are reasons of Ready for which people have to act: the cause is the image, the spec, the nodes,
// what a hook needs, a quota, a webhook, or what somebody has paused or deleted.
var unhealthy = []string{
	status.ReasonImagePullFailed, status.ReasonCrashLooping, status.ReasonContainerFailed, status.ReasonUnschedulable, status.ReasonPodsRejected,
	status.ReasonRolloutPaused, status.ReasonObjectDeleted, status.ReasonJobHasNoPods, status.ReasonHookHasNoPods, status.ReasonHookFailed, status.ReasonWebhookFailed, "QuotaExceeded",
}

// notSeen is the reason if the condition Ready says nothing about the current spec.
const notSeen = "NotSeen"

// elseDoctor is the advice for when the operator does not answer.
const elseDoctor = "If that takes longer than a moment: kubectl welcome doctor."

// reportOf shows what the custom resource itself says. It asks the cluster nothing.
func reportOf(obj *unstructured.Unstructured) *report {
	s := status.Of(obj)
	r := &report{
		Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Generation: obj.GetGeneration(), URL: s.URL, Operator: s.Operator,
		Age: obj.GetCreationTimestamp(), Conditions: s.Conditions, Ready: metav1.ConditionUnknown,
	}
	if s.Release != nil {
		r.Release = &releaseReport{
			Name: s.Release.Name, Revision: s.Release.Revision, Chart: s.Release.Chart, Version: s.Release.Version, Status: s.Release.Status,
			LastApplied: s.Release.LastApplied, Generation: s.Release.Generation,
		}
	}
	ready := meta.FindStatusCondition(s.Conditions, status.Ready)
	is := func(kind string) bool { return meta.IsStatusConditionTrue(s.Conditions, kind) }
	pausing := release.IsPaused(obj)
	switch {
	case ready == nil:
		r.Reason, r.Turn = notSeen, operators
		r.Message = "No operator has looked at it yet: is one running that serves this kind, this namespace and these labels? " + elseDoctor
		return r
	case ready.ObservedGeneration != obj.GetGeneration() && !pausing && obj.GetDeletionTimestamp() == nil:
		r.Reason, r.Turn = notSeen, operators
		r.Message = "The operator has not looked at its spec as it is now. " + elseDoctor + " Before, it was: " + ready.Message
		return r
	}
	r.Ready, r.Reason, r.Since = ready.Status, ready.Reason, &ready.LastTransitionTime
	r.Message = ready.Message
	if ready.Status == metav1.ConditionTrue { // otherwise the message may quote a chart's error
		message, waits, _ := strings.Cut(ready.Message, release.Outdated)
		r.Message, r.WaitsFor = strings.TrimSpace(message), strings.TrimSuffix(waits, ".")
	}
	foreign := slices.ContainsFunc(obj.GetFinalizers(), func(finalizer string) bool { return finalizer != status.Finalizer })
	switch {
	case obj.GetDeletionTimestamp() != nil:
		r.Turn = operators
		if foreign && !slices.Contains(obj.GetFinalizers(), status.Finalizer) {
			r.Turn, r.Message = othersTurn, "It is deleted when who has set these finalizers is done: "+strings.Join(obj.GetFinalizers(), ", ")
		} else if ready.ObservedGeneration != obj.GetGeneration() { // a deletion increases the generation
			r.Ready, r.Reason, r.Since = metav1.ConditionUnknown, notSeen, obj.GetDeletionTimestamp()
			r.Message = "The operator has yet to see that it is to be deleted. " + elseDoctor + " Before, it was: " + ready.Message
		} else if is(status.Stalled) {
			r.Turn = yours
		}
	case pausing:
		r.Ready, r.Reason, r.Turn = metav1.ConditionUnknown, status.ReasonPaused, yours
		r.Message = "Somebody has paused it. To end that: kubectl welcome resume " + typed(obj)
	case ready.Status == metav1.ConditionUnknown:
		r.Turn, r.Message = operators, "The operator has yet to see that it is no longer paused."
	case is(status.Stalled), slices.Contains(unhealthy, ready.Reason):
		r.Turn = yours
	case r.WaitsFor != "":
		r.Turn = rollouts
	case is(status.DriftLoop):
		r.Turn = yours
	case ready.Status == metav1.ConditionTrue:
		r.Turn = nobodys
	case strings.HasPrefix(ready.Message, status.NotApplied):
		r.Turn = operators
	case ready.Reason == status.ReasonProgressing:
		r.Turn = clusters
	default:
		r.Turn = operators // it retries
	}
	return r
}

// contradictedBy takes back that the custom resource is Ready where an object of its release is not well: the operator has yet
// to see that, or none runs any more. During an upgrade to another chart, objects come and go, as they do once only the
// finalizers of others keep the custom resource.
func (r *report) contradictedBy(objects []*node) {
	if r.Ready != metav1.ConditionTrue || r.Turn == othersTurn {
		return
	}
	fine := []string{string(kstatus.CurrentStatus), string(kstatus.UnknownStatus)}
	if meta.IsStatusConditionTrue(r.Conditions, status.Reconciling) && r.WaitsFor == "" {
		fine = append(fine, string(kstatus.InProgressStatus), string(kstatus.TerminatingStatus), string(kstatus.NotFoundStatus))
	}
	var unwell []string
	for _, n := range objects {
		if !slices.Contains(fine, n.Health) {
			unwell = append(unwell, strings.TrimSuffix(fmt.Sprintf("%s/%s %s (%s)", n.Kind, n.Name, n.Health, n.Message), " ()"))
		}
	}
	if len(unwell) > 0 {
		r.Ready, r.Reason, r.Since = metav1.ConditionUnknown, notSeen, nil
		if r.Turn != yours {
			r.Turn = operators
		}
		r.Message = "The operator has yet to see: " + few(unwell) + ". " + elseDoctor + " Before, it was: " + r.Message
	}
}

// typed names a custom resource on the command line.
func typed(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if obj.GroupVersionKind().GroupKind() != welcomes {
		name = strings.ToLower(obj.GetKind()) + "/" + name
	}
	return name + " -n " + obj.GetNamespace()
}

// rank orders reports in a table, from 0, the worst.
func (r *report) rank() int {
	stalled := meta.IsStatusConditionTrue(r.Conditions, status.Stalled)
	switch {
	case r.Ready == metav1.ConditionFalse && (stalled || r.Turn == yours):
		return 0
	case r.Ready == metav1.ConditionFalse && r.Turn == operators && r.Reason != status.ReasonProgressing && r.Reason != status.ReasonUninstalling:
		return 1
	case r.Ready == metav1.ConditionFalse:
		return 2
	case r.Reason == notSeen:
		return 3
	case r.Ready == metav1.ConditionUnknown:
		return 4
	case r.Turn == yours:
		return 5
	case r.Turn == rollouts:
		return 6
	default:
		return 7
	}
}

// worstFirst sorts reports. Among equally bad ones, those that have been so for longest come first.
func worstFirst(reports []*report) {
	since := func(r *report) time.Time {
		if r.Since == nil || r.rank() == 7 {
			return time.Time{}
		}
		return r.Since.Time
	}
	slices.SortStableFunc(reports, func(a, b *report) int {
		return cmp.Or(a.rank()-b.rank(), since(a).Compare(since(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

// allReady is whether every custom resource is Ready.
func allReady(reports []*report) bool {
	return !slices.ContainsFunc(reports, func(r *report) bool { return r.Ready != metav1.ConditionTrue })
}

// details need further requests beside the custom resource, so that only the report of a single one has them.
type details struct {
	Objects []*node `json:"objects"`
	// Drift are the events of the last hour about objects that were put back, or left as somebody had changed
	// them.
	Drift  []happening `json:"drift"`
	Events []happening `json:"events"`
	// Rollout is how far the rollout is that the custom resource waits for.
	Rollout string `json:"rollout,omitempty"`
	// Unread is what could not be read, and why.
	Unread []string `json:"unread,omitempty"`

	eventless bool // events are not among what the caller may read
}

// node is an object of a release, or an object that such an object has created.
type node struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Health is a word of kstatus: Current, InProgress, Failed, Terminating, NotFound; Unknown if the object
	// cannot be read.
	Health  string  `json:"health"`
	Message string  `json:"message,omitempty"`
	Parts   []*node `json:"parts,omitempty"`
}

// happening is an event, as it is shown.
type happening struct {
	Last    metav1.Time `json:"last"`
	Count   int32       `json:"count"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	About   string      `json:"about"`
	Message string      `json:"message"`
}

func happeningOf(event *corev1.Event) happening {
	h := happening{Last: event.LastTimestamp, Count: max(event.Count, 1), Type: event.Type, Reason: event.Reason, Message: strings.TrimSpace(event.Message)}
	h.About = event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name
	if event.Series != nil {
		h.Last, h.Count = metav1.NewTime(event.Series.LastObservedTime.Time), event.Series.Count
	}
	if h.Last.IsZero() {
		h.Last = metav1.NewTime(event.EventTime.Time)
	}
	return h
}

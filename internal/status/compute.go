package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// observation is everything that a status is computed from.
type observation struct {
	name, namespace string
	kind            string // of the custom resource
	operator        string // this one
	generation      int64
	deleting        bool
	// stuck is why the finalizer of what is being deleted cannot be taken off, nil if nothing is known of that.
	stuck error
	// reported are the conditions that the library set in this reconcile.
	reported []metav1.Condition
	// state is what is known of the release, the zero value if nothing is.
	state release.State
	// objects of the release.
	objects []childState
	// pods of the workloads that are not healthy, or of the hooks that are awaited, if somebody looked.
	pods []corev1.Pod
	now  metav1.Time
}

// called is how the custom resource is named on the command line.
func (o observation) called() string {
	return strings.ToLower(o.kind) + "/" + o.name + " -n " + o.namespace
}

// childState is an object of a release.
type childState struct {
	object.Child
	called     string                     // how the custom resource is named on the command line
	live       *unstructured.Unstructured // nil while the object is not seen as it was applied
	gone       bool                       // whether it does not exist
	unlabelled bool                       // whether it lacks the label by which the cache selects
	left       bool                       // whether nobody puts back what others change or delete
	listed     int64                      // how many of its ending pods were counted
}

func (o childState) String() string { return fmt.Sprintf("%s %q", o.Kind, o.Name) }

// verdict is what Ready, Reconciling and Stalled say.
type verdict struct {
	ready                metav1.ConditionStatus
	reason, message      string
	reconciling, stalled bool
	// unhealthy is whether objects of an applied release are the reason.
	unhealthy bool
	// again is after how long, at the latest, the verdict may change though nothing happens; 0 if that is not
	// known.
	again time.Duration
}

// next returns the status that follows previous. It is a pure function.
func next(previous Status, seen observation) (Status, verdict) {
	s, v := previous.clone(), judge(previous, seen)
	s.Operator = seen.operator
	if seen.state.Waits == "" { // else an operator that starts after this one would take the action for completed
		s.ObservedGeneration = seen.generation
	}
	s.set(seen, metav1.Condition{Type: Ready, Status: v.ready, Reason: v.reason, Message: v.message})
	s.set(seen, flag(Reconciling, v.reconciling, v))
	s.set(seen, flag(Stalled, v.stalled, v))
	for _, conditionType := range []string{Drifted, DriftLoop} {
		if drift := seen.state.Drift; drift.Type == conditionType {
			s.set(seen, metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: drift.Reason, Message: drift.Message})
		} else {
			meta.RemoveStatusCondition(&s.Conditions, conditionType)
		}
	}
	if seen.state.Ignored != "" {
		s.set(seen, metav1.Condition{Type: IgnoredAnnotations, Status: metav1.ConditionTrue, Reason: reasonNoEffect, Message: "Without effect: " + seen.state.Ignored + "."})
	} else {
		meta.RemoveStatusCondition(&s.Conditions, IgnoredAnnotations)
	}
	if tests := seen.state.Tests; tests.Asked != "" && tests.Asked != s.Tested {
		s.answer(seen.now, metav1.Condition{
			Type: Tested, Reason: release.TestsSucceeded, Message: tests.String(), ObservedGeneration: tests.Generation,
		}, release.TestsFailed, tests.Err)
		s.Tested = tests.Asked
	}
	if answer := seen.state.Answer; answer.Asked != "" && answer.Asked != s.Reconciled {
		s.answer(seen.now, metav1.Condition{
			Type: Reconciled, Reason: release.Reconciled, Message: answer.String(), ObservedGeneration: answer.Generation,
		}, "ReconcileFailed", answer.Err)
		s.Reconciled = answer.Asked
	}
	for _, c := range seen.reported {
		if stored := previous.condition(deployedType); seen.deleting && c.Type == deployedType && c.Reason == "" && c.Status == stored.Status {
			continue // where its finalizer stays, the library reports that it is uninstalled, and then only that it is not deployed
		}
		if c.Type == deployedType && c.Status == metav1.ConditionTrue {
			c = deployed(previous, seen)
		}
		s.set(seen, c)
	}
	if seen.state.Revision > 0 && seen.state.Err == nil && seen.state.Waits == "" {
		s.Begun = ""
	}
	s.describeRelease(seen)
	s.describeObjects(seen)
	return s, v
}

// deployed is the condition Deployed where the library has found a record. It takes that of a failed attempt for a
// deployed release.
func deployed(previous Status, seen observation) metav1.Condition {
	revision := int64(seen.state.Revision)
	if revision == 0 && previous.Release != nil {
		revision = previous.Release.Revision
	}
	c := metav1.Condition{Type: deployedType, Status: metav1.ConditionTrue, Reason: "UpgradeSuccessful", Message: fmt.Sprintf("Revision %d is deployed.", revision)}
	switch revision {
	case 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "InstallError", "No revision was deployed yet."
	case 1:
		c.Reason = "InstallSuccessful"
	}
	return c
}

// set keeps the time of the last transition where the status of the condition stays.
func (s *Status) set(seen observation, c metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = seen.generation, seen.now
	s.put(c)
}

// maxMessage is the limit of Kubernetes for the message of a condition, in bytes (the validation of
// metav1.Condition).
const maxMessage = 32768

// put sets a condition with its message cut to that limit: what charts, pods and others write is not bounded,
// and no status could be written any more.
func (s *Status) put(c metav1.Condition) {
	c.Message = object.Cut(c.Message, maxMessage)
	meta.SetStatusCondition(&s.Conditions, c)
}

// answer sets a condition about what somebody has asked for: c, or why that has failed, with the reason failed if
// nothing better is known.
func (s *Status) answer(now metav1.Time, c metav1.Condition, failed string, err error) {
	c.Status, c.LastTransitionTime = metav1.ConditionTrue, now
	if err != nil {
		why := explain(failed, err.Error())
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, why.reason, why.message
	}
	meta.RemoveStatusCondition(&s.Conditions, c.Type) // else it would keep the time of an earlier answer
	s.put(c)
}

// flag is a condition that has something to say only while it is True.
func flag(conditionType string, on bool, v verdict) metav1.Condition {
	if on {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: v.reason, Message: v.message}
	}
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: "Not" + conditionType}
}

func judge(previous Status, seen observation) verdict {
	problem, failed := failure(seen.reported)
	if seen.deleting && !failed && seen.state.Err != nil {
		// After a failed uninstall the library updates the status twice, and reports the
		// failure only once.
		problem, failed = explain("UninstallError", seen.state.Err.Error()), true
	}
	paused := meta.IsStatusConditionTrue(seen.reported, pausedType)
	switch {
	case seen.state.Waits != "":
		return underWay(previous, seen)
	case failed && (seen.deleting || !paused):
		return verdict{ready: metav1.ConditionFalse, reason: problem.reason, message: problem.message, reconciling: !problem.permanent, stalled: problem.permanent}
	case seen.deleting && seen.stuck != nil:
		return verdict{ready: metav1.ConditionFalse, reason: WriteRefused, message: refusedBecause(itsFinalizers, seen.stuck), stalled: true}
	case seen.deleting:
		return verdict{ready: metav1.ConditionFalse, reason: ReasonUninstalling, message: "The release is being uninstalled.", reconciling: true}
	case paused:
		return verdict{ready: metav1.ConditionUnknown, reason: ReasonPaused, message: fmt.Sprintf("Nothing is applied, repaired or looked at. To resume: kubectl welcome resume %s, or remove the annotation %s.", seen.called(), release.Pause)}
	case previous.condition(Ready).Reason == ReasonPaused && meta.FindStatusCondition(seen.reported, deployedType) == nil: // [Reporter.resumed]: nobody has looked yet
		return verdict{ready: metav1.ConditionFalse, reason: ReasonProgressing, message: NotApplied + ", or may have drifted: a pause has just ended.", reconciling: true}
	case !applied(previous, seen):
		return verdict{ready: metav1.ConditionFalse, reason: ReasonProgressing, message: NotApplied + ".", reconciling: true}
	}
	v := health(previous, seen)
	if seen.state.WaitFor != "" {
		v.reconciling = true
		if seen.state.Brake != "" && v.ready == metav1.ConditionTrue {
			v.reason, v.reconciling, v.stalled = reasonUpgradeLoop, false, true // for what it asks the cluster to stay the same
		}
		v.message = strings.TrimSuffix(v.message, ".") + ". " + release.Outdated + seen.state.WaitFor + "."
	}
	return v
}

// waitsFor begins what the message of Ready says of that, at its end.
const waitsFor = ". It waits for "

// settled is a message of Ready without what is awaited, in the end or before the action under way could begin.
func settled(message string) string {
	message, _, _ = strings.Cut(message, waitsFor)
	message, _, _ = strings.Cut(message, " "+release.Outdated)
	return strings.TrimSuffix(message, ".")
}

// underWay is the verdict while an action waits for something. It keeps the failure of earlier attempts until
// this one has ended.
func underWay(previous Status, seen observation) verdict {
	v, before := verdict{ready: metav1.ConditionFalse, reconciling: true}, previous.condition(Ready)
	reason, trouble := podTrouble(seen.pods, seen.now.Time)
	if reason == "" && seen.state.HookHasNoPods {
		reason = ReasonHookHasNoPods
	}
	switch {
	case seen.state.Err != nil && before.Status == metav1.ConditionFalse && before.ObservedGeneration == seen.generation:
		v.reason, v.message = before.Reason, before.Message
		v.reconciling, v.stalled = meta.IsStatusConditionTrue(previous.Conditions, Reconciling), meta.IsStatusConditionTrue(previous.Conditions, Stalled)
	case seen.deleting:
		v.reason, v.message = cmp.Or(reason, ReasonUninstalling), "The release is being uninstalled"
	case before.Status != "" && previous.Release != nil && previous.Release.Generation == seen.generation: // only the chart is new, and what was applied is as healthy as it was
		v.ready, v.reason, v.message = before.Status, before.Reason, before.Message
	default:
		v.reason, v.message = cmp.Or(reason, ReasonProgressing), NotApplied
	}
	v.message = strings.TrimSuffix(settled(v.message)+waitsFor+seen.state.Waits+". "+trouble, " ")
	return v
}

// applied is whether the spec of this generation was applied. One that waits for its turn to get a new chart
// was, before the operator started. That the generation was observed proves nothing: it may have failed, or
// have been paused.
func applied(previous Status, seen observation) bool {
	return seen.state.Generation == seen.generation ||
		seen.state.WaitFor != "" && previous.Release != nil && previous.Release.Generation == seen.generation
}

func (s *Status) describeRelease(seen observation) {
	if seen.state.Revision == 0 {
		return // nothing is known since the operator started: the stored one still holds
	}
	s.Release = &Release{
		Name:        seen.state.Name,
		Revision:    int64(seen.state.Revision),
		Chart:       seen.state.Chart,
		Version:     seen.state.ChartVersion,
		Status:      string(seen.state.Status),
		LastApplied: metav1.NewTime(seen.state.LastApplied).Rfc3339Copy(),
		Digest:      seen.state.Digest,
		Record:      seen.state.Record,
		Inputs:      seen.state.Inputs,
		Children:    object.Text(seen.state.Children),
		Generation:  seen.state.Generation,
		Unowned:     unowned(seen.state.Children),
	}
	if s.Release.Children == "" {
		s.Release.Expiring = object.Text(expiring(seen.state.Children))
	}
	s.DeployedRelease = &DeployedRelease{Name: seen.name}
}

func expiring(children []object.Child) (expiring []object.Child) {
	for _, child := range children {
		if child.Expires {
			expiring = append(expiring, child)
		}
	}
	return expiring
}

func unowned(children []object.Child) (unowned []Unowned) {
	for _, child := range children {
		if child.UID != "" {
			unowned = append(unowned, Unowned{APIVersion: child.APIVersion, Kind: child.Kind, Name: child.Name, UID: child.UID})
		}
	}
	return unowned
}

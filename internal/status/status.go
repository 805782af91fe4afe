// Package status makes the status of a custom resource tell the truth. The library says
// what became of the Helm release; this package adds whether its objects are healthy, where
// the page is, and what to do about a failure.
package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// Condition types of this package, as the kstatus library reads them. The library's own are
// kept beside them.
const (
	// Ready is True while the release of the observed generation is applied and all of its
	// objects are healthy, and Unknown while the custom resource is paused.
	Ready = "Ready"
	// Reconciling is True while the operator or the cluster is working towards Ready.
	Reconciling = "Reconciling"
	// Stalled is True while the operator tries in vain: somebody has to change something first.
	Stalled = "Stalled"
	// Drifted is True while an object is not as the chart wants it, and the operator is to leave it so. It is
	// missing otherwise.
	Drifted = release.Drifted
	// DriftLoop is True while others undo each repair of an object, which are then made ever more rarely if they
	// do it at once. It is missing otherwise.
	DriftLoop = release.DriftLoop
	// IgnoredAnnotations is True while the custom resource has annotations, of a stock Helm operator or to
	// pause it, that have no effect. It is missing otherwise.
	IgnoredAnnotations = release.IgnoredAnnotations
	// Tested is whether the tests of the chart succeeded that somebody has asked for last. It is missing until
	// somebody does.
	Tested = "Tested"
	// Reconciled is whether what somebody has asked for last, by an annotation, was done. It is missing until
	// somebody does.
	Reconciled = "Reconciled"
)

// Reasons of Ready that are no failures.
const (
	ReasonHealthy      = "Healthy"
	ReasonProgressing  = "Progressing"
	ReasonPaused       = "Paused"
	ReasonUninstalling = "Uninstalling"
	// reasonUpgradeLoop is of a release that gets no further revision, since nobody's edits cause them.
	reasonUpgradeLoop = "UpgradeLoop"
)

// reasonNoEffect is of IgnoredAnnotations.
const reasonNoEffect = "NoEffect"

// Reasons of Ready where pods, hooks or webhooks fail, or what somebody has done keeps objects from being healthy.
const (
	ReasonImagePullFailed = "ImagePullFailed"
	ReasonCrashLooping    = "CrashLooping"
	ReasonContainerFailed = "ContainerFailed"
	ReasonUnschedulable   = "Unschedulable"
	ReasonPodsRejected    = "PodsRejected"
	ReasonRolloutPaused   = "RolloutPaused"
	ReasonObjectDeleted   = "ObjectDeleted"
	ReasonJobHasNoPods    = "JobHasNoPods"
	ReasonHookHasNoPods   = "HookHasNoPods"
	ReasonHookFailed      = "HookFailed"
	ReasonWebhookFailed   = "WebhookFailed"
)

// NotApplied is how the message of Ready begins until that release is: by it, the plugin knows whose turn it is.
const NotApplied = "The release of this generation is not applied yet"

// Condition types of the library that decide about Ready, or need a correction.
const (
	deployedType   = "Deployed"
	irreconcilable = "Irreconcilable"
	releaseFailed  = "ReleaseFailed"
	pausedType     = "Paused"
)

// Status of a custom resource, as its CRD describes it.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	URL                string             `json:"url,omitempty"`
	Replicas           int32              `json:"replicas"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	Selector           string             `json:"selector,omitempty"`
	Release            *Release           `json:"release,omitempty"`
	DeployedRelease    *DeployedRelease   `json:"deployedRelease,omitempty"`
	// Tested is the value of the annotation that asked for the tests of which the condition Tested tells.
	Tested string `json:"tested,omitempty"`
	// Reconciled is the value of the annotation that asked for the reconcile of which the condition Reconciled tells.
	Reconciled string `json:"reconciled,omitempty"`
	// Begun proves the manifest that an action has begun to apply, and the inputs, while it is not brought to
	// its end, if chance has a part in it.
	Begun string `json:"begun,omitempty"`
	// Operator has claimed the custom resource: only it acts on it, and writes here.
	Operator string `json:"operator,omitempty"`
	// Challenger is another operator that asks whether this one lives. Only claims answers it.
	Challenger string `json:"challenger,omitempty"`
}

// Release is the Helm release behind a custom resource.
type Release struct {
	Name        string      `json:"name"`
	Revision    int64       `json:"revision"`
	Chart       string      `json:"chart"`
	Version     string      `json:"version"`
	Status      string      `json:"status"`
	LastApplied metav1.Time `json:"lastApplied"`
	Digest      string      `json:"digest,omitempty"`
	Record      string      `json:"record,omitempty"`
	Inputs      string      `json:"inputs,omitempty"`
	// Children are the objects of the release as they were applied, in object.Text.
	Children string `json:"children,omitempty"`
	// Expiring are, where there are too many for that, those that go by themselves: without, a Job that has run
	// would run again after a restart.
	Expiring string `json:"expiring,omitempty"`
	// Generation is 0 if an older version of the operator wrote this.
	Generation int64 `json:"generation,omitempty"`
	// Unowned are the objects of the release that carry no owner reference.
	Unowned []Unowned `json:"unowned,omitempty"`
}

// Unowned is an object that carries no owner reference. That it stands in the status proves whose it is.
type Unowned struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// DeployedRelease is what remains of the library's field of this name: its manifest would
// double the size of every custom resource.
type DeployedRelease struct {
	Name string `json:"name"`
	// Manifest is that of a stock operator, until the first revision of this one.
	Manifest string `json:"manifest,omitempty"`
}

// Of reads the status that is stored in obj. What another version of the operator wrote and
// this one cannot read counts as missing, and is written anew.
func Of(obj *unstructured.Unstructured) Status {
	var s Status
	if content, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s); err != nil {
			return Status{}
		}
	}
	return s
}

// ConditionOf is a condition as it is stored in obj, nil if there is none. It takes much less time than [Of].
func ConditionOf(obj *unstructured.Unstructured, conditionType string) map[string]any {
	content, _ := obj.Object["status"].(map[string]any)
	conditions, _ := content["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// condition of that type, the zero value if there is none.
func (s Status) condition(conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// clone returns a status with conditions of its own: nothing else is written in place.
func (s Status) clone() Status {
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

package release

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Reasons of the events that tell what was done to a release, and what was seen or left out meanwhile. A failure is
// told by the status package, once per change of the Ready condition.
const (
	Installed      = "Installed"
	Upgraded       = "Upgraded"
	Uninstalled    = "Uninstalled"
	Orphaned       = "Orphaned"
	DriftCorrected = "DriftCorrected"
	DriftDetected  = "DriftDetected"
	DriftLoop      = "DriftLoop"
	Recreated      = "Recreated"
	HooksSkipped   = "HooksSkipped"
	TestsSucceeded = "TestsSucceeded"
	TestsFailed    = "TestsFailed"
	Reconciled     = "Reconciled"
)

// Actions on a release, as metrics name them.
const (
	Install         = "install"
	Upgrade         = "upgrade"
	Uninstall       = "uninstall"
	DriftCorrection = "drift-correction"
)

// maxEvent is how long the message of an event may be, in bytes: as long as Kubernetes lets a note of an event of
// events.k8s.io be. It bounds these older ones only by their size, but messages quote what others have written, and
// client-go keeps some thousand of them in memory.
const maxEvent = 1024

// events records events, and cuts their messages to maxEvent bytes.
type events struct{ record.EventRecorder }

// NewEvents returns a recorder of events about custom resources.
func NewEvents(mgr manager.Manager) record.EventRecorder {
	return events{mgr.GetEventRecorderFor("welcome-operator")}
}

// Event implements record.EventRecorder.
func (e events) Event(about runtime.Object, eventType, reason, message string) {
	e.EventRecorder.Event(about, eventType, reason, object.Cut(message, maxEvent))
}

// tell records an event about the custom resource, and logs it.
func (a *actionClient) tell(done, format string, args ...any) {
	a.say(corev1.EventTypeNormal, done, fmt.Sprintf(format, args...))
}

// warn is tell for what somebody should look at.
func (a *actionClient) warn(reason, message string) {
	a.say(corev1.EventTypeWarning, reason, message)
}

// say is tell for either type of event. The log has as much of the message as the event.
func (a *actionClient) say(eventType, reason, message string) {
	message = object.Cut(message, maxEvent)
	logf.FromContext(a.ctx).Info(reason, "what", message)
	a.clients.events.Event(a.owner, eventType, reason, message)
}

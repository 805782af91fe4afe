package release

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
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

// tell records an event about the custom resource, and logs it.
func (a *actionClient) tell(done, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	logf.FromContext(a.ctx).Info(done, "what", message)
	a.clients.events.Event(a.owner, corev1.EventTypeNormal, done, message)
}

// warn is tell for what somebody should look at.
func (a *actionClient) warn(reason, message string) {
	logf.FromContext(a.ctx).Info(reason, "what", message)
	a.clients.events.Event(a.owner, corev1.EventTypeWarning, reason, message)
}

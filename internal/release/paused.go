package release

import "sigs.k8s.io/controller-runtime/pkg/client"

// Pause is the annotation that pauses a custom resource while it is true.
const Pause = "webapp.demo.welcome.domain/paused"

// IsPaused is whether somebody has paused a custom resource. It is false during a deletion: the library would
// not reconcile it, and the finalizer would stay for ever.
func IsPaused(owner client.Object) bool {
	return isOn(owner, Pause) && owner.GetDeletionTimestamp() == nil
}

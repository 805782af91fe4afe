package guard

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Plan is what is known before an action begins.
type Plan struct {
	// Applied is whether a manifest is known to be the one that was applied last, and not forged. What that
	// sets and a new one no longer sets is removed from objects.
	Applied func(manifest string) bool
	// Key of the fingerprints of Secrets, empty if the release can have none.
	Key object.Key
	// Intact are the objects that are still as this process has applied them. They are not looked at where the
	// new manifest wants the same.
	Intact []object.Child
	// Leftovers are manifests of objects that may exist besides those of the last revision. They are deleted if they
	// are the owner's and the new manifest lacks them.
	Leftovers []string
	// Rehearse is whether the API server is first asked, by dry runs, if it would take every object.
	Rehearse bool
	// Unowned are the owner's objects that carry no owner reference.
	Unowned []types.UID
	// Allow is what the platform allows, such as cluster-scoped objects, and taking over what is given.
	Allow object.Allow
	// Begins is whether nothing of the owner was deployed yet. Objects that nobody owns and that are marked as
	// of its release may be taken over then, but kept ones at any time.
	Begins bool
	// MayInherit fails if the owner may not take over what a custom resource of the same name has left. It is
	// called before an object is taken over.
	MayInherit func() error
	// Revision is the one that was applied last, 0 if none is known.
	Revision int
	// Ignored is what is left to others, whatever the manifest says.
	Ignored object.Ignored
	// Scaled are the objects whose replicas were left to whoever scales them.
	Scaled []object.Child
	// Scalable is whether the custom resource leaves the replicas of a workload to whoever scales that. another is
	// whether that is to have another number than before.
	Scalable func(desired *unstructured.Unstructured, another bool) bool
	// Recreate are the kinds whose objects may be deleted and made anew where a field cannot be changed.
	Recreate object.Kinds
	// Recreated is told of each object that was made anew.
	Recreated func(message string)
	// Wait takes a place for an action that waits for long, and fails if there is none: a namespace must not
	// occupy all workers.
	Wait func() error
	// IsDeleted is whether the owner was deleted since the action began.
	IsDeleted func() bool
	// Abandon is called when a hook is no longer awaited. It still runs until ended receives.
	Abandon func(ended <-chan error)
	// Waiting is told what an action waits for, once that takes long, and again as long as it does, and nothing
	// when the wait is over.
	Waiting func(Awaited)
	// Report is told which objects were left alone, and why.
	Report func(message string)
	// Versions are those in which the cluster serves an API group by now.
	Versions func(group string) ([]string, error)
}

// Awaited is what an action waits for. Pods select those of hooks. HasNoPods is whether a hook is a Job without any.
type Awaited struct {
	What      string
	Pods      []metav1.ListOptions
	HasNoPods bool
}

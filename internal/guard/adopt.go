package guard

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// isGiven is whether an object that nobody owns is to be taken over by the owner: an annotation of it says so,
// and the platform allows it.
func (g *Guard) isGiven(live *unstructured.Unstructured) bool {
	return g.plan.Allow.Adopt && object.CheckGiven(live, g.owner) == ""
}

// notGiven is why an object in the way is not taken over, and what would change that. Nothing would for an
// object that somebody else controls, that is being deleted or that is cluster-scoped.
func (g *Guard) notGiven(info *resource.Info, live *unstructured.Unstructured) error {
	why := object.CheckGiven(live, g.owner)
	switch {
	case metav1.GetControllerOfNoCopy(live) != nil, live.GetDeletionTimestamp() != nil, object.InNoNamespace(live):
	case g.plan.Allow.Adopt:
		return fmt.Errorf("%w. Or have it taken over (kubectl welcome adopt), which is not done: %s", g.inTheWay(info, live), why)
	case object.IsGiven(live, g.owner):
		return fmt.Errorf("%w. It says that it may be taken over (%s): the operator's watches.yaml has to let this kind do so (allow: {adopt: true})", g.inTheWay(info, live), object.AdoptFor)
	}
	return g.inTheWay(info, live)
}

// rehearseAdoption fails if an object that was given to the owner cannot become what the chart wants. Only the
// API server knows which fields cannot be changed. Such an object is not made anew, so nothing may be begun.
func (g *Guard) rehearseAdoption(t target) error {
	if t.live == nil || g.owns(t.live) || !g.isGiven(t.live) {
		return nil
	}
	_, err := g.bring(&t, true)
	return err
}

// giveBack undoes a take-over whose release has come to nothing. The content of the object stays.
func (g *Guard) giveBack(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured) error {
	return g.rewrite(helper, info, live, func(returned *unstructured.Unstructured) { object.GiveBack(returned, g.owner) })
}

package guard

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// isGiven is whether an object that nobody owns is to be taken over by the owner: it says so itself, and the platform lets it.
func (g *Guard) isGiven(live *unstructured.Unstructured) bool {
	return g.plan.Allow.Adopt && object.CheckGiven(live, g.owner) == ""
}

// notGiven is why an object in the way is not taken over, and what it would take, if anything does: not so of what somebody else controls, is being deleted or in no namespace.
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

// rehearseAdoption fails if an object that was given to the owner cannot become what the chart wants: it is not made anew, and so nothing is begun. The API server
// is asked about what it does not let be changed.
func (g *Guard) rehearseAdoption(t target) error {
	if t.live == nil || g.owns(t.live) || !g.isGiven(t.live) {
		return nil
	}
	_, err := g.bring(&t, true)
	return err
}

// giveBack undoes what made an object, which nobody owned, the owner's: nothing has come of the release for which it was taken over. What is in it stays.
func (g *Guard) giveBack(helper *resource.Helper, info *resource.Info, live *unstructured.Unstructured) error {
	return g.rewrite(helper, info, live, func(returned *unstructured.Unstructured) { object.GiveBack(returned, g.owner) })
}

package guard

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Outlook is what an apply would make of one object.
type Outlook struct {
	// Live is the object now, nil if it is not there, and After as it would be, nil if it would be deleted.
	Live, After *unstructured.Unstructured
	// Desired is what the chart wants, nil if that is nothing.
	Desired *unstructured.Unstructured
	// Recreated is whether it would be deleted and made anew.
	Recreated bool
	// Err is why it can't be.
	Err error
}

// Foresee returns what an apply would change or fail at, object by object, by dry runs. previous is what was
// applied before, as far as that is proven; objects of before that desired lacks would be deleted.
func (g *Guard) Foresee(previous, before, desired string) ([]Outlook, error) {
	lists := make([]kube.ResourceList, 3)
	for i, manifest := range []string{previous, before, desired} {
		var err error
		if lists[i], err = g.build(manifest); err != nil && (i == len(lists)-1 || !IsUnknown(err)) {
			return nil, fmt.Errorf("parse a manifest: %w", err)
		}
	}
	var outlooks []Outlook
	for _, info := range lists[2] {
		if outlook := g.foresee(lists[0], lists[1], kube.ResourceList{info}); outlook != nil {
			outlooks = append(outlooks, *outlook)
		}
	}
	for _, info := range distinct(lists[1].Difference(lists[2])) {
		if g.CheckPlace(info) != nil {
			continue // left alone, whatever before names
		}
		live, err := g.live(info)
		if apierrors.IsNotFound(err) || err == nil && (object.IsHook(live) || !g.owns(live) || g.keeps(info, live)) {
			continue
		}
		if err == nil {
			err = g.remove(info, true, object.IsHook)
		}
		if live == nil {
			live = content(info.Object)
		}
		outlooks = append(outlooks, Outlook{Live: live, Err: err})
	}
	return outlooks, nil
}

// foresee is the outlook of one object, nil if nothing is to be done about it.
func (g *Guard) foresee(previous, before, one kube.ResourceList) *Outlook {
	outlook := &Outlook{Desired: g.shape(one[0])}
	targets, err := g.look(previous, before, one)
	if err != nil {
		outlook.Err = err
		return outlook
	}
	t := targets[0]
	if t.unchanged != nil { // as what has expired
		return nil
	}
	outlook.Live = t.live
	applied, err := g.bring(t, true)
	switch {
	case err != nil:
		outlook.Err = err
	case t.live == nil:
		outlook.After = applied
	case t.live.GetUID() != applied.GetUID():
		outlook.After, outlook.Recreated = applied, true
	case t.seen == nil:
		return nil
	default:
		outlook.Live, outlook.After = t.seen, object.Effect(t.seen, t.wanted, applied)
	}
	return outlook
}

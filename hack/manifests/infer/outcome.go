package infer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// outcome is what a value does.
type outcome struct {
	// accepted is whether the chart can be rendered with it.
	accepted bool
	// seen is whether that makes a difference.
	seen   bool
	places []place
	// changed is where something else is than before.
	changed []place
	reached string
	// whole is whether each text is as it was written.
	whole bool
	// renderings are what the scenarios become with it.
	renderings []rendering
}

// try gives a value to the chart in each scenario. What else it changes counts as what it reaches: a template
// may write a part of it.
func (i *inference) try(path []string, value any) outcome {
	o := i.turn(path, value)
	for _, p := range o.changed {
		o.reached = cmp.Or(o.reached, reaches(p))
	}
	return o
}

// turn gives a value to the chart in each scenario, of which only what it writes of it counts.
func (i *inference) turn(path []string, value any) outcome {
	o := outcome{whole: true, renderings: i.renderedWith(path, value)}
	for n, with := range o.renderings {
		if with.err != nil {
			o.whole = o.whole && errors.Is(with.err, errNoPath)
			continue
		}
		o.accepted = true
		found := places(with.objects)
		changed, differs := i.facts[n].changed(with.objects)
		o.changed = append(o.changed, changed...)
		o.seen = o.seen || len(found) > 0 || differs
		for _, p := range found {
			o.reached = cmp.Or(o.reached, reaches(p))
		}
		o.places = append(o.places, found...)
		for _, p := range found {
			if strings.Contains(p.text, evaluated) {
				o.reached = "a template (tpl)"
			}
			if strings.Contains(p.text, markText) && !strings.Contains(p.text, wild) || strings.Contains(p.text, markKey) && !strings.Contains(p.text, wildKey) {
				o.whole = false
			}
		}
	}
	return o
}

// renderedWith returns what each scenario becomes with a value. It remembers that for the path that was asked
// for last, for most values are asked for several times in a row.
func (i *inference) renderedWith(path []string, value any) []rendering {
	if !slices.Equal(path, i.last) {
		i.last, i.tried = path, map[string][]rendering{}
	}
	key := Compact(value)
	if renderings, known := i.tried[key]; known {
		return renderings
	}
	all := make([]Scenario, len(i.scenarios))
	var same []int // those that have it
	for n, s := range i.scenarios {
		if s.partly && !i.alone {
			continue
		}
		other, there := s.with(path, value)
		if there && reflect.DeepEqual(other.values, s.values) {
			same = append(same, n)
		} else if there {
			all[n], all[n].why = other, "another "+dotted(path)
		}
	}
	renderings := i.renderAll(all)
	for _, n := range same {
		renderings[n] = i.before[n]
	}
	i.tried[key] = renderings
	return renderings
}

func (o outcome) and(other outcome) outcome {
	return outcome{
		accepted: o.accepted || other.accepted,
		seen:     o.seen || other.seen,
		places:   append(o.places, other.places...),
		reached:  cmp.Or(o.reached, other.reached),
		whole:    o.whole && other.whole,
	}
}

// gets is whether a value gets to a place of a kind, whole or not.
func (o outcome) gets(to func(place) bool) bool {
	return slices.ContainsFunc(o.places, to) || slices.ContainsFunc(o.changed, to)
}

func (o outcome) templated() string {
	if strings.HasPrefix(o.reached, "a template") {
		return o.reached
	}
	return ""
}

// power is what of the power of pods another value changes: a template may ask for it, and write what makes pods powerful.
func (i *inference) power(renderings []rendering) (reached string) {
	for n, with := range renderings {
		if with.err == nil {
			reached = cmp.Or(reached, i.gained(n, with.objects))
		}
	}
	return reached
}

// gained is what of the power of pods differs in a rendering from that of a scenario.
func (i *inference) gained(n int, objects []Rendered) string {
	before := i.before[n].objects
	reached := changedPower(before, objects, func(r Rendered) string { return r.Object.GetKind() + " " + r.Object.GetName() })
	if reached == "" && useNode(objects) && !useNode(before) && !i.nodeByDefault {
		reached = "the node"
	}
	return reached
}

// changedPower is what of the power of pods differs between two renderings, in the objects that both have by a key.
func changedPower(before, after []Rendered, key func(Rendered) string) string {
	type set = map[string]bool
	powers := func(objects []Rendered) map[string]map[string]set {
		all := map[string]map[string]set{}
		for _, r := range objects {
			if all[key(r)] == nil {
				all[key(r)] = map[string]set{"a service account": {}, "a security context": {}, "the node": {}}
			}
			for _, l := range r.leaves {
				for _, field := range l.path {
					if said := all[key(r)][powerful[field]]; said != nil {
						said[fmt.Sprint(l.path, l.text)] = true
					}
				}
			}
		}
		return all
	}
	had, now := powers(before), powers(after)
	for _, object := range slices.Sorted(maps.Keys(had)) {
		for _, what := range slices.Sorted(maps.Keys(had[object])) {
			if changed, ok := now[object]; ok && !maps.Equal(had[object][what], changed[what]) {
				return what
			}
		}
	}
	return ""
}

// useNode is whether pods in a rendering do.
func useNode(objects []Rendered) bool {
	return slices.ContainsFunc(objects, func(r Rendered) bool { return slices.Contains(obj.PodWords(r.Object), obj.PodHost) })
}

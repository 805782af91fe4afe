package infer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// setting is a value that authors may set.
type setting struct {
	path, at []string
	of       func(value any) any
	schema   apiextensionsv1.JSONSchemaProps
}

// takes is whether authors may write a value there.
func (s setting) takes(value any) bool {
	if text, ok := value.(string); ok && s.schema.Pattern != "" && !regexp.MustCompile(s.schema.Pattern).MatchString(text) {
		return false
	}
	return len(s.schema.Enum) == 0 || slices.ContainsFunc(s.schema.Enum, func(raw apiextensionsv1.JSON) bool { return string(raw.Raw) == Compact(value) })
}

// special are texts with which templates may do more than write them.
func (i *inference) special() (texts []any) {
	if i.decodesText {
		texts = append(texts, encoded)
	}
	if i.parsesText {
		texts = append(texts, Compact(i.more(markKey, markText)))
	}
	for _, separator := range i.separators {
		texts = append(texts, strings.Repeat(markText+separator, 3)+markText)
	}
	return append(texts, i.compared...)
}

// allTogether leaves out those settings that are powerful with one of some values that templates compare
// something with, be it only where others have that value, too. It also leaves out those texts that are
// powerful where one of the settings has such a value. Each value is tried in all settings at once, for where
// a comparison is by a variable or a map, it can't be read which value it is about.
func (i *inference) allTogether(n int, settings *[]setting, values []any, schema *apiextensionsv1.JSONSchemaProps) {
	all, breaking := *settings, []setting(nil) // the chart can't be rendered where one of these has one of the values
	for _, value := range values {
		for again := true; again; { // what breaks it, or is powerful, hides what others do together
			powerful, broken := i.powerfulOf(n, all, value)
			again = len(powerful)+len(broken) > 0
			for _, s := range breaking {
				more, _ := i.powerfulOf(n, []setting{s}, value)
				powerful = append(powerful, more...)
			}
			reached, _ := i.reachedBy(n, powerful, value)
			for _, s := range powerful {
				itself, _ := i.reachedBy(n, []setting{s}, value)
				i.takeOut(schema, s, cmp.Or(itself, reached))
			}
			all, breaking = except(all, slices.Concat(powerful, broken)), append(except(breaking, powerful), broken...)
		}
		*settings = append(slices.Clone(all), breaking...)
		if _, isNumber := value.(float64); isNumber { // of texts, judge notes those that are compared
			objects, _ := i.renderedTogether(n, all, value)
			i.noteIn(n, objects, fmt.Sprintf("values that are %v", value))
		}
		selected, reached := i.selected(n, all, value)
		for _, s := range selected {
			i.takeOut(schema, s, reached)
		}
		all, breaking, i.texts = except(all, selected), except(breaking, selected), except(i.texts, selected)
	}
	*settings = append(all, breaking...)
}

// takeOut removes a setting from the fields, and notes what it reaches.
func (i *inference) takeOut(schema *apiextensionsv1.JSONSchemaProps, s setting, reached string) {
	before, _, _ := strings.Cut(dotted(s.path), "[]")
	Remove(schema, release.PathOf(before), true)
	if !slices.ContainsFunc(i.left, func(l LeftOut) bool { return l.Path == dotted(s.path) }) { // it may be both a text and a number
		i.leave(s.path, "reaches "+reached, true)
	}
}

// eachName leaves out those names of objects that are powerful when they are a text that templates compare
// something with. They are not tried together with other texts, because objects would then have another name
// than before.
func (i *inference) eachName(n int, schema *apiextensionsv1.JSONSchemaProps) {
	file := func(r Rendered) string { return r.File + " " + r.Object.GetKind() }
	for _, text := range i.special() {
		reaches := func(names ...setting) (string, error) {
			objects, err := i.renderedTogether(n, names, text)
			if err != nil {
				return "", err
			}
			return cmp.Or(i.turned(n, objects), changedPower(i.before[n].objects, objects, file)), nil
		}
		if reached, err := reaches(i.names...); reached == "" && (err == nil || errors.Is(err, errNoPath)) {
			continue
		}
		i.names = slices.DeleteFunc(i.names, func(s setting) bool {
			reached, _ := reaches(s)
			if reached != "" {
				i.takeOut(schema, s, reached)
			}
			return reached != ""
		})
	}
}

// selected are those texts that are powerful only where one of some settings has a value, because a template
// writes them there only then.
func (i *inference) selected(n int, all []setting, value any) (powerful []setting, reached string) {
	turns := func(some []setting) bool {
		objects, err := i.renderedTogether(n, some, value)
		return err == nil && i.turned(n, objects) != ""
	}
	if !turns(all) {
		return nil, ""
	}
	for _, s := range all {
		one := []setting{s}
		if !turns(one) {
			continue
		}
		then, _ := i.scenarios[n].with(s.at, s.of(value))
		more, what := i.powerfulIn(then, except(i.texts, append(one, powerful...)))
		powerful, reached = append(powerful, more...), cmp.Or(reached, what)
	}
	return powerful, reached
}

// powerfulIn are those of some texts that are powerful in another scenario, and what they reach there.
func (i *inference) powerfulIn(other Scenario, texts []setting) (powerful []setting, reached string) {
	there := newInference(i.Trial, []Scenario{other}, i.allowed)
	powerful, _ = there.powerfulOf(0, texts, markText)
	reached, _ = there.reachedBy(0, powerful, markText)
	return powerful, reached
}

// allTurned leaves out values that a template writes to where they are powerful only if a scenario turns one option,
// or one text that templates compare, and leaves all other values as they are. The others may include such texts, too.
// So where a text is turned, all is tried once more without marks in these.
func (i *inference) allTurned(schema *apiextensionsv1.JSONSchemaProps) {
	compared := slices.DeleteFunc(slices.Concat(i.texts, i.names), func(s setting) bool { return len(i.alternativesOf(s.path, nil)) == 0 })
	for _, turn := range i.turns {
		spared := [][]setting{{{path: turn.path}}}
		if _, isText := turn.value.(string); isText {
			spared = append(spared, append(compared, spared[0]...))
		}
		for n, s := range i.scenarios {
			s, there := s.with(turn.path, turn.value)
			if s.partly || !there || reflect.DeepEqual(s.values, i.scenarios[n].values) {
				continue
			}
			for _, not := range spared {
				if !i.reachesMarked(s, except(slices.Concat(i.texts, i.names, i.others), not)) {
					continue
				}
				for _, settings := range []*[]setting{&i.texts, &i.names, &i.others} {
					powerful, reached := i.powerfulIn(s, except(*settings, not))
					for _, text := range powerful {
						i.takeOut(schema, text, reached)
					}
					*settings = except(*settings, powerful)
				}
			}
		}
	}
}

// reachesMarked is whether one of some settings may be powerful in a scenario: with marks in all of them,
// something is, or the chart can't be rendered and nobody can tell. To ask this first saves most renderings.
func (i *inference) reachesMarked(s Scenario, marked []setting) bool {
	s, _ = s.withAll(marked, markText)
	objects, err := i.render(s, true)
	return err != nil || slices.ContainsFunc(places(objects), func(p place) bool { return reaches(p) != "" })
}

// turned is where a rendering of a scenario says something new that authors must not have a say in, be it a
// text of the chart.
func (i *inference) turned(n int, objects []Rendered) (reached string) {
	changed, _ := i.facts[n].changed(objects)
	for _, p := range changed {
		reached = cmp.Or(reached, reaches(p))
	}
	return reached
}

// powerfulOf are those of some settings that make their author more powerful with a value, and those with
// which the chart can't be rendered.
func (i *inference) powerfulOf(n int, all []setting, value any) (powerful, broken []setting) {
	if len(all) == 0 {
		return nil, nil
	}
	reached, err := i.reachedBy(n, all, value)
	switch {
	case err == nil && reached == "":
		return nil, nil
	case len(all) == 1 && err != nil:
		return nil, all
	case len(all) == 1:
		return all, nil
	}
	for _, half := range [][]setting{all[:len(all)/2], all[len(all)/2:]} {
		more, fail := i.powerfulOf(n, half, value)
		powerful, broken = append(powerful, more...), append(broken, fail...)
	}
	if len(powerful) > 0 || err != nil {
		return powerful, broken
	}
	powerful = all // together only
	for _, s := range all {
		others := except(powerful, []setting{s})
		if reached, err := i.reachedBy(n, others, value); err == nil && reached != "" {
			powerful = others
		}
	}
	return powerful, broken
}

// reachedBy is what some settings with the same value reach together in a scenario.
func (i *inference) reachedBy(n int, all []setting, value any) (reached string, err error) {
	objects, err := i.renderedTogether(n, all, value)
	switch {
	case errors.Is(err, errNoPath):
		return "", nil
	case err != nil && value == encoded:
		return decodedText, nil
	case err != nil:
		return "", err
	}
	reached = i.gained(n, objects)
	for _, p := range places(objects) {
		reached = cmp.Or(reached, reaches(p))
		if value == encoded && (isBounded(p) || !strings.Contains(p.text, wild)) {
			reached = cmp.Or(reached, decodedText)
		}
	}
	return reached, nil
}

// renderedTogether is what a scenario becomes with a value in those of some settings that take it.
func (i *inference) renderedTogether(n int, all []setting, value any) ([]Rendered, error) {
	s, changes := i.scenarios[n].withAll(all, value)
	if !changes {
		return nil, errNoPath
	}
	if n == i.together.n && reflect.DeepEqual(s.values, i.together.values) {
		return i.together.objects, i.together.err
	}
	objects, err := i.render(s, true)
	i.together = lastTogether{n, s.values, rendering{objects, err}}
	return objects, err
}

// withAll is a scenario with a value in those of some settings that take it, and whether there are any.
func (s Scenario) withAll(all []setting, value any) (with Scenario, changes bool) {
	s.values, s.why = runtime.DeepCopyJSON(s.values), fmt.Sprintf("several values that are %.40v", value)
	for _, each := range all {
		changes = each.takes(value) && Put(s.values, each.at, each.of(value)) || changes
	}
	return s, changes
}

// lastTogether is what a scenario became with the values that were tried together last. Most often these harm
// nothing, and the same rendering is asked for again, to see what they select.
type lastTogether struct {
	n      int
	values map[string]any
	rendering
}

// except returns the settings that are not among some others.
func except(all, others []setting) []setting {
	return slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
		return slices.ContainsFunc(others, func(other setting) bool { return slices.Equal(s.path, other.path) })
	})
}

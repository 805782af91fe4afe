package object

import (
	"maps"
	"reflect"
	"slices"
)

// withInjected is what the chart wants of a pod, with what admission has added to the lists of the live one:
// tokens, sidecars, tolerations. Hardly anything of a pod can be changed, so that without these it would be
// refused for ever. What previous had and desired lacks is not kept.
func withInjected(previous, live, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		now, ok := live.(map[string]any)
		if !ok {
			return desired
		}
		with := maps.Clone(desired)
		for key, value := range desired {
			with[key] = withInjected(field(previous, key), now[key], value)
		}
		return with
	case []any:
		return withInjectedElements(list(previous), list(live), desired)
	}
	return desired
}

// withInjectedElements has the order of the live ones.
func withInjectedElements(previous, live, desired []any) []any {
	if slices.ContainsFunc(desired, func(element any) bool { _, named := element.(map[string]any); return !named }) {
		return desired // words of a command
	}
	var with []any
	rest := slices.Clone(desired)
	for _, element := range live {
		is := func(other any) bool { return isElement(element, other) }
		if at := slices.IndexFunc(rest, is); at >= 0 {
			var before any
			if was := slices.IndexFunc(previous, is); was >= 0 {
				before = previous[was]
			}
			with = append(with, withInjected(before, element, rest[at]))
			rest = slices.Delete(rest, at, at+1)
		} else if !slices.ContainsFunc(previous, is) {
			with = append(with, element)
		}
	}
	return append(with, rest...)
}

// isElement is whether a live element of a list is the wanted one: by its mount path, its name, or else its
// content.
func isElement(live, wanted any) bool {
	for _, key := range []string{"mountPath", "name"} {
		if name := field(wanted, key); name != nil {
			return reflect.DeepEqual(field(live, key), name)
		}
	}
	return says(live, wanted)
}

// says is whether a value has all that the chart wants in it. The API server may have added defaults.
func says(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		for key, value := range wanted {
			if !says(field(live, key), value) {
				return false
			}
		}
		return true
	case []any:
		return slices.EqualFunc(list(live), wanted, says)
	}
	return reflect.DeepEqual(live, wanted)
}

package object

import "slices"

// dropsEmpty is whether the API server drops the empty values of an object. It does so for kinds that it knows
// by their Go types. Of custom resources it keeps them, and some mean something: selfSigned: {}.
type dropsEmpty bool

// mergeMap is live with what desired has, and without what only previous has.
func (drops dropsEmpty) mergeMap(previous, live, desired map[string]any) map[string]any {
	merged := both(live, nil)
	for key, before := range previous {
		if _, wanted := desired[key]; wanted {
			continue
		}
		before, wasMap := before.(map[string]any)
		theirs, isMap := live[key].(map[string]any)
		if theirs = drops.mergeMap(before, theirs, nil); wasMap && isMap && len(theirs) > 0 {
			merged[key] = theirs // with what others have put there
		} else {
			delete(merged, key)
		}
	}
	for key, value := range desired {
		if value == nil && live[key] == nil || bool(drops) && isEmpty(value) && isEmpty(live[key]) {
			continue
		}
		merged[key] = drops.mergeValue(previous[key], live[key], value)
	}
	return merged
}

func (drops dropsEmpty) mergeValue(previous, live, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return drops.mergeMap(fields(previous), live, desired)
		}
	case []any:
		if live, ok := live.([]any); ok {
			return drops.mergeList(list(previous), live, desired)
		}
	}
	return desired
}

// mergeList keeps the order and the elements of desired, each with the fields of its counterparts.
func (drops dropsEmpty) mergeList(previous, live, desired []any) []any {
	merged, before, now := make([]any, len(desired)), counterparts(previous, desired), counterparts(live, desired)
	for i, element := range desired {
		merged[i] = drops.mergeValue(before[i], now[i], element)
	}
	return merged
}

// maxMoved bounds the lists in which moved elements are looked for: each costs a look at all others.
const maxMoved = 100

// counterparts are, for each element of desired, the one among others that corresponds to it, nil if that
// cannot be told. An element with a unique name is found by that. The others are found by their places, if each
// place has what is desired there, or else by their content, if exactly one element has it, and has that of no
// other. The place alone would not do: where somebody has inserted or removed an element, each one behind it
// would get the fields of another one, such as a rule of a Role its resourceNames.
func counterparts(others, desired []any) []any {
	found, names, at := make([]any, len(desired)), named(desired), named(others)
	isNamed := func(element any) bool {
		name, _ := field(element, "name").(string)
		return len(names[name]) == 1 && len(at[name]) <= 1
	}
	var rest []int
	for i, element := range desired {
		if !isNamed(element) {
			rest = append(rest, i)
		} else if places := at[field(element, "name").(string)]; len(places) == 1 {
			found[i] = others[places[0]]
		}
	}
	switch {
	case len(rest) == 0:
	case says(others, desired):
		for _, i := range rest {
			found[i] = others[i]
		}
	case len(desired) <= maxMoved && len(others) <= maxMoved:
		said := make([]int, len(desired)) // how many say it
		for _, other := range others {
			if isNamed(other) {
				continue
			}
			saying := slices.DeleteFunc(slices.Clone(rest), func(i int) bool { return !says(other, desired[i]) })
			for _, i := range saying {
				said[i]++
			}
			if len(saying) == 1 {
				found[saying[0]] = other
			}
		}
		for _, i := range rest {
			if said[i] > 1 {
				found[i] = nil
			}
		}
	}
	return found
}

// named are the places of the elements with a name, by name: to search for each would take minutes if somebody
// has made a list of tens of thousands.
func named(elements []any) map[string][]int {
	places := map[string][]int{}
	for i, element := range elements {
		if name, _ := field(element, "name").(string); name != "" {
			places[name] = append(places[name], i)
		}
	}
	return places
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

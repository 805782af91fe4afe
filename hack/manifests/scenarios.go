package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// scenario is a state of all values in which a chart is tried.
type scenario struct {
	values map[string]any
	// everyAPI is whether the cluster has each that the chart looks for, and not only Kubernetes' own.
	everyAPI bool
	// partly is whether only those values are tried in it that no other scenario shows. It has no kind of objects of its own, but
	// templates write something more into the others.
	partly bool
	// why is what makes it differ from the one before, empty for the first ones.
	why string
}

// scenarios are the chart as it comes, as its samples have it, and each of these with all options on and with all off, where the cluster
// has all APIs, and with a text for each that is empty. Those with one option turned are among them if a template makes another kind of
// objects then, for it may do so only where other options are as they come. So are those with a text that templates compare a value with
// (architecture: high-availability), if a template makes another kind of objects then, or writes something new that is not that text.
func (t *trial) scenarios(samples []map[string]any) ([]scenario, error) {
	values, err := t.values()
	if err != nil {
		return nil, err
	}
	var all []scenario
	var renderings [][]rendered
	said := map[source]map[fact]bool{}
	add := func(s scenario, turned bool, text string) { // which is what something was turned to, unless that is an option
		objects, err := t.render(s, true)
		says, bringsSource, brings := saidIn(objects), false, false
		for from, facts := range says {
			bringsSource = bringsSource || said[from] == nil
			for f := range facts {
				brings = brings || text != "" && !said[from][f] && !strings.Contains(f.value, text)
			}
		}
		if len(all) > 0 && (err != nil || turned && !bringsSource && !brings || slices.ContainsFunc(renderings, func(other []rendered) bool { return same(objects, other) })) {
			return
		}
		for from, facts := range says {
			if said[from] == nil {
				said[from] = map[fact]bool{}
			}
			maps.Copy(said[from], facts)
		}
		s.partly = turned && !bringsSource
		all, renderings = append(all, s), append(renderings, objects)
	}
	for _, spec := range append([]map[string]any{{}}, samples...) {
		begin := scenario{values: chartutil.CoalesceTables(runtime.DeepCopyJSON(spec), runtime.DeepCopyJSON(values))}
		switches := options(begin.values, nil)
		on := t.switched(begin, switches, true)
		everywhere := on
		everywhere.everyAPI = true
		given := t.switched(on, unsaid(on.values), "given")
		given.why = textsGiven
		for _, s := range []scenario{begin, on, t.switched(begin, switches, false), everywhere, given} {
			add(s, false, "")
		}
		turned := begin
		turned.everyAPI = true
		add(turned, true, "")
		for _, path := range switches {
			now, _, _ := unstructured.NestedBool(begin.values, path...)
			other, _ := turned.with(path, !now)
			other.why = fmt.Sprintf("%s: %v", dotted(path), !now)
			add(other, true, "")
		}
		for _, with := range []scenario{on, given} {
			for _, path := range leaves(begin.values, nil) {
				now, _, _ := unstructured.NestedFieldNoCopy(begin.values, path...)
				texts := t.alternativesOf(path, now)
				if len(texts) > 0 && !isType(path) { // something may be there with any but one
					texts = append(texts, "given")
				}
				for _, text := range texts {
					other, _ := with.with(path, text)
					other.why = strings.TrimPrefix(fmt.Sprintf("%s and %s: %v", with.why, dotted(path), text), " and ")
					add(other, true, text.(string))
				}
			}
		}
	}
	return all, nil
}

// with is a scenario that has another value at a path, in which [] stands for every element of a list. There is none if there is no such path.
func (s scenario) with(path []string, value any) (scenario, bool) {
	s.values = runtime.DeepCopyJSON(s.values)
	return s, put(s.values, path, value)
}

// put sets what is at a path, in which [] stands for every element of a list. It reports whether there is such a place.
func put(in any, path []string, value any) bool {
	switch in := in.(type) {
	case map[string]any:
		if len(path) == 1 {
			in[path[0]] = runtime.DeepCopyJSONValue(value)
			return true
		}
		return put(in[path[0]], path[1:], value)
	case []any:
		found := false
		for n := range in {
			if len(path) == 1 {
				in[n], found = runtime.DeepCopyJSONValue(value), true
			} else if put(in[n], path[1:], value) {
				found = true
			}
		}
		return found
	}
	return false
}

// switched has a value at each of some paths that can have it together with those before.
func (t *trial) switched(begin scenario, paths [][]string, value any) scenario {
	s := begin
	for _, path := range paths {
		s, _ = s.with(path, value)
	}
	if _, err := t.render(s, true); err == nil {
		return s
	}
	if len(paths) < 2 {
		return begin
	}
	half := len(paths) / 2
	return t.switched(t.switched(begin, paths[:half], value), paths[half:], value)
}

// textsGiven is why a scenario has something that needs a text where there is none by default.
const textsGiven = "texts for what is empty"

// unsaid are the paths of all values that are empty and may be a text, for no option turns on what a template makes only where such a
// value is given. Those that are an API or a kind (apiVersionOverrides.ingress) are not among them: not every text is one.
func unsaid(values map[string]any) [][]string {
	return slices.DeleteFunc(leaves(values, nil), func(path []string) bool {
		value, _, _ := unstructured.NestedFieldNoCopy(values, path...)
		return value != nil && value != "" || isType(path)
	})
}

// isType is whether a value is an API or a kind, as far as its name tells.
func isType(path []string) bool {
	name := strings.ToLower(strings.Join(path, "."))
	return strings.Contains(name, "apiversion") || strings.HasSuffix(name, "kind")
}

// options are the paths of all values that are true or false.
func options(value any, path []string) [][]string {
	switch value := value.(type) {
	case bool:
		return [][]string{slices.Clone(path)}
	case map[string]any:
		var all [][]string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, options(value[key], append(path, key))...)
		}
		return all
	}
	return nil
}

// leaves are the paths of all values that are no maps with something in them.
func leaves(value any, path []string) [][]string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 && len(path) > 0 { // a chart may have no values at all
		return [][]string{slices.Clone(path)}
	}
	var all [][]string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, leaves(fields[key], append(path, key))...)
	}
	return all
}

// dotted is a path as people write it: ingress.hosts[].host. A dot within a key is escaped, as in overrideValues.
func dotted(path []string) string {
	escaped := make([]string, len(path))
	for i, key := range path {
		escaped[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.ReplaceAll(strings.Join(escaped, "."), ".[]", "[]")
}

package main

import (
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"
)

// scenario is a state of all values in which a chart is tried.
type scenario struct {
	values map[string]any
	// everyAPI is whether the cluster has each that the chart looks for, and not only Kubernetes' own.
	everyAPI bool
	// why is the value that makes it differ from the one before, empty for the first ones.
	why string
}

// scenarios are the chart as it comes, as its samples have it, and each of these with all options on and with all off, where the cluster
// has all APIs, and with a text that a template asks for (architecture: high-availability) if that makes another kind of objects.
func (t *trial) scenarios(samples []map[string]any) ([]scenario, error) {
	values, err := t.values()
	if err != nil {
		return nil, err
	}
	var all []scenario
	var renderings [][]rendered
	kinds := map[string]bool{}
	add := func(s scenario, forNewKinds bool) {
		objects, err := t.render(s, true)
		brings := false
		for _, r := range objects {
			brings = brings || !kinds[r.object.GetKind()]
		}
		if len(all) > 0 && (err != nil || forNewKinds && !brings || slices.ContainsFunc(renderings, func(other []rendered) bool { return same(objects, other) })) {
			return
		}
		for _, r := range objects {
			kinds[r.object.GetKind()] = true
		}
		all, renderings = append(all, s), append(renderings, objects)
	}
	for _, spec := range append([]map[string]any{{}}, samples...) {
		begin := scenario{values: chartutil.CoalesceTables(runtime.DeepCopyJSON(spec), runtime.DeepCopyJSON(values))}
		on := t.switched(begin, true)
		everywhere := on
		everywhere.everyAPI = true
		for _, s := range []scenario{begin, on, t.switched(begin, false), everywhere} {
			add(s, false)
		}
		for _, path := range leaves(on.values, nil) {
			for _, text := range t.alternatives[path[len(path)-1]] {
				other, _ := on.with(path, text)
				add(other, true)
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

// switched has every option on, or off, that can be together with those before it.
func (t *trial) switched(begin scenario, on bool) scenario {
	paths := options(begin.values, nil)
	s := begin
	for _, path := range paths {
		s, _ = s.with(path, on)
	}
	if _, err := t.render(s, true); err == nil {
		return s
	}
	s = begin
	for _, path := range paths {
		more, _ := s.with(path, on)
		if _, err := t.render(more, true); err == nil {
			s = more
		}
	}
	return s
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

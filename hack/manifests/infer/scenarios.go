package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Scenario is a state of all values in which a chart is tried.
type Scenario struct {
	values map[string]any
	// everyAPI is whether the cluster has each that the chart looks for, and not only Kubernetes' own, and later
	// whether it is of a later version.
	everyAPI, later bool
	// partly is whether only those values are tried in it that no other scenario shows. It has no kind of
	// objects of its own, but templates write something more into the others.
	partly bool
	// revision is 0 for an installation, or that of an upgrade.
	revision int
	// why is what makes it differ from the one before, empty for the first ones.
	why string
}

// Scenarios start from the chart as it comes, and as its samples have it. From each of these come more, if they make
// something else:
//
//   - all options on, and all off
//   - a cluster that has all APIs, and one of a later version
//   - a text for each one that is empty
//   - an upgrade
//   - one option turned, if a template makes another kind of objects then: it may do so only where other options
//     are as they come
//   - a text that templates compare a value with (architecture: high-availability), if a template makes another
//     kind of objects then, or writes something new that is not that text
func (t *Trial) Scenarios() ([]Scenario, error) {
	t.progress.begin("1st of 3 steps, its options")
	values, err := t.Values()
	if err != nil {
		return nil, err
	}
	var all []Scenario
	var renderings [][]Rendered
	said := map[source]map[fact]bool{}
	add := func(s Scenario, turned bool, text string) { // which is what something was turned to, unless that is an option
		objects, err := t.render(s, true)
		says, bringsSource, brings := saidIn(objects), false, false
		again := sync.OnceValue(func() map[source]map[fact]bool { // without what is left to chance, a password, say: each text would bring another one
			objects, _ := t.render(s, true)
			return saidIn(objects)
		})
		for from, facts := range says {
			bringsSource = bringsSource || said[from] == nil
			for f := range facts {
				brings = brings || text != "" && !said[from][f] && !strings.Contains(f.value, text) && again()[from][f]
			}
		}
		if len(all) > 0 && (err != nil || turned && !bringsSource && !brings || slices.ContainsFunc(renderings, func(other []Rendered) bool { return same(objects, other) })) {
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
	for _, spec := range append([]map[string]any{{}}, t.samples...) {
		begin := Scenario{values: chartutil.CoalesceTables(runtime.DeepCopyJSON(spec), runtime.DeepCopyJSON(values))}
		switches := options(begin.values, nil)
		on := t.switched(begin, switches, true)
		everywhere := on
		everywhere.everyAPI = true
		later := everywhere
		later.later = true
		given := t.switched(on, unsaid(on.values), aText)
		given.why = TextsGiven
		for _, s := range []Scenario{begin, on, t.switched(begin, switches, false), everywhere, later, given} {
			add(s, false, "")
		}
		for _, s := range []Scenario{begin, on, given} {
			if upgraded, other := t.upgraded(s); other {
				add(upgraded, false, "")
			}
		}
		turned := begin
		turned.everyAPI = true
		for _, turned.later = range []bool{false, true} {
			add(turned, true, "")
			for _, path := range switches {
				now, _, _ := unstructured.NestedBool(begin.values, path...)
				other, _ := turned.with(path, !now)
				other.why = fmt.Sprintf("%s: %v", dotted(path), !now)
				add(other, true, "")
			}
		}
		for _, with := range []Scenario{on, given} {
			for _, path := range leaves(begin.values, nil) {
				now, _, _ := unstructured.NestedFieldNoCopy(begin.values, path...)
				texts := t.alternativesOf(path, now)
				if len(texts) > 0 && !isType(path) { // something may be there with any but one
					texts = append(texts, aText)
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

// upgraded is a scenario at an upgrade, and whether more is other than by chance then, or by the number of the revision.
func (t *Trial) upgraded(s Scenario) (later Scenario, other bool) {
	installed, err := t.render(s, true)
	s.why = strings.TrimSuffix("an upgrade and "+s.why, " and ")
	s.revision = 3
	again, fails := t.render(s, true)
	s.revision = 2
	upgraded, failed := t.render(s, true)
	if err != nil || fails != nil || failed != nil {
		return s, false
	}
	_, other = factsOf(upgraded, again).changed(installed)
	return s, other
}

// with is a scenario that has another value at a path, in which [] stands for every element of a list. There
// is none if there is no such path.
func (s Scenario) with(path []string, value any) (Scenario, bool) {
	s.values = runtime.DeepCopyJSON(s.values)
	return s, Put(s.values, path, value)
}

// switched has a value at each of some paths that can have it together with those before.
func (t *Trial) switched(begin Scenario, paths [][]string, value any) Scenario {
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

// TextsGiven is why a scenario has something that needs a text where there is none by default.
const TextsGiven = "texts for what is empty"

// unsaid are the paths of all values that are empty and may be a text, for no option turns on what a template
// makes only where such a value is given. Those that are an API or a kind (apiVersionOverrides.ingress) are
// not among them: not every text is one.
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

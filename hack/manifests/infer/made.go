package infer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Made is a kind of objects that a chart makes, or one of them by a name that allow.cluster does not have
// among others of its kind.
type Made struct {
	APIVersion, Kind string
	File             string
	// When is the value that it needs, empty if it is there by default.
	When string
	// Objects are all that differ: most renderings make the same, and there are thousands.
	Objects []Variant
}

// Variant is an object as it is with a value, When, or by default if that is empty.
type Variant struct {
	Rendered
	When string
}

// Kinds are those that the chart makes in some scenario, or in one where a single value is another one.
func (t *Trial) Kinds(scenarios []Scenario) ([]Made, error) {
	found, known, seen := map[string]*Made{}, map[*unstructured.Unstructured]bool{}, map[string]bool{}
	note := func(objects []Rendered, when string) (err error) {
		t.Workloads = max(t.Workloads, workloadsIn(objects))
		for _, r := range objects {
			if r.Object.GetAPIVersion() == "" || r.Object.GetKind() == "" { // which no cluster takes
				err = fmt.Errorf("%s makes an object without apiVersion or kind", r.File)
				continue
			}
			key := t.Key(r.Object)
			if found[key] == nil {
				found[key] = &Made{APIVersion: r.Object.GetAPIVersion(), Kind: r.Object.GetKind(), File: path.Base(r.File), When: when}
			}
			if known[r.Object] {
				continue
			}
			known[r.Object] = true
			if !seen[r.text] {
				seen[r.text] = true
				found[key].Objects = append(found[key].Objects, Variant{r, when})
			}
		}
		return err
	}
	objects, err := t.render(scenarios[0], false)
	if err != nil {
		return nil, err
	}
	if err := note(objects, ""); err != nil {
		return nil, err
	}
	for i, begin := range scenarios {
		t.progress.begin("2nd of 3 steps, what it makes with each value, in scenario %d of %d", i+1, len(scenarios))
		begin.why = cmp.Or(begin.why, "several options") // or what a sample says
		single := t.singles(begin)
		if begin.partly {
			single = single[:1]
		}
		for n, of := range t.renderAll(single) {
			when := single[n].why
			if i > 0 && n > 0 {
				when = begin.why + " and " + when
			}
			err := of.err
			if err == nil {
				err = note(of.objects, when)
			}
			if err != nil && i == 0 { // options that are on together may exclude each other
				line, _, _ := strings.Cut(err.Error(), "\n")
				t.Broken = append(t.Broken, LeftOut{Path: when, Why: line})
			}
		}
	}
	var all []Made
	for _, key := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[key])
	}
	return all, nil
}

// workloadsIn is how many objects there are whose pods are counted.
func workloadsIn(objects []Rendered) int {
	scalable := map[string]bool{}
	for _, r := range objects {
		if strings.HasPrefix(r.Object.GetAPIVersion(), "apps/") && r.Object.GetKind() != "DaemonSet" {
			scalable[r.Object.GetKind()+r.Object.GetName()] = true
		}
	}
	return len(scalable)
}

// note adds what the chart makes with another value at the path that was tried last, a field: authors turn it on
// by a number (gt .Values.replicas 1), a list or a map.
func (i *inference) note(at []string) {
	for n := range i.scenarios {
		for _, value := range slices.Sorted(maps.Keys(i.tried)) {
			i.noteIn(n, i.tried[value][n].objects, "another "+dotted(at))
		}
	}
}

// noteIn adds what of that which a scenario makes with fields as when says is made with no option or text: a kind, or
// an object that runs another image, or hands out other rights.
func (i *inference) noteIn(n int, objects []Rendered, when string) {
	if n > 0 {
		when = cmp.Or(i.scenarios[n].why, "several options") + " and " + when
	}
	i.Workloads = max(i.Workloads, workloadsIn(objects))
	for _, r := range objects {
		version, kind, says := r.Object.GetAPIVersion(), r.Object.GetKind(), i.says(r)
		if version == "" || kind == "" || i.said[says] {
			continue
		}
		i.said[says] = true
		key := i.Key(r.Object)
		at := slices.IndexFunc(i.made, func(m Made) bool { return i.Key(m.Objects[0].Object) == key })
		switch {
		case IsTried(key):
		case at < 0:
			i.made = append(i.made, Made{version, kind, path.Base(r.File), when, []Variant{{r, when}}})
		case !IsTried(says):
			i.made[at].Objects = append(i.made[at].Objects, Variant{r, when})
		}
	}
}

// says is the same for objects of which nothing else is to be judged: what they are, run and hand out.
func (t *Trial) says(r Rendered) string {
	says := t.Key(r.Object)
	for _, l := range r.leaves {
		switch handsOut := l.path[0] == "rules" || l.path[0] == "roleRef"; {
		case handsOut:
			says += " " + r.Object.GetName() + strings.Join(l.path, ".") + "=" + l.text
		case l.path[len(l.path)-1] == "image":
			says += " " + l.text
		}
	}
	return says
}

// singles are a scenario, first, for what it has is not because of another option, and those in which a
// single value of it is another one.
func (t *Trial) singles(begin Scenario) []Scenario {
	all := []Scenario{begin}
	for _, path := range leaves(begin.values, nil) {
		now, _, _ := unstructured.NestedFieldNoCopy(begin.values, path...)
		var others []any
		if on, isOption := now.(bool); isOption {
			others = []any{!on}
		} else {
			others = t.alternativesOf(path, now)
		}
		for _, other := range others {
			s, _ := begin.with(path, other)
			s.why = fmt.Sprintf("%s: %v", strings.Join(path, "."), other)
			all = append(all, s)
		}
	}
	return all
}

// Key is the same for objects that the operator may make, or may not, together.
func (t *Trial) Key(o *unstructured.Unstructured) string {
	key, of := o.GetAPIVersion()+"/"+o.GetKind(), o.GroupVersionKind().GroupKind()
	if t.allow.HasCluster(of) && t.allow.InNoNamespace(t.release, of, o.GetName()) != nil {
		key += "/" + o.GetName()
	}
	return key
}

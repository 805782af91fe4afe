package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leaf is a value in an object that is no map or list.
type leaf struct {
	// path has the keys, and [] for the elements of a list.
	path []string
	text string
	// isText is whether it is one, and not a number or the like.
	isText bool
	// key is whether it is a key that an author chooses, with all that is below it.
	key bool
	// marked is whether a mark got there.
	marked bool
}

func leavesOf(object *unstructured.Unstructured) (all []leaf) {
	walk(object.Object, nil, func(path []string, value any, key bool) {
		_, isText := value.(string)
		text := fmt.Sprint(value)
		marked := key || strings.Contains(text, markText) || strings.Contains(text, markKey) || strings.Contains(text, fmt.Sprint(markNumber))
		all = append(all, leaf{slices.Clone(path), text, isText, key, marked})
	})
	return all
}

// walk visits each value that is no map or list. Of a map whose fields the author chooses, it visits no more than that.
func walk(value any, path []string, visit func(path []string, value any, key bool)) {
	switch value := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		for _, key := range keys {
			if strings.Contains(key, markKey) || strings.Contains(key, markText) {
				visit(append(path, key), key, true)
				return
			}
		}
		for _, key := range keys {
			walk(value[key], append(path, key), visit)
		}
	case []any:
		for _, element := range value {
			walk(element, append(path, "[]"), visit)
		}
	default:
		visit(path, value, false)
	}
}

// facts are what is said in the objects of a rendering.
type facts struct {
	objects []Rendered
	said    map[source]map[fact]bool
	// chance are the places where another rendering says something else.
	chance map[source]map[string]bool
}

// source is a template, and a kind of objects that it makes.
type source struct{ file, kind string }

// fact is a value and its place.
type fact struct{ at, value string }

// factsOf two renderings of the same.
func factsOf(a, b []Rendered) facts {
	f := facts{a, saidIn(slices.Concat(a, b)), map[source]map[string]bool{}}
	for _, said := range []map[source]map[fact]bool{saidIn(a), saidIn(b)} {
		for from, all := range f.said {
			for each := range all {
				if said[from][each] {
					continue
				}
				if f.chance[from] == nil {
					f.chance[from] = map[string]bool{}
				}
				f.chance[from][each.at] = true
			}
		}
	}
	return f
}

func saidIn(objects []Rendered) map[source]map[fact]bool {
	said := map[source]map[fact]bool{}
	for _, r := range objects {
		if said[r.source()] == nil {
			said[r.source()] = map[fact]bool{}
		}
		for _, l := range r.leaves {
			said[r.source()][l.fact()] = true
		}
	}
	return said
}

func (r Rendered) source() source { return source{r.File, r.Object.GetKind()} }

func (l leaf) fact() fact { return fact{strings.Join(l.path, "\x00"), l.text} }

// changed is where a rendering says something new in what was there before, and whether it differs at all.
func (f facts) changed(objects []Rendered) (changed []place, differs bool) {
	anew := map[string]bool{} // the templates that write something else
	for _, two := range [][2][]Rendered{{f.objects, objects}, {objects, f.objects}} {
		for _, r := range two[0] {
			anew[r.File] = anew[r.File] || !slices.ContainsFunc(two[1], func(other Rendered) bool { return other.Object == r.Object })
		}
	}
	others := slices.DeleteFunc(slices.Clone(objects), func(r Rendered) bool { return !anew[r.File] })
	said, used := saidIn(others), sync.OnceValue(func() uses { return usesOf(objects) })
	for _, r := range others {
		before, chance := f.said[r.source()], f.chance[r.source()]
		differs = differs || before == nil
		for _, l := range r.leaves {
			if is := l.fact(); before != nil && !before[is] && !chance[is.at] {
				changed = append(changed, placeOf(r, used(), l))
			}
		}
	}
	for from, before := range f.said {
		for each := range before {
			differs = differs || anew[from.file] && !said[from][each] && !f.chance[from][each.at]
		}
	}
	return changed, differs || len(changed) > 0
}

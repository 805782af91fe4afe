package object

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// allowing is a with entries that allow asks, except where no entry can: for every host, and for names that
// are not valid.
func (a Allow) allowing(asks []Ask) Allow {
	for _, ask := range asks {
		var one Allow
		var list *[]string
		switch ask.what {
		case "host":
			one.Hosts, list = []string{ask.key}, &a.Hosts
		case "annotation":
			one.Annotations, list = []string{ask.key}, &a.Annotations
		case "kind":
			one.Kinds, list = []string{ask.key}, &a.Kinds
		default:
			continue
		}
		isPattern := ask.what == "host" && ask.key == everyHost || ask.what == "annotation" && strings.HasSuffix(ask.key, "*")
		if one.Validate() == nil && !isPattern {
			*list = with(*list, ask.key)
		}
	}
	return a
}

// ForChart is a with entries for all that a chart makes for owner, which has an empty spec, so that other
// custom resources may have the same kinds of objects. Hosts and annotations are then the chart's own, and
// need no entry; nor do Secrets of pods if the chart may make Secrets. The error lists, one per line, what no
// entry can allow.
func (a Allow) ForChart(owner metav1.Object, objects []*unstructured.Unstructured, secrets bool) (Allow, error) {
	var more []error
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		if InNoNamespace(o) {
			if refused := a.InNoNamespace(owner, kind, o.GetName()); refused != nil {
				if one, err := suggestion(owner, kind, o.GetName()); err == nil {
					a.Cluster = append(slices.Clip(a.Cluster), one)
				} else {
					more = append(more, refused)
				}
			}
			continue
		}
		if HandsOut(kind) { // the operator has to have what it hands out
			a.Kinds = with(a.Kinds, kind.String())
		}
		a = a.allowing(slices.DeleteFunc(Asks(o), func(ask Ask) bool { return ask.what != "kind" }))
		for _, word := range PodWords(o) {
			if needless := secrets && word == PodSecrets; !needless {
				a.Pods = with(a.Pods, word)
			}
		}
	}
	return a, errors.Join(more...)
}

// with is a list that has a word. It is a copy if the word had to be added.
func with(list []string, word string) []string {
	if slices.Contains(list, word) {
		return list
	}
	return append(slices.Clip(list), word)
}

// String is a as it stands in an entry of watches.yaml, in one line, as a log or a status can have it.
func (a Allow) String() string {
	text, _ := json.Marshal(a) // lists of texts, and of such, and a yes or no
	var fields any
	_ = json.Unmarshal(text, &fields)
	return "allow: " + flow(fields)
}

// flow is YAML without double quotes, which a log in JSON would escape.
func flow(value any) string {
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, key+": "+flow(value[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, element := range value {
			parts = append(parts, flow(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case bool:
		return strconv.FormatBool(value)
	default:
		text, _ := value.(string)
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
}

package main

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"demo.welcome.domain/welcome-operator/internal/guard"
	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// action is what would be done to an object, in words for a summary.
type action string

const (
	isRolled    action = "roll their pods"
	isChanged   action = "change"
	isMade      action = "are made"
	isDeleted   action = "are deleted"
	isRecreated action = "are deleted and made anew"
)

// change is what would be done to one object.
type change struct {
	kind   schema.GroupKind
	name   string // with its namespace
	action action
	text   string // the unified diff
	// alike is equal for changes that differ only in the names of their custom resources, so that they are
	// shown once.
	alike string
}

const hidden = "(not shown)"

// newChange is the change that an outlook leads to, nil if there is none.
func newChange(owner *unstructured.Unstructured, outlook guard.Outlook, preview *release.Preview, words hider) *change {
	known := outlook.Live
	if known == nil {
		known = outlook.After
	}
	c := &change{kind: known.GroupVersionKind().GroupKind(), name: strings.TrimPrefix(known.GetNamespace()+"/"+known.GetName(), "/")}
	before, after := tidy(outlook.Live), tidy(outlook.After)
	if outlook.Live == nil && outlook.After != nil {
		after, _ = shared(after, tidy(outlook.Desired)).(map[string]any)
	}
	for _, path := range preview.Masked(known) {
		mask(before, after, path, preview.Unknown)
	}
	if object.IsSecret(known) {
		for _, key := range union(field(before, "data"), field(after, "data")) {
			mask(before, after, []string{"data", key}, false)
		}
	}
	switch {
	case outlook.Live == nil:
		c.action = isMade
	case outlook.After == nil:
		c.action = isDeleted
	case outlook.Recreated:
		c.action = isRecreated
	case reflect.DeepEqual(before, after):
		return nil
	case !reflect.DeepEqual(template(before), template(after)):
		c.action = isRolled
	default:
		c.action = isChanged
	}
	title := c.kind.Kind + " " + c.name
	c.text = words.hide(udiff.Unified(title+" (now)", title+" (after)", text(before), text(after)))
	c.alike = fmt.Sprint(c.kind, c.action, plainly(owner, known.GetName()), plainly(owner, changedLines(c.text)))
	return c
}

// text is an object as YAML.
func text(content map[string]any) string {
	if len(content) == 0 {
		return ""
	}
	written, err := marshalled(content, "yaml")
	if err != nil {
		return err.Error()
	}
	return written
}

// tidy is a copy of an object without what the API server and controllers keep in it.
func tidy(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopy()
	delete(obj.Object, "status")
	if metadata, isMap := obj.Object["metadata"].(map[string]any); isMap {
		for _, key := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
			delete(metadata, key)
		}
		annotations := obj.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		delete(annotations, "deployment.kubernetes.io/revision")
		if obj.SetAnnotations(annotations); len(annotations) == 0 {
			unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
		}
	}
	if owners, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "ownerReferences"); len(owners) > 0 {
		for i := range owners {
			unstructured.RemoveNestedField(owners[i].(map[string]any), "uid") // the API server returns maps only
		}
		_ = unstructured.SetNestedSlice(obj.Object, owners, "metadata", "ownerReferences") // it was found in that place
	}
	return obj.Object
}

// shared is the part of an answer that was asked for. The rest of a new object are defaults.
func shared(answer, asked any) any {
	switch asked := asked.(type) {
	case map[string]any:
		if answer, isMap := answer.(map[string]any); isMap {
			both := map[string]any{}
			for key := range asked {
				if value, ok := answer[key]; ok {
					both[key] = shared(value, asked[key])
				}
			}
			return both
		}
	case []any:
		if answer, isList := answer.([]any); isList && len(answer) == len(asked) {
			both := make([]any, len(answer))
			for i := range answer {
				both[i] = shared(answer[i], asked[i])
			}
			return both
		}
	}
	return answer
}

// mask hides the field at path in both objects. It still shows whether the field changes, unless the value is
// unknown.
func mask(before, after map[string]any, path []string, unknown bool) {
	for i := range path {
		were, are := elements(at(before, path[:i])), elements(at(after, path[:i]))
		if were == nil || are == nil || len(were) == len(are) {
			continue
		}
		// The path counts what is after: before, all that does not stay may be meant.
		for n, element := range were {
			if !slices.ContainsFunc(are, func(other any) bool { return reflect.DeepEqual(element, other) }) {
				put(before, append(slices.Clone(path[:i]), strconv.Itoa(n)), hidden)
			}
		}
		before = nil
		break
	}
	was, is := at(before, path), at(after, path)
	told := [2]string{hidden, hidden}
	if was != nil && is != nil && !unknown && !reflect.DeepEqual(was, is) {
		told = [2]string{hidden + " before", hidden + " after"}
	}
	for i, content := range []map[string]any{before, after} {
		if value := [2]any{was, is}[i]; value != nil {
			put(content, path, told[i])
		}
	}
	if unknown && was == nil != (is == nil) && before != nil && after != nil {
		put(before, path, hidden)
		put(after, path, hidden)
	}
}

// elements are those of a list, or the lines of a text; nil for other values.
func elements(value any) (elements []any) {
	switch value := value.(type) {
	case []any:
		return value
	case string:
		for line := range strings.SplitSeq(value, "\n") {
			elements = append(elements, line)
		}
	}
	return elements
}

// at is the value at a path, or nil. The last element may be the number of a line in a text.
func at(content any, path []string) any {
	for i, part := range path {
		switch value := content.(type) {
		case map[string]any:
			content = value[part]
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n >= len(value) {
				return nil
			}
			content = value[n]
		case string:
			lines := strings.Split(value, "\n")
			if n, err := strconv.Atoi(part); i == len(path)-1 && err == nil && n < len(lines) {
				return lines[n]
			}
			return nil
		default:
			return nil
		}
	}
	return content
}

func put(content any, path []string, value string) any {
	if len(path) == 0 {
		return value
	}
	switch c := content.(type) {
	case map[string]any:
		c[path[0]] = put(c[path[0]], path[1:], value)
	case []any:
		if n, err := strconv.Atoi(path[0]); err == nil && n < len(c) {
			c[n] = put(c[n], path[1:], value)
		}
	case string:
		lines := strings.Split(c, "\n")
		if n, err := strconv.Atoi(path[0]); err == nil && n < len(lines) && len(path) == 1 {
			lines[n] = value
			return strings.Join(lines, "\n")
		}
	case nil:
		return map[string]any{path[0]: put(nil, path[1:], value)}
	}
	return content
}

func field(content map[string]any, name string) map[string]any {
	value, _ := content[name].(map[string]any)
	return value
}

// template is the pod template of a workload that replaces its pods when that changes.
func template(content map[string]any) any {
	if kind, _ := content["kind"].(string); !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, kind) {
		return nil
	}
	return field(content, "spec")["template"]
}

// changedLines are the lines that a unified diff adds and removes.
func changedLines(diff string) string {
	_, body, _ := strings.Cut(diff, "\n@@")
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// plainly replaces the name and namespace of a custom resource in a text, so that equal changes of several
// compare as equal.
func plainly(owner *unstructured.Unstructured, text string) string {
	words := [][2]string{{owner.GetNamespace(), "{namespace}"}, {owner.GetName(), "{name}"}}
	if len(owner.GetName()) > len(owner.GetNamespace()) {
		slices.Reverse(words) // the longer one first: it may contain the other
	}
	for _, word := range words {
		text = regexp.MustCompile(`(^|[^-\w])`+regexp.QuoteMeta(word[0])+`($|[^\w])`).ReplaceAllString(text, "${1}"+word[1]+"${2}")
	}
	return text
}

// hider replaces secret values in texts.
type hider []string

// minHidden is the length from which a value is replaced in texts. Shorter ones occur everywhere by chance,
// and are hidden only in their own field.
const minHidden = 4

func (h hider) hide(text string) string {
	for _, value := range h {
		if len(value) >= minHidden {
			text = strings.NewReplacer(value, hidden, base64.StdEncoding.EncodeToString([]byte(value)), hidden).Replace(text)
		}
	}
	return text
}

// error hides values in the text of an error, and keeps its type.
func (h hider) error(err error) error {
	if text := h.hide(err.Error()); text != err.Error() {
		return object.Reworded(text, err)
	}
	return err
}

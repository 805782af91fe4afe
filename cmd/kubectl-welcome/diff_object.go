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

// what would be done to an object.
type action string

const (
	isRolled    action = "roll their pods"
	isChanged   action = "change"
	isMade      action = "are made"
	isDeleted   action = "are deleted"
	isRecreated action = "are deleted and made anew"
)

// change of one object.
type change struct {
	kind   schema.GroupKind
	name   string // with its namespace
	action action
	text   string // the unified diff
	// alike is the same for all changes that differ in nothing but the names of their custom resources.
	alike string
}

const hidden = "(not shown)"

// newChange is what an outlook comes to, nil if that is nothing.
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

// text of an object for people.
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

// tidy is an object without what the API server keeps in it, and controllers.
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
			unstructured.RemoveNestedField(owners[i].(map[string]any), "uid") // the API server knows no other type
		}
		_ = unstructured.SetNestedSlice(obj.Object, owners, "metadata", "ownerReferences") // there was one
	}
	return obj.Object
}

// shared is what of an answer was asked for: the rest of a new object are defaults.
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

// mask hides a field of both. Whether it changes is still to be seen, unless that is not known.
func mask(before, after map[string]any, path []string, unknown bool) {
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

// at is what is at a path, nil if nothing is. The last part may be the number of a line.
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

// template of the pods of a workload that replaces them when it changes.
func template(content map[string]any) any {
	if kind, _ := content["kind"].(string); !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, kind) {
		return nil
	}
	return field(content, "spec")["template"]
}

// changedLines are those that a unified diff adds and takes away.
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

// plainly is a text without what only says of which custom resource it is.
func plainly(owner *unstructured.Unstructured, text string) string {
	words := [][2]string{{owner.GetNamespace(), "{namespace}"}, {owner.GetName(), "{name}"}}
	if len(owner.GetName()) > len(owner.GetNamespace()) {
		slices.Reverse(words) // the one may begin with the other
	}
	for _, word := range words {
		text = regexp.MustCompile(`(^|[^-\w])`+regexp.QuoteMeta(word[0])+`($|[^\w])`).ReplaceAllString(text, "${1}"+word[1]+"${2}")
	}
	return text
}

// hider takes values out of texts.
type hider []string

// minHidden is how long a value is at least that is taken out of texts. What is shorter is in every text by chance, and hidden where it is a field.
const minHidden = 4

func (h hider) hide(text string) string {
	for _, value := range h {
		if len(value) >= minHidden {
			text = strings.NewReplacer(value, hidden, base64.StdEncoding.EncodeToString([]byte(value)), hidden).Replace(text)
		}
	}
	return text
}

// error keeps what kind of error it is.
func (h hider) error(err error) error {
	if text := h.hide(err.Error()); text != err.Error() {
		return object.Reworded(text, err)
	}
	return err
}

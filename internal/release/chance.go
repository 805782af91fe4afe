package release

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// sameButChance is whether a manifest is what the chart renders now, except where two renderings differ:
// generated passwords, and checksums over them. These are no reason to upgrade.
func sameButChance(applied, once, again string) bool {
	return alike(documents(applied), documents(once), documents(again))
}

// absent stands for a part that a manifest does not have.
type absent struct{}

// alike is sameButChance for a part of each. It makes no names of the parts, as flat does: a text of an author may
// have half a million lines, each of which would have one.
func alike(was, now, then any) bool {
	isAbsent := was == any(absent{})
	switch now := now.(type) {
	case map[string]any:
		if len(now) == 0 {
			break
		}
		before, _ := was.(map[string]any)
		next, _ := then.(map[string]any)
		for key := range before {
			if _, stays := now[key]; !stays {
				return false
			}
		}
		for key, value := range now {
			if !alike(under(before, key), value, under(next, key)) {
				return false
			}
		}
		return isAbsent || len(before) > 0
	case []any:
		if len(now) == 0 {
			break
		}
		before, _ := was.([]any)
		next, _ := then.([]any)
		for i, value := range now {
			if !alike(at(before, i), value, at(next, i)) {
				return false
			}
		}
		return isAbsent || len(before) > 0 && len(before) <= len(now)
	case string: // a text of many lines, as a file in a ConfigMap, is compared by line: a password may be in one of them
		lines, before, next := linesOf(now), linesOf(was), linesOf(then)
		if lines == nil {
			break
		}
		for i, line := range lines {
			if by := at(next, i); by == line && at(before, i) != by {
				return false
			}
		}
		return isAbsent || before != nil && len(before) <= len(lines)
	}
	if reflect.DeepEqual(now, then) {
		return reflect.DeepEqual(was, now)
	}
	return isAbsent || !hasParts(was)
}

func under(fields map[string]any, key string) any {
	if value, there := fields[key]; there {
		return value
	}
	return absent{}
}

func at[T any](list []T, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// linesOf are the lines of a text that has several, else nil.
func linesOf(value any) []string {
	if text, _ := value.(string); strings.Contains(text, "\n") {
		return strings.Split(text, "\n")
	}
	return nil
}

func hasParts(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) > 0
	case []any:
		return len(value) > 0
	}
	return linesOf(value) != nil
}

// documents are the objects of a manifest by their names. A document that cannot be parsed is its own name.
func documents(manifest string) map[string]any {
	all := map[string]any{}
	for _, text := range object.Split(manifest) {
		name, content := parsed(text)
		for _, twice := all[name]; twice; _, twice = all[name] { // Lists have no names
			name += "\x00"
		}
		all[name] = content
	}
	return all
}

// parsed is a document of a manifest, nil if it cannot be parsed, and its name.
func parsed(text string) (name string, content map[string]any) {
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return text, nil
	}
	metadata, _ := content["metadata"].(map[string]any)
	return fmt.Sprintf("%v %v %v %v", content["apiVersion"], content["kind"], metadata["namespace"], metadata["name"]), content
}

// nextSecond waits until the next second begins. It fails if ctx ends before.
func nextSecond(ctx context.Context) error {
	select {
	case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flat maps the paths of all fields of the objects of a manifest to their values. A document that cannot be
// parsed is one value.
func flat(manifest string) map[string]string {
	fields := map[string]string{}
	for _, text := range object.Split(manifest) {
		if name, content := parsed(text); name == text {
			fields[text] = ""
		} else {
			flatten(fields, name, content)
		}
	}
	return fields
}

func flatten(fields map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			flatten(fields, path+"\x00"+key, element)
		}
		if len(value) > 0 {
			return
		}
	case []any:
		for i, element := range value {
			flatten(fields, fmt.Sprintf("%s\x00%d", path, i), element)
		}
		if len(value) > 0 {
			return
		}
	case string: // by line, as alike
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			for i, line := range lines {
				fields[fmt.Sprintf("%s\x00%d", path, i)] = line
			}
			return
		}
	}
	fields[path] = fmt.Sprintf("%T %v", value, value)
}

package release

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// sameButChance is whether a manifest is what the chart renders now, except where two renderings differ:
// generated passwords, and checksums over them. These are no reason to upgrade.
func sameButChance(applied, once, again string) bool {
	before, now, then := flat(applied), flat(once), flat(again)
	for _, path := range differences(then, now) {
		delete(before, path)
		delete(now, path)
	}
	return maps.Equal(before, now)
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
		var content map[string]any
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			fields[text] = ""
			continue
		}
		metadata, _ := content["metadata"].(map[string]any)
		name := fmt.Sprintf("%v %v %v %v", content["apiVersion"], content["kind"], metadata["namespace"], metadata["name"])
		flatten(fields, name, content)
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
	case string:
		// A text of many lines, as a file in a ConfigMap, is compared by line: a password may be in one of them.
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			for i, line := range lines {
				fields[fmt.Sprintf("%s\x00%d", path, i)] = line
			}
			return
		}
	}
	fields[path] = fmt.Sprintf("%T %v", value, value)
}

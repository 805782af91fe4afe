package infer

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// docs are what a chart says of its values: the comments of values.yaml, and a values.schema.json that was
// not written for a CRD. Where it says nothing, its subcharts may, by the names that they have there.
type docs struct {
	comments  map[string]string
	root      map[string]any
	subcharts map[string]docs
}

// paramLine is how charts of Bitnami describe a value.
var paramLine = regexp.MustCompile(`(?m)^\s*##? @param (\S+)\s+(?:\[[^\]]*\]\s+)?(.+)$`)

func docsOf(c *chart.Chart) docs {
	d := docs{comments: map[string]string{}, subcharts: map[string]docs{}}
	for _, subchart := range c.Dependencies() {
		d.subcharts[subchart.Name()] = docsOf(subchart)
	}
	_ = json.Unmarshal(c.Schema, &d.root) // Helm has read it before
	for _, file := range c.Raw {
		if file.Name != chartutil.ValuesfileName {
			continue
		}
		var document yaml.Node
		if err := yaml.Unmarshal(file.Data, &document); err == nil && len(document.Content) > 0 {
			d.collect(document.Content[0], nil)
		}
		for _, match := range paramLine.FindAllStringSubmatch(string(file.Data), -1) {
			d.comments[match[1]] = Sentence(match[2])
		}
	}
	return d
}

func (d docs) collect(node *yaml.Node, path []string) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			below := append(path, key.Value)
			if text := cmp.Or(fromComment(key.HeadComment), fromComment(value.LineComment), fromComment(key.LineComment)); text != "" {
				d.comments[dotted(below)] = text
			}
			d.collect(value, below)
		}
	case yaml.SequenceNode:
		for _, element := range node.Content {
			d.collect(element, append(path, "[]"))
		}
	}
}

// example is a line of a comment that shows YAML, or only draws.
var example = regexp.MustCompile(`^(- |[-\w./"']+:(\s|$)|[-=#*{}\[\]]*$)`)

// fromComment is the last paragraph of a comment, without what is commented out.
func fromComment(comment string) string {
	paragraphs := strings.Split(strings.TrimSpace(comment), "\n\n")
	var lines []string
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "#"))
		line = strings.TrimSpace(strings.TrimPrefix(line, "--"))
		if strings.HasPrefix(line, "@") || example.MatchString(line) {
			if len(lines) > 0 {
				break
			}
			continue
		}
		lines = append(lines, line)
	}
	return Sentence(strings.Join(lines, " "))
}

func (d docs) comment(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return cmp.Or(d.comments[dotted(path)], d.subcharts[path[0]].comment(path[1:]))
}

// schema is what values.schema.json says of a value, empty if it says nothing.
func (d docs) schema(path []string) map[string]any {
	said, _ := d.said(path)
	return said
}

// said is schema, and whose it is.
func (d docs) said(path []string) (map[string]any, docs) {
	at := d.resolve(d.root)
	for _, key := range path {
		below, _ := at["properties"].(map[string]any)
		next, _ := below[key].(map[string]any)
		if key == "[]" {
			next, _ = at["items"].(map[string]any)
		}
		at = d.resolve(next)
	}
	if len(at) == 0 && len(path) > 0 {
		return d.subcharts[path[0]].said(path[1:])
	}
	return at, d
}

// types are those that values.schema.json says of a value, none if it says nothing.
func (d docs) types(path []string) (all []string) {
	said, d := d.said(path)
	either := []any{said}
	for _, word := range []string{"anyOf", "oneOf"} {
		more, _ := said[word].([]any)
		either = append(either, more...)
	}
	for _, one := range either {
		fields, _ := one.(map[string]any)
		switch types := d.resolve(fields)["type"].(type) {
		case string:
			all = append(all, types)
		case []any:
			for _, word := range types {
				text, _ := word.(string)
				all = append(all, text)
			}
		}
	}
	return all
}

// resolve follows a $ref within the document.
func (d docs) resolve(schema map[string]any) map[string]any {
	for range 10 {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		var target any = d.root
		for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			fields, _ := target.(map[string]any)
			target = fields[key]
		}
		schema, _ = target.(map[string]any)
	}
	return nil
}

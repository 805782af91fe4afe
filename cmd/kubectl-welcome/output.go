package main

import (
	"encoding/json"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// marshalled is what -o json or yaml prints. Control characters, which a terminal would obey, are escaped, so
// that a parser still gets them.
func marshalled(content any, output string) (string, error) {
	text, err := json.MarshalIndent(content, "", "  ")
	text = []byte(terminal.Escaped(string(text)) + "\n") // YAML takes no raw control characters
	if output != "yaml" || err != nil {
		return string(text), err
	}
	if text, err = yaml.JSONToYAML(text); err != nil || terminal.Escaped(string(text)) == string(text) {
		return string(text), err
	}
	return quoted(text)
}

// quoted is YAML in which strings with control characters are double-quoted, for only there they can be
// escaped.
func quoted(text []byte) (string, error) {
	document := &yamlv3.Node{}
	if err := yamlv3.Unmarshal(text, document); err != nil {
		return "", err
	}
	var quote func(*yamlv3.Node)
	quote = func(node *yamlv3.Node) {
		if terminal.Escaped(node.Value) != node.Value {
			node.Style = yamlv3.DoubleQuotedStyle
		}
		for _, inner := range node.Content {
			quote(inner)
		}
	}
	quote(document)
	var out strings.Builder
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(document)
	return terminal.Escaped(out.String()), err
}

package main

import (
	"encoding/json"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// marshalled is what -o json or yaml prints, with what a terminal obeys spelt out: what reads it gets the same.
func marshalled(content any, output string) (string, error) {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return "", err
	}
	escaped := terminal.Escaped(string(text)) // YAML takes no raw control characters
	if output == "yaml" {
		if text, err = yaml.JSONToYAML([]byte(escaped)); err != nil {
			return "", err
		}
		if escaped = terminal.Escaped(string(text)); escaped != string(text) {
			return quoted(text)
		}
	}
	return strings.TrimSpace(escaped) + "\n", nil
}

// quoted is YAML with double quotes around what has characters that a terminal obeys: only there can they be spelt out.
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

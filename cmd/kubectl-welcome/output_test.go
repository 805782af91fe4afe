package main

import (
	"errors"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// Text that others wrote cannot break output for scripts, which parse it unchanged, and cannot control a terminal.
func TestMarshalledControlCharacters(t *testing.T) {
	const message = "a\u009b2J\u202e\n- b: \"\u2066c\"\u2028"
	content := map[string]any{"items": []any{map[string]any{"\u200fkey": message, "number": "1", "plain": "d\ne", "ready": true}}}
	for output, want := range map[string]string{
		"json": `{
  "items": [
    {
      "number": "1",
      "plain": "d\ne",
      "ready": true,
      "\u200fkey": "a\u009b2J\u202e\n- b: \"\u2066c\"\u2028"
    }
  ]
}
`,
		"yaml": `items:
- "\u200fkey": "a\x9B2J\u202e\n- b: \"\u2066c\"\L"
  number: "1"
  plain: |-
    d
    e
  ready: true
`} {
		text, err := marshalled(content, output)
		if err != nil || text != want {
			t.Errorf("%s: %s, %v", output, text, err)
		}
		read := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, content) {
			t.Errorf("%s reads as %q, %v", output, read, err)
		}
	}
}

// The end of a text is kept, also line breaks.
func TestMarshalledEnds(t *testing.T) {
	for _, end := range []string{"\n\n", "\u00a0", " "} {
		text, err := marshalled(map[string]string{"last": "e" + end}, "yaml")
		read := map[string]string{}
		if err := errors.Join(err, yaml.Unmarshal([]byte(text), &read)); err != nil || read["last"] != "e"+end {
			t.Errorf("%q reads as %q, %v", text, read["last"], err)
		}
	}
}

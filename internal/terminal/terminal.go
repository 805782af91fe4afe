// Package terminal makes what others wrote fit to be shown: who writes an event or a chart, say, would else write over what people see, or turn it around.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
)

// Line is a text on one line, with something else in the place of what a terminal obeys.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if isObeyed(r) {
			return '\uFFFD'
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

func isObeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// Escaped is a text with what a terminal obeys spelt out, as in \u202e: JSON means the same then.
func Escaped(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		if isObeyed(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// Lines is Line for a text of several lines, which stay where they are.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = line[:len(line)-len(strings.TrimLeft(line, " "))] + Line(line)
	}
	return strings.Join(lines, "\n")
}

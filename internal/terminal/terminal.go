// Package terminal makes what others wrote fit to be shown: who writes an event or a chart, say, would else write over what people see, or turn it around.
package terminal

import (
	"strings"
	"unicode"
)

// Line is a text on one line, with something else in the place of what a terminal obeys.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return '\uFFFD'
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// Lines is Line for a text of several lines, which stay where they are.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = line[:len(line)-len(strings.TrimLeft(line, " "))] + Line(line)
	}
	return strings.Join(lines, "\n")
}

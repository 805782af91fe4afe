// Package terminal makes what others wrote fit to be shown: who writes an event or a chart, say, would else
// write over what people see, or turn it around.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
)

// Line is a text on one line. Characters that a terminal obeys are replaced.
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

// Escaped is a text in which characters that a terminal obeys are written as in \u202e. It means the same as
// JSON.
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

// Lines is Line for each line of a text. Indentation stays.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = line[:len(line)-len(strings.TrimLeft(line, " "))] + Line(line)
	}
	return strings.Join(lines, "\n")
}

package object

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// AnyRevision is the revision as which a chart is rendered to find what it asks for by itself, whatever the revision
// is. It is
//
//   - so large that hardly a release gets there
//   - so odd that hardly a chart has it for another reason: what that asks for would be refused
//   - so small that a chart can count up to it
const AnyRevision = 98765

// Same is whether a is own, which the chart asks for by itself. The two objects have to be of one kind, but may have
// different names, for a chart may generate these. If own is of AnyRevision, a may be of any. If own is an annotation
// that is nothing but the time, a may have any time before.
func (a Ask) Same(own Ask) bool {
	a.name, own.value = own.name, atRevisionOf(a.value, own.value)
	if a.what == "annotation" && isTimeUntil(own.value, a.value) {
		a.value = own.value
	}
	return a == own
}

var leadingNumber = regexp.MustCompile(`^[1-9][0-9]{0,8}`)

// atRevisionOf is own with the revision that text has in the first place where own has AnyRevision.
func atRevisionOf(text, own string) string {
	mark := strconv.Itoa(AnyRevision)
	before, _, has := strings.Cut(own, mark)
	rest, begins := strings.CutPrefix(text, before)
	if revision := leadingNumber.FindString(rest); has && begins && revision != "" {
		return strings.ReplaceAll(own, mark, revision)
	}
	return own
}

const unixSeconds = "unix"

var (
	// layouts are how charts write the time: as now says it by itself, and as dates usually are.
	layouts = []string{
		"2006-01-02 15:04:05.999999999 +0000 UTC", "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly,
		"20060102150405", "20060102-150405", "20060102", time.RFC1123, time.ANSIC, unixSeconds,
	}
	// sinceStart is what Go adds to a time that it has read from the clock.
	sinceStart = regexp.MustCompile(` m=[+-]\d+\.\d+$`)
)

// isTimeUntil is whether own is the time of just now, and text one before, written alike.
func isTimeUntil(own, text string) bool {
	own, text = sinceStart.ReplaceAllString(own, ""), sinceStart.ReplaceAllString(text, "")
	for _, layout := range layouts {
		now, isNow := timeIn(layout, own)
		at, isTime := timeIn(layout, text)
		if isNow && isTime && time.Since(now).Abs() < 24*time.Hour && !at.After(now) { // a mere day is its first second
			return true
		}
	}
	return false
}

// timeIn is the time that a text is, false if the text is anything else or more, or written in another way.
func timeIn(layout, text string) (time.Time, bool) {
	if layout == unixSeconds {
		seconds, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0), err == nil && strconv.FormatInt(seconds, 10) == text
	}
	at, err := time.Parse(layout, text)
	return at, err == nil && at.Format(layout) == text
}

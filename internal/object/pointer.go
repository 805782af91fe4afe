package object

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// pointer is a parsed JSON pointer (RFC 6901). As a text it is written like
// /spec/template/metadata/annotations/example.com~1key.
type pointer []string

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is no JSON pointer: write it like /spec/replicas", text)
	}
	var p pointer
	for token := range strings.SplitSeq(text[1:], "/") {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(token); strings.Contains(rest, "~") {
			return nil, fmt.Errorf("%q is no JSON pointer: write ~0 for a ~, and ~1 for a / inside of a name", text)
		}
		p = append(p, unescaper.Replace(token))
	}
	return p, nil
}

func mustPointer(text string) pointer {
	p, err := parsePointer(text)
	if err != nil {
		panic(err)
	}
	return p
}

func (p pointer) String() string {
	var text strings.Builder
	for _, token := range p {
		text.WriteString("/" + escaper.Replace(token))
	}
	return text.String()
}

// covers is whether other points to the same field as p, or below it.
func (p pointer) covers(other pointer) bool {
	return len(p) <= len(other) && slices.Equal(p, other[:len(p)])
}

// among is whether one of all points to the same field as p.
func (p pointer) among(all []pointer) bool {
	return slices.ContainsFunc(all, func(other pointer) bool { return slices.Equal(p, other) })
}

// in returns what p points to. whole is false if an element of a list on the way is missing: then the field
// can neither be set nor be unset there.
func (p pointer) in(value any) (found any, ok, whole bool) {
	for i, token := range p {
		switch content := value.(type) {
		case []any:
			at, err := strconv.Atoi(token)
			if err != nil || at < 0 || at >= len(content) {
				return nil, false, i == len(p)-1
			}
			value = content[at]
		case map[string]any:
			value, ok = content[token]
			if !ok {
				return nil, false, true
			}
		default:
			return nil, false, value == nil
		}
	}
	return value, true, true
}

// across translates p, a pointer into value, into one that leads to the same in other: the index of a named list
// element differs if somebody has inserted another element before it.
func (p pointer) across(value, other any) pointer {
	q := slices.Clone(p)
	for i, token := range p[:len(p)-1] {
		next, _, _ := pointer{token}.in(value)
		if name, _ := field(next, "name").(string); name != "" && len(list(value)) > 0 {
			switch places := named(list(other))[name]; len(places) {
			case 0:
				q[i] = strconv.Itoa(len(list(other))) // behind the last: other lacks the element
			case 1:
				q[i] = strconv.Itoa(places[0])
			}
		}
		value = next
		other, _, _ = pointer{q[i]}.in(other)
	}
	return q
}

// set returns content with a value at p, or with none there if present is false. Maps and lists on the way to
// it are copied, the rest is shared. If an element of a list on the way is missing, content is returned as it
// is.
func (p pointer) set(content, value any, present bool) any {
	if len(p) == 0 {
		return value
	}
	last := len(p) == 1
	switch content := content.(type) {
	case []any:
		at, err := strconv.Atoi(p[0])
		switch {
		case err != nil || at < 0 || at > len(content), at == len(content) && (!last || !present):
			return content
		case at == len(content):
			return append(slices.Clone(content), value)
		case last && !present:
			return slices.Delete(slices.Clone(content), at, at+1)
		}
		content = slices.Clone(content)
		content[at] = p[1:].set(content[at], value, present)
		return content
	case map[string]any:
		inner, ok := content[p[0]]
		if !ok && !present {
			return content
		}
		content = maps.Clone(content)
		if last && !present {
			delete(content, p[0])
		} else {
			content[p[0]] = p[1:].set(inner, value, present)
		}
		return content
	case nil:
		if present {
			return map[string]any{p[0]: p[1:].set(nil, value, true)}
		}
	}
	return content
}

// without is content as if nothing had ever been at p: without that, and without the maps that are empty then.
func (p pointer) without(content any) any {
	for ; len(p) > 0; p = p[:len(p)-1] {
		content = p.set(content, nil, false)
		if rest, _, _ := p[:len(p)-1].in(content); len(fields(rest)) > 0 || len(list(rest)) > 0 {
			break
		}
	}
	return content
}

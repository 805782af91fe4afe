package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// toldNames bounds how many custom resources of a group are named, and toldReason how many bytes of a reason
// the summary shows.
const toldNames, toldReason = 3, 160

// group is a set of results that say the same.
type group struct {
	first change
	owner *unstructured.Unstructured
	names []string
}

// tellResults prints each distinct change once, then what is refused or unknown, and the summary.
func (c *cluster) tellResults(results []result) error {
	shown, refused, unknown := map[string]*group{}, map[string]*group{}, map[string]*group{}
	add := func(to map[string]*group, key string, r result, first change) {
		if to[key] == nil {
			to[key] = &group{first: first, owner: r.name}
		}
		to[key].names = append(to[key].names, r.name.GetNamespace()+"/"+r.name.GetName())
	}
	for _, r := range results {
		kind := r.name.GetKind()
		if r.refused != nil { // then nothing is done
			add(refused, kind+" "+plainly(r.name, r.refused.Error()), r, change{text: r.refused.Error()})
			continue
		}
		if r.unknown != nil {
			add(unknown, kind+" "+plainly(r.name, r.unknown.Error()), r, change{text: r.unknown.Error()})
		}
		for _, change := range r.changes {
			add(shown, kind+" "+change.alike, r, change)
		}
	}
	for _, g := range ordered(shown) {
		c.printf("%s\n%s\n", g.title(), coloured(g.first.text))
	}
	refusals := ordered(refused)
	for _, g := range refusals {
		c.printf("%s would be refused:\n%s\n\n", g.who(), c.here(indented(g.first.text)))
	}
	for _, g := range ordered(unknown) {
		c.printf("%s: unknown:\n%s\n\n", g.who(), c.here(indented(g.first.text)))
	}
	kinds := map[string][]result{}
	for _, r := range results {
		kinds[r.name.GetKind()] = append(kinds[r.name.GetKind()], r)
	}
	if len(kinds) == 0 {
		c.printf("No custom resource is meant.\n")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c.printf("%s\n", c.here(diffSummary(kind, kinds[kind], refusals)))
	}
	return exitOf(results)
}

func exitOf(results []result) error {
	unknown := 0
	for _, r := range results {
		if r.refused != nil || len(r.changes) > 0 {
			return &exitError{code: 1}
		}
		if r.unknown != nil {
			unknown++
		}
	}
	if unknown > 0 {
		return &exitError{code: diffFailed}
	}
	return nil
}

// ordered sorts groups, the largest first.
func ordered(groups map[string]*group) []*group {
	return slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(len(b.names)-len(a.names), cmp.Compare(a.first.kind.String(), b.first.kind.String()), cmp.Compare(a.names[0], b.names[0]))
	})
}

// who names the custom resources of a group.
func (g *group) who() string {
	names := g.names[:min(len(g.names), toldNames)]
	text := strings.Join(names, ", ")
	if more := len(g.names) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return counted(len(g.names), g.owner.GetKind()) + " (" + text + ")"
}

func (g *group) title() string {
	does := map[action]string{isRolled: "changes, and its pods are replaced", isChanged: "changes", isMade: "is made", isDeleted: "is deleted", isRecreated: "is deleted and made anew"}[g.first.action]
	return fmt.Sprintf("%s: %s %s", g.who(), g.first.kind.Kind, does)
}

// diffSummary is the summary line of a kind. The first of its refusals is the most common one.
func diffSummary(kind string, results []result, refusals []*group) string {
	changing, refused, partly, unknown := 0, 0, 0, 0
	objects := map[string]int{}
	for _, r := range results {
		switch {
		case r.refused != nil:
			refused++
		case r.unknown != nil && len(r.changes) == 0:
			unknown++
		case len(r.changes) > 0:
			changing++
			if r.unknown != nil {
				partly++
			}
			for _, change := range r.changes {
				objects[change.kind.Kind+"\x00"+string(change.action)]++
			}
		}
	}
	text := fmt.Sprintf("%d of %s", changing, counted(len(results), kind))
	if changing == 1 {
		text += " changes"
	} else {
		text += " change"
	}
	var parts []string
	for _, key := range mostCommon(objects) {
		what, does, _ := strings.Cut(key, "\x00")
		if objects[key] == 1 {
			does = map[action]string{isRolled: "rolls its pods", isChanged: "changes", isMade: "is made", isDeleted: "is deleted", isRecreated: "is deleted and made anew"}[action(does)]
		}
		parts = append(parts, counted(objects[key], what)+" "+does)
	}
	if refused > 0 {
		most := slices.IndexFunc(refusals, func(g *group) bool { return g.owner.GetKind() == kind })
		reason, _, _ := strings.Cut(refusals[most].first.text, "\n")
		reason = safe(reason)
		if len(reason) > toldReason {
			reason = strings.ToValidUTF8(reason[:toldReason], "") + "…"
		}
		parts = append(parts, fmt.Sprintf("%d would be refused: %s", refused, reason))
	}
	if partly > 0 {
		parts = append(parts, fmt.Sprintf("%d partly unknown", partly))
	}
	if unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown", unknown))
	}
	if len(parts) == 0 {
		return text + "."
	}
	return text + "; " + strings.Join(parts, ", ")
}

// indented is a reason, indented to stand below a title.
func indented(reason string) string {
	var lines []string
	for line := range strings.SplitSeq(reason, "\n") {
		lines = append(lines, "  "+safe(line))
	}
	return strings.Join(lines, "\n")
}

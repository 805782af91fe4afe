package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counted is a number of objects of a kind in words.
func counted(n int, kind string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay"):
		kind = strings.TrimSuffix(kind, "y") + "ies"
	case strings.HasSuffix(kind, "s"):
		kind += "es"
	default:
		kind += "s"
	}
	return fmt.Sprintf("%d %s", n, kind)
}

// mostCommon sorts the keys by their counts, the highest first.
func mostCommon(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
}

// union are the keys of two maps, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

package release

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestSameButChance(t *testing.T) {
	rendered := func(password, checksum, greeting string) string {
		return fmt.Sprintf(`---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  password: %q
  file: |
    first
    pw=%[1]s
    greeting=%[3]s
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {checksum: %[2]q}}
spec: {list: [{name: x}, {}], none: null}
`, password, checksum, greeting)
	}
	applied := rendered("one", "a", "hello")
	for name, c := range map[string]struct {
		once, again string
		want        bool
	}{
		"the same":                       {applied, applied, true},
		"another password and checksum":  {rendered("two", "b", "hello"), rendered("three", "c", "hello"), true},
		"another greeting":               {rendered("one", "a", "bye"), rendered("one", "a", "bye"), false},
		"another greeting besides":       {rendered("two", "b", "bye"), rendered("three", "c", "bye"), false},
		"the same twice, and not before": {rendered("two", "a", "hello"), rendered("two", "a", "hello"), false},
		"one object less":                {applied[:70], applied[:70], false},
		"unreadable":                     {"{", "{", false},
	} {
		if got := sameButChance(applied, c.once, c.again); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is not there, or is another kind of value, is another rendering, unless chance makes it.
func TestAlike(t *testing.T) {
	manifest := func(spec string) string {
		return "---\napiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: " + spec + "\n"
	}
	for name, c := range map[string]struct {
		was, now, then string
		want           bool
	}{
		"a field more":                  {"{a: 1}", "{a: 1, b: 2}", "{a: 1, b: 2}", false},
		"a field more by chance":        {"{a: 1}", "{a: 1, b: 2}", "{a: 1, b: 3}", true},
		"a field less":                  {"{a: 1, b: 2}", "{a: 1}", "{a: 1}", false},
		"a field less and another":      {"{a: 1, b: 2}", "{a: 1}", "{a: 1, b: 3}", false},
		"the first fields":              {"{}", "{b: 2}", "{b: 2}", false},
		"the first fields by chance":    {"{}", "{b: 2}", "{b: 3}", false},
		"no fields any more":            {"{b: 2}", "{}", "{}", false},
		"no fields, nor before":         {"{a: {}}", "{a: {}}", "{a: {}}", true},
		"null is not nothing":           {"{a: null}", "{}", "{}", false},
		"null is no map":                {"{a: null}", "{a: {}}", "{a: {}}", false},
		"an element more":               {"[1]", "[1, 2]", "[1, 2]", false},
		"an element more by chance":     {"[1]", "[1, 2]", "[1, 3]", true},
		"an element less":               {"[1, 2]", "[1]", "[1]", false},
		"an element less by chance":     {"[1, 2]", "[1]", "[1, 3]", false},
		"a map for a list":              {"[1]", "{a: 1}", "{a: 1}", false},
		"a number for a text":           {"1", "'1'", "'1'", false},
		"a text by chance":              {"a", "b", "c", true},
		"a text for a map by chance":    {"{a: 1}", "b", "c", false},
		"a map for a text":              {"a", "{a: 1}", "{a: 1}", false},
		"a line by chance":              {`"a\nb\nc"`, `"a\nd\nc"`, `"a\ne\nc"`, true},
		"another line":                  {`"a\nb\nc"`, `"x\nd\nc"`, `"x\ne\nc"`, false},
		"a line more":                   {`"a\nb"`, `"a\nb\nc"`, `"a\nb\nc"`, false},
		"a line less":                   {`"a\nb\nc"`, `"a\nb"`, `"a\nb"`, false},
		"lines for one":                 {"a", `"a\nb"`, `"a\nb"`, false},
		"several objects without names": {"1}\n---\n{a: 1", "1}\n---\n{a: 2", "1}\n---\n{a: 2", false},
	} {
		if got := sameButChance(manifest(c.was), manifest(c.now), manifest(c.then)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An author's text of half a million lines takes no names of half a million fields.
func TestManyLinesAndChance(t *testing.T) {
	manifest := func(password string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {text: \"%s\", password: %s}\n", strings.Repeat(`\n`, 500_000), password)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if !sameButChance(manifest("a"), manifest("b"), manifest("c")) {
		t.Error("another password is taken for an edit")
	}
	runtime.ReadMemStats(&after)
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 200 { // most of it to parse YAML
		t.Errorf("it takes %d MiB", taken)
	} else {
		t.Logf("it takes %d MiB", taken)
	}
}

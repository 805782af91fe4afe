package hack

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// section of a document: what is the same in every language.
type section struct {
	heading string
	level   int
	blocks  []string // of code, without their comments
	code    []string // in the text, in the order of the alphabet, as are the links
	links   []string
}

func sections(text string) []section {
	parts := []section{{heading: "the beginning"}}
	inBlock := false
	for line := range strings.SplitSeq(text, "\n") {
		last := &parts[len(parts)-1]
		switch fenced := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case fenced && !inBlock:
			last.blocks = append(last.blocks, strings.TrimSpace(line))
			inBlock = true
		case fenced:
			inBlock = false
		case inBlock:
			last.blocks[len(last.blocks)-1] += "\n" + strings.TrimRight(comment.ReplaceAllString(line, ""), " ")
		case heading.MatchString(line):
			parts = append(parts, section{heading: line, level: strings.IndexFunc(line, func(r rune) bool { return r != '#' })})
		default:
			for _, match := range span.FindAllStringSubmatch(line, -1) {
				last.code = append(last.code, match[1])
			}
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				last.links = append(last.links, match[1])
			}
		}
	}
	for i := range parts {
		slices.Sort(parts[i].code)
		for j, target := range parts[i].links { // a heading has another anchor in each language
			if anchor, own := strings.CutPrefix(target, "#"); own {
				parts[i].links[j] = fmt.Sprintf("heading %d", slices.IndexFunc(parts, func(s section) bool { return slices.Contains(anchors(s.heading), anchor) }))
			}
		}
		parts[i].links = slices.DeleteFunc(parts[i].links, func(target string) bool { return strings.HasPrefix(target, "README.") })
		slices.Sort(parts[i].links)
	}
	return parts
}

// What a reader of README.zh-CN.md is told to type and to open is what README.md says. Whether it is told well is for people to judge.
func TestTranslationHasTheSameCommands(t *testing.T) {
	var languages [2][]section
	for i, file := range []string{"../README.md", "../README.zh-CN.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		languages[i] = sections(string(text))
	}
	for _, difference := range translationDiffers(languages[0], languages[1]) {
		t.Error(difference)
	}
}

func translationDiffers(original, translated []section) (differences []string) {
	tell := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for i, want := range original {
		if i >= len(translated) {
			tell("README.zh-CN.md lacks heading %d, %q, and what follows", i, want.heading)
			return differences
		}
		got := translated[i]
		if got.level != want.level {
			tell("heading %d is %q in README.md, and %q in README.zh-CN.md, of another level: one is missing there, or one too many", i, want.heading, got.heading)
			return differences
		}
		for j, block := range want.blocks {
			if j >= len(got.blocks) || got.blocks[j] != block {
				tell("below %q (%q), code block %d of README.md is not that of README.zh-CN.md, comments aside:\n%s", want.heading, got.heading, j+1, block)
				break
			}
		}
		if len(got.blocks) > len(want.blocks) {
			tell("below %q (%q), README.zh-CN.md has %d code blocks too many", want.heading, got.heading, len(got.blocks)-len(want.blocks))
		}
		for what, lists := range map[string][2][]string{"code": {want.code, got.code}, "links": {want.links, got.links}} {
			for _, missing := range without(lists[0], lists[1]) {
				tell("below %q, README.zh-CN.md (%q) has not the same %s: it lacks %s", want.heading, got.heading, what, missing)
			}
			for _, extra := range without(lists[1], lists[0]) {
				tell("below %q, README.zh-CN.md (%q) has not the same %s: README.md does not have %s", want.heading, got.heading, what, extra)
			}
		}
	}
	if len(translated) > len(original) {
		tell("README.zh-CN.md has heading %d, %q, and README.md does not", len(original), translated[len(original)].heading)
	}
	return differences
}

// without returns what of a is not in b, counting.
func without(a, b []string) []string {
	left := slices.Clone(b)
	var missing []string
	for _, each := range a {
		if i := slices.Index(left, each); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			missing = append(missing, each)
		}
	}
	return missing
}

func TestTranslationDiffers(t *testing.T) {
	const original = "# A\n\n```sh\nmake demo   # see\n```\n\n## B\n\n`make run`, see [C](#c), [docs](docs/b.md) and `NAME`.\n\n### C\n"
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"only words":                 {"see", "看", nil},
		"another name of a heading":  {"", "", nil},
		"another command in a block": {"make demo", "make test", []string{`"# A"`, "code block 1", "make demo"}},
		"a block is missing":         {"```sh\nmake demo   # see\n```\n", "", []string{`"# A"`, "code block 1"}},
		"another command in a line":  {"`make run`", "`make build`", []string{`"## B"`, "lacks make run"}},
		"another link":               {"docs/b.md", "docs/a.md", []string{`"## B"`, "lacks docs/b.md"}},
		"a heading is missing":       {"### C\n", "", []string{`"### C"`, "lacks heading 3"}},
		"another level":              {"## B", "### B", []string{"heading 2", `"## B"`, `"### 乙"`}},
		"a heading too many":         {"### C", "### C\n\n### D", []string{"heading 4", `"### D"`}},
	} {
		t.Run(name, func(t *testing.T) {
			translated := strings.NewReplacer("# B", "# 乙", "# C", "# 丙", "(#c)", "(#丙)").Replace(strings.Replace(original, c.before, c.after, 1))
			got := strings.Join(translationDiffers(sections(original), sections(translated)), "\n")
			if c.want == nil && got != "" {
				t.Errorf("it differs: %s", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
		})
	}
}

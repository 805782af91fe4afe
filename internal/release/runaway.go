package release

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/util/sets"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Helm bounds neither how long a template runs nor how much it makes, and nothing can stop one, or keep it from
// ending the process. So of templates in the values of authors, which a chart may run by tpl, only those run
// without the platform's consent that cannot make much of little: no loops, no variables, no definitions.
var (
	// harmless are functions whose result is about as long as what they are given.
	harmless = sets.New("default", "coalesce", "ternary", "required", "empty", "not", "and", "or", "eq", "ne", "lt", "le", "gt", "ge", "contains", "hasPrefix", "hasSuffix",
		"quote", "squote", "lower", "upper", "title", "trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "toString", "int", "b64enc", "b64dec", "sha256sum",
		"print", "printf", "toYaml", "toJson", "get", "hasKey", "index", "semverCompare", "lookup", "include")
	// known are the fields that a template may use: the values, and facts about the release.
	known = sets.New("Values", "Release", "Chart", "Capabilities", "Template")
)

// longer are those harmless functions whose result may be longer than their input, by at most that factor: "<"
// is \u003c in JSON. toYaml also indents each line, even an empty one, by two for each level.
var longer = map[string]int{"quote": 6, "toJson": 6, "toYaml": 6, "printf": 6, "b64enc": 2}

// verbs are those of printf without a width, which do not enlarge their input.
var verbs = regexp.MustCompile(`%([svqdt%]|$)`)

const (
	// maxExpanded bounds what the templates in a spec can make, in bytes.
	maxExpanded = 32 << 20
	// maxIncludes bounds how often they use the chart's own templates, which may run others of them by tpl: ten
	// that have ten of the next would be 10^n.
	maxIncludes = 20

	// What a call, a name of the release, other facts that are no values, and the chart's files, which the root
	// has, make at most, in bytes: sha256sum makes 64 of nothing.
	sizeOfCall, sizeOfNames, sizeOfFacts, sizeOfFiles = 100, 1 << 10, 64 << 10, 1 << 20
)

// checkTexts fails if a field of a spec has too long a path, or a text could end a line in what the chart writes, or is a
// template that the chart may run and that could take too much time or memory. whole are all values as JSON: without a template
// in it, this costs nothing more.
func (k *Kind) checkTexts(spec map[string]any, whole string) error {
	if length := object.LongestPath(spec); length > object.MaxPath { // before anything takes paths of it
		return notAllowed{fmt.Errorf("not allowed: a field of the spec has a path (as .a.b[]) of %d characters, and may have one of %d: write shorter names, or fewer levels", length, object.MaxPath)}
	}
	pinned := sets.KeySet(k.Overrides)
	if err := checkLines(spec, "", pinned); err != nil {
		return err
	}
	if !k.source.runsValues || !strings.Contains(whole, "{{") {
		return nil
	}
	t := templates{allowed: sets.New(k.Allow.Values...).Union(pinned), each: len(whole), deep: depth(spec)}
	if t.look(spec, ""); t.why == "" && t.made*max(t.includes, 1) > maxExpanded { // what includes use may run others of them
		t.where, t.why = "the spec", "could make more than is good of it"
	}
	if t.why == "" && t.includes > maxIncludes {
		t.where, t.why = "the spec", fmt.Sprintf("has more than %d times include", maxIncludes)
	}
	if t.why == "" {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: a template in %s %s, and the chart may run it: without allow.values for it, the operator's watches.yaml allows authors plain templates only (fields, and functions such as default and quote)",
		t.where, t.why)}
}

// lineEnd is a character of a text that ends a line for YAML but not for templates, empty if there is none.
// What follows it is not indented by indent and nindent, nor by toYaml in a text of several lines, so that it
// could become any field, or another object.
func lineEnd(text string) string {
	for _, end := range []string{"\u0085", "\u2028", "\u2029"} {
		if strings.Contains(text, end) {
			return end
		}
	}
	if strings.Count(text, "\r") > strings.Count(text, "\r\n") {
		return "\r"
	}
	return ""
}

// checkLines fails if a value has such a character and is not pinned by the platform.
func checkLines(value any, path string, pinned sets.Set[string]) error {
	if pinned.Has(path) {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := below(path, key)
			if err := cmp.Or(checkLines(key, at, pinned), checkLines(value[key], at, pinned)); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := checkLines(element, path+"[]", pinned); err != nil {
				return err
			}
		}
	case string:
		if end := lineEnd(value); end != "" {
			return notAllowed{fmt.Errorf("not allowed: a text in %s has %U, at which a line ends for YAML, and not for templates: write \\n", path, []rune(end)[0])}
		}
	}
	return nil
}

// templates are the templates in a spec, and what they could make.
type templates struct {
	allowed  sets.Set[string] // paths of values that may have any
	each     int              // how much a value may be, in bytes
	deep     int              // how deep they are
	made     int              // how much they can make, in bytes
	includes int              // how often they use the chart's own
	where    string           // the first that is not allowed, and why not
	why      string
}

// look looks for templates in a value.
func (t *templates) look(value any, path string) {
	if t.why != "" || t.allowed.Has(path) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := below(path, key)
			t.judge(key, at)
			t.look(value[key], at)
		}
	case []any:
		for _, element := range value {
			t.look(element, path+"[]")
		}
	case string:
		t.judge(value, path)
	}
}

// below is the path of a key of a value, as the CRD's head spells it: each element of a list is []. What could be taken for
// that, and a dot, is escaped within a key, as in overrideValues.
func below(path, key string) string {
	return strings.TrimPrefix(path+"."+inKey.Replace(key), ".")
}

var inKey = strings.NewReplacer(".", `\.`, "[", `\[`, "]", `\]`)

// judge judges a text. What can't be parsed could be a part of what can: charts put texts together.
func (t *templates) judge(text, path string) {
	if t.why != "" || !strings.Contains(text, "{{") || t.allowed.Has(path) {
		return
	}
	why := ""
	switch trees, err := ParseTemplates("value", text); {
	case err != nil:
		why = "can't be parsed"
	case len(trees) > 1:
		why = "has a definition"
	default:
		for _, tree := range trees {
			made := 0
			made, why = t.bound(tree.Root, dot{size: t.root(), isRoot: true})
			t.made += made
		}
	}
	if why != "" {
		t.where, t.why = path, why
	}
}

// dot is what a dot stands for.
type dot struct {
	size   int // in bytes, at most
	isRoot bool
}

// bound is how much a part of a template can make at most, in bytes, and why it is not allowed, empty if it is.
func (t *templates) bound(node parse.Node, at dot) (size int, why string) {
	switch n := node.(type) {
	case *parse.TextNode:
		return len(n.Text), ""
	case *parse.StringNode:
		return len(n.Text), ""
	case *parse.CommentNode, *parse.BoolNode, *parse.NilNode, *parse.NumberNode:
		return sizeOfCall, ""
	case *parse.DotNode:
		return at.size, ""
	case *parse.ListNode:
		return t.sum(n.Nodes, at)
	case *parse.ActionNode:
		return t.bound(n.Pipe, at)
	case *parse.IfNode:
		return t.branch(n.BranchNode, at, func(int) dot { return at })
	case *parse.WithNode:
		return t.branch(n.BranchNode, at, func(size int) dot { return dot{size: size} })
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return 0, "has a variable"
		}
		for _, command := range n.Cmds {
			if size, why = t.call(command, size, at); why != "" {
				return 0, why
			}
		}
		return size, ""
	case *parse.FieldNode:
		if size, why = t.fact(n.Ident, node); !at.isRoot {
			size = max(size, at.size) // it is the author's
		}
		return size, why
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return t.fact(n.Ident[1:], node)
		}
	case *parse.ChainNode:
		return t.bound(n.Node, at)
	case *parse.IdentifierNode:
		if harmless.Has(n.Ident) {
			return sizeOfCall, ""
		}
	}
	return 0, "has " + node.String()
}

func (t *templates) sum(nodes []parse.Node, at dot) (size int, why string) {
	for _, node := range nodes {
		more, why := t.bound(node, at)
		if why != "" {
			return 0, why
		}
		size = min(size+more, maxExpanded+1)
	}
	return size, ""
}

// branch is bound of an if or a with; within is its dot, after what it asks has made so much.
func (t *templates) branch(b parse.BranchNode, at dot, within func(size int) dot) (size int, why string) {
	asked, why := t.bound(b.Pipe, at)
	if why != "" {
		return 0, why
	}
	then, why := t.bound(b.List, within(asked))
	if why != "" || b.ElseList == nil {
		return asked + then, why
	}
	otherwise, why := t.bound(b.ElseList, at)
	return asked + then + otherwise, why
}

func (t *templates) root() int { return sizeOfFiles + t.each }

// fact is bound of what is found by names from the root on.
func (t *templates) fact(names []string, node parse.Node) (size int, why string) {
	switch {
	case len(names) == 0:
		return t.root(), ""
	case !known.Has(names[0]):
		return 0, "has " + node.String()
	case names[0] == "Values":
		return t.each, ""
	case names[0] == "Release" || names[0] == "Template":
		return sizeOfNames, ""
	}
	return sizeOfFacts, ""
}

// call is bound of a function with its arguments, the last of which the one before it in the pipe has made, or
// of a value. Some functions are harmless with some arguments only.
func (t *templates) call(command *parse.CommandNode, piped int, at dot) (size int, why string) {
	size, why = t.sum(command.Args, at)
	function, ok := command.Args[0].(*parse.IdentifierNode)
	if !ok || why != "" {
		return size, why
	}
	literal := ""
	if len(command.Args) > 1 {
		if text, ok := command.Args[1].(*parse.StringNode); ok {
			literal = text.Text
		}
	}
	switch function.Ident {
	case "lookup":
		return min(size+piped+maxLookup, maxExpanded+1), ""
	case "printf": // with a width, it makes much of nothing
		if literal == "" || strings.Contains(verbs.ReplaceAllString(literal, ""), "%") {
			return 0, "has " + command.String()
		}
	case "include": // of the chart's own templates, as the chart uses them, and not with what an author has made of the dot
		if len(command.Args) != 3 || literal == "" || command.Args[2].String() != "$" && (command.Args[2].String() != "." || !at.isRoot) {
			return 0, "has " + command.String()
		}
		t.includes++
		return min(piped+t.each, maxExpanded+1), ""
	}
	times := max(longer[function.Ident], 1)
	if function.Ident == "toYaml" {
		times += 2 * t.deep
	}
	return min((size+piped)*times, maxExpanded+1), ""
}

// depth is how deep a value is.
func depth(value any) (deepest int) {
	switch value := value.(type) {
	case map[string]any:
		for _, element := range value {
			deepest = max(deepest, 1+depth(element))
		}
	case []any:
		for _, element := range value {
			deepest = max(deepest, 1+depth(element))
		}
	}
	return deepest
}

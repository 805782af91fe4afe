package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Helm bounds neither how long a template runs nor how much it makes, and nothing can end one, or keep it from ending the process. So of the templates in values of
// authors, which a chart may run by tpl, only those are, without a word of the platform, that cannot make much of little: no loops, no variables, no definitions.
var (
	// harmless are functions whose result is about as long as what they are given.
	harmless = sets.New("default", "coalesce", "ternary", "required", "empty", "not", "and", "or", "eq", "ne", "lt", "le", "gt", "ge", "contains", "hasPrefix", "hasSuffix",
		"quote", "squote", "lower", "upper", "title", "trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "toString", "int", "b64enc", "b64dec", "sha256sum",
		"print", "printf", "toYaml", "toJson", "get", "hasKey", "index", "semverCompare", "lookup", "include")
	// known are what a template may take from: the author's and the chart's values, and what says where it is.
	known = sets.New("Values", "Release", "Chart", "Capabilities", "Template")
)

// maxExpanded bounds what the templates in a spec can make, in bytes: each part of one may stand for all values.
const maxExpanded = 32 << 20

// checkTemplates fails if a spec has a template in it that the chart may run, and that could keep the operator busy or take its memory. whole are all values, as
// JSON: what has no template in it costs nothing more.
func (k *Kind) checkTemplates(source chartSource, spec map[string]any, whole string) error {
	if !source.runsValues || !strings.Contains(whole, "{{") {
		return nil
	}
	t := templates{allowed: sets.New(k.allow.Values...).Insert(slices.Collect(maps.Keys(k.overrides))...), each: len(whole)}
	if t.look(spec, ""); t.why == "" && t.parts*t.each > maxExpanded {
		t.where, t.why = "the spec", "could make more than is good of it"
	}
	if t.why == "" {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: a template in %s %s, and the chart may run it: without allow.values for it, the operator's watches.yaml allows authors plain templates only (fields, and functions such as default and quote)",
		t.where, t.why)}
}

// templates are those in a spec.
type templates struct {
	allowed sets.Set[string] // paths of values that may have any
	parts   int              // how many of their parts stand for values
	each    int              // how much each may stand for, in bytes
	where   string           // the first that is not allowed, and why not
	why     string
}

// look looks for them in a value. A dot within a key is escaped in its path, as in overrideValues.
func (t *templates) look(value any, path string) {
	if t.why != "" || t.allowed.Has(path) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := strings.TrimPrefix(path+"."+strings.ReplaceAll(key, ".", `\.`), ".")
			t.judge(key, at)
			t.look(value[key], at)
		}
	case []any:
		for _, element := range value {
			t.look(element, path)
		}
	case string:
		t.judge(value, path)
	}
}

// judge judges a text. What can't be parsed could be a part of what can: charts put texts together.
func (t *templates) judge(text, path string) {
	if t.why != "" || !strings.Contains(text, "{{") || t.allowed.Has(path) {
		return
	}
	why := ""
	switch trees, err := parsed("value", text); {
	case err != nil:
		why = "can't be parsed"
	case len(trees) > 1:
		why = "has a definition"
	default:
		for _, tree := range trees {
			why = t.more(tree.Root)
		}
	}
	if why != "" {
		t.where, t.why = path, why
	}
}

// more is why a part of a template can make much of little, empty if it can't.
func (t *templates) more(node parse.Node) (why string) {
	all := func(nodes ...parse.Node) string {
		for _, node := range nodes {
			if why := t.more(node); why != "" {
				return why
			}
		}
		return ""
	}
	branch := func(b parse.BranchNode) string {
		if b.ElseList != nil {
			return all(b.Pipe, b.List, b.ElseList)
		}
		return all(b.Pipe, b.List)
	}
	switch n := node.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode, *parse.NilNode:
		return ""
	case *parse.DotNode:
		t.parts++
		return ""
	case *parse.ListNode:
		return all(n.Nodes...)
	case *parse.ActionNode:
		return all(n.Pipe)
	case *parse.IfNode:
		return branch(n.BranchNode)
	case *parse.WithNode:
		return branch(n.BranchNode)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return "has a variable"
		}
		for _, command := range n.Cmds {
			if why := all(command.Args...); why != "" {
				return why
			}
			if why := t.call(command); why != "" {
				return why
			}
		}
		return ""
	case *parse.FieldNode:
		t.parts++
		if known.Has(n.Ident[0]) {
			return ""
		}
	case *parse.VariableNode:
		t.parts++
		if n.Ident[0] == "$" && (len(n.Ident) == 1 || known.Has(n.Ident[1])) {
			return ""
		}
	case *parse.ChainNode:
		return all(n.Node)
	case *parse.IdentifierNode:
		if harmless.Has(n.Ident) {
			return ""
		}
	}
	return "has " + node.String()
}

// call looks at functions that are harmless only with some arguments, and at those that can take long.
func (t *templates) call(command *parse.CommandNode) (why string) {
	function, ok := command.Args[0].(*parse.IdentifierNode)
	if !ok {
		return ""
	}
	literal := ""
	if len(command.Args) > 1 {
		if text, ok := command.Args[1].(*parse.StringNode); ok {
			literal = text.Text
		}
	}
	switch function.Ident {
	case "lookup":
		t.parts += maxLookup / max(t.each, 1)
	case "printf": // with a width, it makes much of nothing
		if literal == "" || strings.ContainsAny(literal, "0123456789*") {
			return "has " + command.String()
		}
	case "include": // of the chart's own templates, as the chart uses them; Helm bounds how deep that goes
		if len(command.Args) != 3 || literal == "" || command.Args[2].String() != "." && command.Args[2].String() != "$" {
			return "has " + command.String()
		}
	}
	return ""
}

package release

import (
	"strings"
	"text/template/parse"
)

// ParseTemplates returns the templates in a text by their names: the text itself, and what it defines. It does not
// matter which functions there are. With an error, it returns those that could be parsed.
func ParseTemplates(name, text string) (map[string]*parse.Tree, error) {
	trees := map[string]*parse.Tree{}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	_, err := tree.Parse(text, "", "", trees)
	return trees, err
}

// Inspect visits a node of a template, and every node in it.
func Inspect(node parse.Node, visit func(parse.Node)) {
	visit(node)
	branch := func(b *parse.BranchNode) {
		Inspect(b.Pipe, visit)
		Inspect(b.List, visit)
		if b.ElseList != nil {
			Inspect(b.ElseList, visit)
		}
	}
	switch node := node.(type) {
	case *parse.ListNode:
		for _, in := range node.Nodes {
			Inspect(in, visit)
		}
	case *parse.ActionNode:
		Inspect(node.Pipe, visit)
	case *parse.IfNode:
		branch(&node.BranchNode)
	case *parse.WithNode:
		branch(&node.BranchNode)
	case *parse.RangeNode:
		branch(&node.BranchNode)
	case *parse.TemplateNode:
		if node.Pipe != nil {
			Inspect(node.Pipe, visit)
		}
	case *parse.PipeNode:
		for _, in := range node.Cmds {
			Inspect(in, visit)
		}
	case *parse.CommandNode:
		for _, in := range node.Args {
			Inspect(in, visit)
		}
	case *parse.ChainNode:
		Inspect(node.Node, visit)
	}
}

// words are the functions and the fields in a part of a template, but for its text and comments.
func words(node parse.Node) (found []string) {
	Inspect(node, func(node parse.Node) {
		switch n := node.(type) {
		case *parse.ChainNode:
			found = append(found, "."+strings.Join(n.Field, "."))
		case *parse.IdentifierNode:
			found = append(found, n.Ident)
		case *parse.FieldNode:
			found = append(found, "."+strings.Join(n.Ident, "."))
		case *parse.VariableNode:
			found = append(found, strings.Join(n.Ident, "."))
		}
	})
	return found
}

package infer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"demo.welcome.domain/welcome-operator/internal/release"
)

// comparing are the functions of templates that compare a value with a text.
var comparing = []string{"eq", "ne", "has", "hasPrefix", "hasSuffix", "contains"}

// alternativesIn returns the texts that templates compare values with, as in eq .Values.service.type
// "NodePort". The comparison may also be with a variable that holds the value, or with a template that writes
// it. The key is the path as the template writes it, which may be only the end of the whole one: within a
// "with", service.type is .type.
func alternativesIn(sources []string) map[string][]any {
	c := comparisons{map[string][]string{}, map[string][]string{}}
	for n, source := range sources {
		// No text is called as the file is. What can't be parsed alone may be a part of a template.
		trees, _ := release.ParseTemplates(fmt.Sprint("\x00", n), source)
		for _, name := range slices.Sorted(maps.Keys(trees)) {
			release.Inspect(trees[name].Root, func(node parse.Node) { c.read(node, n, strconv.Quote(name)) })
		}
	}
	all := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(c.with)) {
		known := map[string]bool{}
		c.standsFor(name, known)
		for path := range known { // in any order: each has texts of its own
			for _, text := range c.with[name] {
				if isTemplate := c.of[strconv.Quote(text)] != nil; !isTemplate && !slices.Contains(all[path], any(text)) {
					all[path] = append(all[path], text)
				}
			}
		}
	}
	return all
}

// comparisons say what templates compare. Their keys are names as nameOf returns them: of values, variables and templates.
type comparisons struct {
	// with has the texts that each name is compared with.
	with map[string][]string
	// of has the names that each variable or template is made of.
	of map[string][]string
}

// read notes what a node compares, which variables it sets, and what it writes into the template that it is in.
func (c comparisons) read(node parse.Node, file int, template string) {
	if action, ok := node.(*parse.ActionNode); ok && len(action.Pipe.Decl) == 0 {
		written, _ := c.named(file, action.Pipe.Cmds)
		c.of[template] = append(c.of[template], written...)
	}
	pipe, ok := node.(*parse.PipeNode)
	if !ok {
		return
	}
	made, _ := c.named(file, pipe.Cmds)
	for _, variable := range pipe.Decl {
		c.of[nameOf(variable, file)] = append(c.of[nameOf(variable, file)], made...)
	}
	for n, command := range pipe.Cmds {
		if function, ok := command.Args[0].(*parse.IdentifierNode); ok && slices.Contains(comparing, function.Ident) {
			names, texts := c.named(file, pipe.Cmds[:n+1])
			for _, name := range names {
				c.with[name] = append(c.with[name], texts...)
			}
		}
	}
}

// named returns the names and the texts that some commands mention.
func (c comparisons) named(file int, commands []*parse.CommandNode) (names, texts []string) {
	for _, command := range commands {
		release.Inspect(command, func(node parse.Node) {
			if name := nameOf(node, file); name != "" {
				names = append(names, name)
			}
			if text, ok := node.(*parse.StringNode); ok && text.Text != "" {
				texts = append(texts, text.Text)
			}
		})
	}
	return names, texts
}

// standsFor adds a name to those that are known, and everything that the variable or template of that name is
// made of. Templates may include each other in circles.
func (c comparisons) standsFor(name string, known map[string]bool) {
	if known[name] {
		return
	}
	known[name] = true
	for _, other := range c.of[name] {
		c.standsFor(other, known)
	}
}

// nameOf returns the name by which a node asks for something, and "" if it asks for nothing. That of a value
// is its path without .Values and all that is before it. That of a variable has the number of its file, for
// other files have variables of the same name. A text may be the name of a template, and is in quotes.
func nameOf(node parse.Node, file int) string {
	var parts []string
	switch node := node.(type) {
	case *parse.FieldNode:
		parts = node.Ident
	case *parse.ChainNode:
		parts = node.Field
	case *parse.VariableNode:
		if len(node.Ident) == 1 {
			return fmt.Sprint(node.Ident[0], " ", file)
		}
		parts = node.Ident[1:]
	case *parse.StringNode: // include "NAME", or with backquotes
		return strconv.Quote(node.Text)
	}
	return strings.Join(parts[slices.Index(parts, "Values")+1:], ".")
}

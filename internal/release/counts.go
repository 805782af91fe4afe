package release

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Numbers in values may say how much of something a chart makes, and what Helm renders is in memory before anybody can look: range until (int .Values.replicas) of 500
// million ends the operator, and the next one.
const (
	// maxCounted bounds the numbers of a spec that are known to do so, multiplied: one may count in what the other one counts. It bounds lists, too.
	maxCounted = 10_000
	// maxNumber bounds a number where the chart ranges over a list, for templates range over numbers, too, and any number of a spec where it hides which one counts. It lets
	// ports pass.
	maxNumber = 70_000
)

// counting are the functions that make as much as a number says, with how many of their first arguments are such numbers.
var counting = map[string]int{
	"until": 1, "untilStep": 3, "seq": 3, "repeat": 1, "indent": 1, "nindent": 1, "randAlphaNum": 1, "randAlpha": 1, "randNumeric": 1, "randAscii": 1, "randBytes": 1,
}

// looping are those that charts give what an author wants many of, one within the other perhaps. The others get lengths and depths, from a template to another one mostly.
var looping = sets.New("until", "untilStep", "seq", "repeat")

// picking are functions of which nobody can tell what they take.
var picking = sets.New("include", "tpl", "get", "dig", "index", "pluck", "first", "last", "fromYaml", "fromJson", "lookup", "pick", "values", "regexFind")

// counts are the values that count in a chart, by their paths within it or its subchart, and whether others may, too.
type counts struct {
	paths  sets.Set[string]
	hidden bool
	// lengths and lists are keys of values, wherever these are: of lengths, and of what is ranged over, which templates do with a number, too.
	lengths, lists sets.Set[string]
}

func (c counts) any() bool { return len(c.paths)+len(c.lengths)+len(c.lists) > 0 || c.hidden }

// origin is where a part of a template takes something from: values by their paths, the last keys of these and of others, and whether there may be more.
type origin struct {
	paths, keys sets.Set[string]
	hidden      bool
}

// countsOf finds what counts in the templates of a chart and its subcharts. One that can't be parsed can't be rendered either.
func countsOf(c *chart.Chart) counts {
	found := counts{paths: sets.New[string](), lengths: sets.New[string](), lists: sets.New[string]()}
	trees := treesOf(c)
	dots := dotsOf(trees)
	for _, tree := range trees {
		found.add(tree, dots[tree.Name])
	}
	return found
}

// treesOf are the templates of a chart and its subcharts, and what they define.
func treesOf(c *chart.Chart) (all []*parse.Tree) {
	for _, file := range c.Templates {
		if trees, err := parsed(file.Name, string(file.Data)); err == nil && path.Base(file.Name) != "NOTES.txt" {
			all = slices.AppendSeq(all, maps.Values(trees))
		}
	}
	for _, subchart := range c.Dependencies() {
		all = append(all, treesOf(subchart)...)
	}
	return all
}

// variablesOf are the variables of a template, and all that they are made of.
func variablesOf(tree *parse.Tree) map[string][]parse.Node {
	variables := map[string][]parse.Node{}
	for _, pipe := range pipes(tree.Root) {
		for _, variable := range pipe.Decl {
			for _, command := range pipe.Cmds {
				variables[variable.Ident[0]] = append(variables[variable.Ident[0]], command)
			}
		}
	}
	return variables
}

// dotsOf tells what the dot of each definition stands for, by what it is included with: the last keys of values. It is nil where nobody can tell.
func dotsOf(trees []*parse.Tree) map[string]sets.Set[string] {
	dots := map[string]sets.Set[string]{}
	for _, tree := range trees {
		variables := variablesOf(tree)
		called := func(name string, with parse.Node) {
			keys, already := dots[name]
			if _, same := with.(*parse.DotNode); same || already && keys == nil {
				dots[name] = nil
				return
			}
			dots[name] = keys.Union(originOf(variables, with).keys)
		}
		walk(tree.Root, func(node parse.Node) {
			switch n := node.(type) {
			case *parse.TemplateNode:
				if n.Pipe != nil {
					called(n.Name, alone(n.Pipe))
				}
			case *parse.PipeNode:
				for i, command := range n.Cmds {
					if name, ok := included(command); ok && len(command.Args) > 2 {
						called(name, command.Args[2])
					} else if ok && i > 0 {
						called(name, alone(&parse.PipeNode{Cmds: n.Cmds[:i]}))
					}
				}
			}
		})
	}
	return dots
}

// included is the name of the template that a command includes.
func included(command *parse.CommandNode) (string, bool) {
	if function, ok := command.Args[0].(*parse.IdentifierNode); !ok || function.Ident != "include" || len(command.Args) < 2 {
		return "", false
	}
	name, ok := command.Args[1].(*parse.StringNode)
	if !ok {
		return "", false
	}
	return name.Text, true
}

// alone is what a pipeline is if it is nothing but one thing, and otherwise the pipeline.
func alone(pipe *parse.PipeNode) parse.Node {
	if len(pipe.Cmds) == 1 && len(pipe.Cmds[0].Args) == 1 {
		return pipe.Cmds[0].Args[0]
	}
	return pipe
}

func (c *counts) add(tree *parse.Tree, at sets.Set[string]) {
	variables := variablesOf(tree)
	for _, pipe := range pipes(tree.Root) {
		for i, command := range pipe.Cmds {
			function, ok := command.Args[0].(*parse.IdentifierNode)
			if !ok || counting[function.Ident] == 0 {
				continue
			}
			numbers := slices.Clone(command.Args[1:min(len(command.Args), 1+counting[function.Ident])])
			if len(numbers) < counting[function.Ident] {
				for _, piped := range pipe.Cmds[:i] {
					numbers = append(numbers, piped)
				}
			}
			from := originOf(variables, numbers...)
			if !looping.Has(function.Ident) {
				c.lengths = c.lengths.Union(from.keys)
				continue
			}
			c.paths, c.hidden = c.paths.Union(from.paths), c.hidden || from.hidden
		}
	}
	c.ranges(tree.Root, at, variables)
}

// ranges finds what is ranged over: what should be a list may be a number. at is what the dot stands for, the last keys of values, nil in another range, where nobody can tell.
func (c *counts) ranges(node parse.Node, at sets.Set[string], variables map[string][]parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil { // an else that is not there
			for _, each := range n.Nodes {
				c.ranges(each, at, variables)
			}
		}
	case *parse.IfNode:
		c.ranges(n.List, at, variables)
		c.ranges(n.ElseList, at, variables)
	case *parse.WithNode:
		c.ranges(n.List, originOf(variables, n.Pipe).keys, variables)
		c.ranges(n.ElseList, at, variables)
	case *parse.RangeNode:
		if _, same := alone(n.Pipe).(*parse.DotNode); same {
			c.lists, c.hidden = c.lists.Union(at), c.hidden || at == nil
		} else if !slices.ContainsFunc(words(n.Pipe), func(word string) bool { return counting[word] > 0 }) {
			c.lists = c.lists.Union(originOf(variables, n.Pipe).keys)
		}
		c.ranges(n.List, nil, variables)
		c.ranges(n.ElseList, at, variables)
	}
}

func originOf(variables map[string][]parse.Node, nodes ...parse.Node) origin {
	from := origin{paths: sets.New[string](), keys: sets.New[string]()}
	for _, node := range nodes {
		from.trace(node, "", variables, 0)
	}
	return from
}

// trace finds which values a part of a template takes; of what that is, fields are taken.
func (o *origin) trace(node parse.Node, fields string, variables map[string][]parse.Node, deep int) {
	const deepest = 8 // of variables that are made of variables, perhaps of themselves
	names := func(names []string) {
		at := slices.Index(names, "Values")
		path := strings.TrimPrefix(strings.Join(names[at+1:], ".")+fields, ".")
		key := path[strings.LastIndex(path, ".")+1:]
		switch {
		case path == "":
			o.hidden = true
		case at >= 0:
			o.paths.Insert(path)
			o.keys.Insert(key)
		case len(names) == 0 || !known.Has(names[0]):
			o.hidden = true
			o.keys.Insert(key)
		}
	}
	switch n := node.(type) {
	case *parse.NumberNode, *parse.StringNode, *parse.BoolNode, *parse.NilNode:
	case *parse.IdentifierNode:
		o.hidden = o.hidden || picking.Has(n.Ident)
	case *parse.FieldNode:
		names(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			names(n.Ident[1:])
			return
		}
		made, further := variables[n.Ident[0]], ""
		for _, field := range n.Ident[1:] {
			further += "." + field
		}
		o.hidden = o.hidden || len(made) == 0 || deep == deepest
		for _, each := range made {
			if deep < deepest {
				o.trace(each, further+fields, variables, deep+1)
			}
		}
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			o.trace(command, fields, variables, deep)
		}
	case *parse.CommandNode:
		function, ok := n.Args[0].(*parse.IdentifierNode)
		if ok && function.Ident == "len" {
			return // of what is there
		}
		for _, argument := range n.Args {
			if text, isText := argument.(*parse.StringNode); isText && ok && picking.Has(function.Ident) {
				o.keys.Insert(text.Text)
			}
			o.trace(argument, fields, variables, deep)
		}
	case *parse.ChainNode:
		o.trace(n.Node, "."+strings.Join(n.Field, ".")+fields, variables, deep)
	default:
		o.hidden = true
	}
}

// pipes are all pipelines in a part of a template, those in others among them.
func pipes(node parse.Node) (found []*parse.PipeNode) {
	walk(node, func(node parse.Node) {
		if pipe, ok := node.(*parse.PipeNode); ok {
			found = append(found, pipe)
		}
	})
	return found
}

// walk visits a part of a template and all that is in it.
func walk(node parse.Node, visit func(parse.Node)) {
	within := func(nodes ...parse.Node) {
		for _, node := range nodes {
			walk(node, visit)
		}
	}
	branch := func(b parse.BranchNode) { within(b.Pipe, b.List, b.ElseList) }
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil { // an else that is not there
			return
		}
		within(n.Nodes...)
	case *parse.PipeNode:
		if n == nil { // a template that is given nothing
			return
		}
		for _, command := range n.Cmds {
			within(command.Args...)
		}
	case *parse.IfNode:
		branch(n.BranchNode)
	case *parse.RangeNode:
		branch(n.BranchNode)
	case *parse.WithNode:
		branch(n.BranchNode)
	case *parse.ActionNode:
		within(n.Pipe)
	case *parse.TemplateNode:
		within(n.Pipe)
	case *parse.ChainNode:
		within(n.Node)
	}
	visit(node)
}

// checkCounts fails if numbers or lists in a spec have the chart make more of something than is good of the operator.
func (k *Kind) checkCounts(found counts, spec map[string]any) error {
	c := counted{counts: found, allowed: k.open(), product: 1}
	c.look(spec, "", "")
	if c.where == "" {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: %s is %.0f, or brings the elements of lists and maps to that, and the chart may make as many of something: without allow.values for it, the operator's watches.yaml allows authors %d, for all such numbers multiplied, and %d where it ranges over lists, or does not tell what it counts by",
		c.where, c.number, maxCounted, maxNumber)}
}

// open are the paths of values that may be anything.
func (k *Kind) open() sets.Set[string] {
	return sets.New(k.allow.Values...).Insert(slices.Collect(maps.Keys(k.overrides))...)
}

// counted are the numbers of a spec.
type counted struct {
	counts
	allowed sets.Set[string] // paths of values that may be anything
	product float64          // of those that count
	size    int              // of lists and maps, all together
	where   string           // the first that is too much, empty if none is
	number  float64
}

// look looks for them in a value, which has a key unless it is in a list.
func (c *counted) look(value any, path, key string) {
	if c.where != "" || c.allowed.Has(path) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		c.add(len(value), path)
		for _, key := range slices.Sorted(maps.Keys(value)) {
			c.look(value[key], below(path, key), key)
		}
	case []any:
		c.add(len(value), path)
		for _, element := range value {
			c.look(element, path, "")
		}
	default:
		c.judge(math.Abs(number(value)), path, key)
	}
}

func (c *counted) add(size int, path string) {
	if c.size += size; c.size > maxCounted {
		c.where, c.number = path, float64(c.size)
	}
}

func (c *counted) judge(number float64, path, key string) {
	counts := false
	for rest, more := path, true; more && !counts; _, rest, more = strings.Cut(rest, ".") { // as a subchart knows it
		counts = c.paths.Has(rest)
	}
	if counts {
		c.product *= max(number, 1)
	}
	if counts && c.product > maxCounted || c.lengths.Has(key) && number > maxCounted || (c.hidden || c.lists.Has(key)) && number > maxNumber && !math.IsInf(number, 0) { // for "infinity", some sleep
		c.where, c.number = path, number
	}
}

// number is what Helm's functions take a value for: a text may say it, too.
func number(value any) float64 {
	text := strings.TrimSpace(fmt.Sprint(value))
	if whole, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(whole)
	}
	part, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0
	case math.IsNaN(part): // which becomes the least of whole numbers
		return math.Inf(1)
	}
	return part
}

// Package infer finds out from a chart that nobody wrote for this operator what it makes (Made), and what the
// authors of custom resources may set of it (Trial.Fields). It renders the chart over and over, each time with
// another value changed, and looks where that gets to, whether it arrives as it was written, and whether anything
// that it reaches makes its author more powerful.
//
// Its files:
//
//   - trial.go, subcharts.go, scenarios.go, rendering.go, made.go: a Trial renders the chart, in some Scenarios
//   - infer.go goes through the values, together.go tries several at once
//   - outcome.go is what a value does; places.go and reach.go say what it has reached
//   - questions.go is what people are told of a chart
package infer

import (
	"cmp"
	"encoding/base64"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// inference finds out what the authors of custom resources may set of a chart, by trying each value: where it
// gets to, and whether it is still the text that they wrote.
type inference struct {
	*Trial
	scenarios []Scenario
	// before is what each scenario is without a trial, and says then.
	before []rendering
	facts  []facts
	// last is the path that was tried last, and tried what the scenarios became with each value there. Both
	// are only good for as long as alone stays as it is.
	last  []string
	tried map[string][]rendering
	// together are those that were tried together last.
	together lastTogether
	// nodeByDefault is whether pods of the chart use the node, whatever an author says.
	nodeByDefault bool
	docs          docs
	allowed       []string
	left          []LeftOut
	made          []Made
	said          map[string]bool // by what is made
	// count is how many values there are, and begun how many of them were tried.
	count, begun int
	// texts, names and numbers are the fields found so far that are tried with several values. Names are
	// texts that objects are called by.
	texts, names, numbers []setting
	// others are the numbers, lists and maps among the fields found so far, of which each is only tried with its mark.
	others []setting
	// turns are the values that authors may give to the fields found so far that decide what templates write:
	// true and false to options, and to texts those that templates compare them with.
	turns []turn
	// alone is set while a value is tried that was not seen in any other scenario: only then are those tried,
	// too, that are partly.
	alone bool
}

// turn is a value for a path, which may make templates write something else.
type turn struct {
	path  []string
	value any
}

// LeftOut is a value that is no field of the kind.
type LeftOut struct {
	Path, Why string
	// Powerful is whether it reaches what its author must not have a say in.
	Powerful bool
}

// Fields are those of a kind: what its authors may set of the values of the chart. left are the values that
// they can't, unless they are allowed. all are made, which Kinds found, and what only fields turn on.
func (t *Trial) Fields(scenarios []Scenario, values map[string]any, allowed []string, made []Made) (fields *apiextensionsv1.JSONSchemaProps, left []LeftOut, all []Made) {
	i := newInference(t, scenarios, allowed)
	i.count, i.made = len(leaves(values, nil)), made
	for _, m := range made {
		for _, v := range m.Objects {
			i.said[i.says(v.Rendered)] = true
		}
	}
	fields = i.schema(nil, values)
	return fields, i.left, i.made
}

// newInference renders the scenarios without any trial, twice: what differs between the two is left to chance.
func newInference(t *Trial, scenarios []Scenario, allowed []string) *inference {
	i := &inference{Trial: t, scenarios: scenarios, allowed: allowed, docs: docsOf(t.named()), said: map[string]bool{}}
	i.before = t.renderAll(scenarios)
	for n, again := range t.renderAll(scenarios) {
		i.facts = append(i.facts, factsOf(i.before[n].objects, again.objects))
	}
	i.nodeByDefault = len(scenarios) > 0 && useNode(i.before[0].objects)
	return i
}

// schema returns the schema of a value, or nil if authors can't set it. A value that no scenario shows is
// tried again in those that are partly, too. Not every value is: that would take several times as long.
func (i *inference) schema(path []string, value any) *apiextensionsv1.JSONSchemaProps {
	before := len(i.left)
	schema := i.schemaIn(path, value)
	if schema == nil && len(i.left) == before+1 && i.left[before].Path == dotted(path) && i.left[before].Why == unseen && !i.alone {
		i.left, i.last, i.alone = i.left[:before], nil, true
		schema = i.schemaIn(path, value)
		i.last, i.alone = nil, false
	}
	return schema
}

func (i *inference) schemaIn(path []string, value any) *apiextensionsv1.JSONSchemaProps {
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 || len(path) == 0 {
			return i.object(path, value)
		}
		return i.unknown(path, "object")
	case []any:
		if len(value) > 0 {
			return i.list(path, value)
		}
		return i.unknown(path, "array")
	case nil:
		return i.unknown(path, "")
	case bool:
		judged := i.judge(path, i.boolean(path), i.described(path, "boolean"))
		if judged != nil {
			i.turns = append(i.turns, turn{path, true}, turn{path, false})
		}
		return judged
	case string:
		if strings.HasPrefix(strings.TrimSpace(value), "#!") && !i.isAllowed(path) { // wherever somebody runs it
			i.leave(path, "reaches a command", true)
			return nil
		}
		return i.text(path, path, func(text string) any { return text }, i.described(path, "string"))
	default:
		return i.number(path, value)
	}
}

const unseen = "nothing that was rendered has it: nobody can tell what it reaches, but with a pin or a sample that turns it on"

const noBound = "a template writes what it has into a text: no bound can be given for that"

// judge returns schema if authors may set what does that, and says otherwise why not.
func (i *inference) judge(path []string, o outcome, schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	why := ""
	switch {
	case i.isAllowed(path):
	case o.reached != "":
		why = "reaches " + o.reached
	case !o.accepted:
		why = "the chart can't be rendered with another one: nobody can tell what it reaches"
	case !o.seen:
		why = unseen
	}
	if why != "" {
		i.leave(path, why, o.reached != "")
		return nil
	}
	i.note(path)
	return &schema
}

func (i *inference) leave(path []string, why string, powerful bool) {
	i.left = append(i.left, LeftOut{dotted(path), why, powerful})
}

// mark notes a field that is no text, and what it is tried with: something that has a mark in it.
func (i *inference) mark(path []string, marked any) {
	if !i.isAllowed(path) {
		i.others = append(i.others, setting{path: path, at: path, of: func(any) any { return marked }})
	}
}

// isAllowed is whether allow.values of the entry lists a value, or one that it is a part of.
func (i *inference) isAllowed(path []string) bool {
	return slices.ContainsFunc(i.allowed, func(allowed string) bool {
		return strings.HasPrefix(dotted(path)+".", allowed+".") || strings.HasPrefix(dotted(path), allowed+"[]")
	})
}

// isPinned is whether the entry pins a value, or with * as the last element, one in it.
func (i *inference) isPinned(path []string) bool {
	var pinned any = i.pins
	for _, key := range path {
		fields, ok := pinned.(map[string]any)
		if key == "*" {
			return ok
		}
		if !ok {
			return false
		}
		if pinned, ok = fields[key]; !ok {
			return false
		}
	}
	_, inside := pinned.(map[string]any)
	return !inside
}

// text tries what an author may write at path: of says what that is with a text.
func (i *inference) text(path, at []string, of func(text string) any, schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	o := i.try(at, of(wild))
	if !o.accepted || !o.whole {
		plain := i.try(at, of(markText))
		plain.reached = cmp.Or(plain.reached, o.reached)
		o, schema.Pattern = plain, oneWord
		const two = markText + "," + markText
		if slices.ContainsFunc(i.try(at, of(two)).places, func(p place) bool { return strings.Contains(p.text, markText) && !strings.Contains(p.text, two) }) {
			schema.Pattern = oneEntry
		}
	}
	if schema.Pattern == "" && o.gets(inEnv) {
		schema.Pattern = noVariable // it might name one that has a Secret
	}
	switch inFile := o.gets(inSecretFile); {
	case schema.Pattern == oneEntry:
	case o.gets(inLines), o.gets(inShell), inFile && schema.Pattern != "":
		schema.Pattern = oneWord
	case inFile:
		schema.Pattern = oneLine
	}
	if schema.Pattern != "" && slices.ContainsFunc(o.places, takesBoth) {
		schema.Pattern = oneWordOrPercent
	}
	if i.runsText {
		o.reached = cmp.Or(i.try(at, of(template)).templated(), o.reached)
	}
	if o.gets(inText) { // which may be decoded on the way: one word can be anything then
		decoded := i.try(at, of(base64.StdEncoding.EncodeToString([]byte(wild))))
		o.reached = cmp.Or(o.reached, decoded.reached)
		if o.reached == "" && decoded.gets(isBounded) {
			o.reached = "a configuration file"
		}
	}
	alternatives := i.alternativesOf(path, nil)
	if len(alternatives) > 0 {
		for _, text := range append([]any{markText}, alternatives...) {
			o.reached = cmp.Or(o.reached, i.power(i.renderedWith(at, of(text.(string)))))
		}
	}
	if len(schema.Enum) > 0 || i.isAllowed(path) { // who lists it in watches.yaml trusts its authors with lines of a configuration, too
		schema.Pattern = ""
	}
	judged := i.judge(path, o, schema)
	byDefault, _, _ := unstructured.NestedStringSlice(i.scenarios[0].values, at...)
	if text, isText, _ := unstructured.NestedString(i.scenarios[0].values, at...); isText {
		byDefault = []string{text}
	}
	for _, text := range byDefault {
		if judged == nil || schema.Pattern == "" || (setting{schema: schema}).takes(text) {
			continue
		}
		if strings.Contains(text, "\n") {
			i.leave(path, noBound, false) // a word in its place is of no use
			return nil
		}
		judged.Pattern += "|^" + regexp.QuoteMeta(text) + "$" // to write it out says nothing new
	}
	if judged != nil && !i.isAllowed(path) {
		settings := &i.texts
		if o.gets(isName) {
			settings = &i.names
		}
		s := setting{path, at, func(text any) any { return of(text.(string)) }, schema}
		*settings = append(*settings, s)
		for _, text := range alternatives {
			if s.takes(text) {
				i.turns = append(i.turns, turn{at, s.of(text)})
			}
		}
	}
	return judged
}

// number is more than an integer where values.schema.json says so, or a field of Kubernetes takes more.
func (i *inference) number(path []string, value any) *apiextensionsv1.JSONSchemaProps {
	o := i.tryNumber(path)
	said := i.docs.types(path)
	n, isFloat := value.(float64)
	fraction := isFloat && n != math.Trunc(n)
	kind := "integer"
	if fraction || slices.Contains(said, "number") && !slices.Contains(said, "string") {
		kind = "number"
	}
	schema := i.described(path, kind)
	if !fraction && i.mayBeText(path, o, said) { // in a CRD, what may be a text is no fraction
		schema.Type, schema.XIntOrString, schema.Pattern = "", true, oneWordOrPercent
	}
	judged := i.judge(path, o, schema)
	if judged != nil && !i.isAllowed(path) {
		i.numbers = append(i.numbers, setting{path: path, at: path, of: func(number any) any { return number }, schema: schema})
		if !i.loops { // of which there may be as many
			i.mark(path, float64(markNumber))
		}
	}
	return judged
}

// tryNumber tries a number that is in no chart. A chart that makes as many objects would take too long to render:
// then it tries few, and what one more makes of that, since few may be in other texts, too.
func (i *inference) tryNumber(path []string) outcome {
	var small []Scenario
	many := false
	for n, s := range i.scenarios {
		s, there := s.with(path, float64(few))
		if !i.loops || !there {
			continue
		}
		s.why = "another " + dotted(path)
		if objects, err := i.render(s, true); err == nil {
			small = append(small, s)
			many = many || len(objects) > len(i.before[n].objects)+few/2
		}
	}
	if many {
		return i.try(path, float64(few)).and(newInference(i.Trial, small, i.allowed).try(path, float64(few+1)))
	}
	return i.try(path, float64(markNumber))
}

// mayBeText is whether a number may be a text as well. The chart has to be rendered with a text, which must
// reach nothing more. And values.schema.json has to say so, or to say nothing where all that the number gets
// to takes both.
func (i *inference) mayBeText(path []string, o outcome, said []string) bool {
	says := slices.Contains(said, "string")
	onlyNumber := func(p place) bool { return p.noText && !takesBoth(p) }
	if !says && (len(said) > 0 || slices.ContainsFunc(slices.Concat(o.places, o.changed), onlyNumber)) {
		return false
	}
	text := i.try(path, markText)
	return text.accepted && text.reached == "" && (says || slices.ContainsFunc(text.places, takesBoth))
}

// boolean looks at what true and false make different, too.
func (i *inference) boolean(path []string) outcome {
	o := i.turn(path, markText)
	for _, value := range []bool{true, false} {
		turned := i.turn(path, value)
		o = o.and(turned)
		o.reached = cmp.Or(o.reached, i.power(turned.renderings))
	}
	return o
}

// object has a schema of each field. It has others, too, where the chart hands on what it does not know.
func (i *inference) object(path []string, value map[string]any) *apiextensionsv1.JSONSchemaProps {
	schema := i.described(path, "object")
	schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	leftBefore := len(i.left)
	for _, key := range slices.Sorted(maps.Keys(value)) {
		below := append(slices.Clone(path), key)
		if i.isPinned(below) {
			continue
		}
		if fields, isMap := value[key].(map[string]any); (!isMap || len(fields) == 0) && !slices.Contains(below, "[]") {
			i.begun++
			i.progress.begin("last of 3 steps, who may set what, value %d of %d, %s", i.begun, i.count, dotted(below))
		}
		if property := i.schema(below, value[key]); property != nil {
			hasDefault := !IsEmpty(value[key]) && !slices.Contains(below, "[]")
			if hasDefault && property.Properties == nil {
				property.Default = &apiextensionsv1.JSON{Raw: []byte(Compact(value[key]))}
			}
			// Null takes a default out, and what that does is not tried. An enum would have to have it.
			property.Nullable = hasDefault && i.isAllowed(below) && len(property.Enum) == 0
			schema.Properties[key] = *property
		}
	}
	if len(path) == 0 {
		for n := range i.scenarios {
			i.progress.begin("last of 3 steps, several values at once, in scenario %d of %d", n+1, len(i.scenarios))
			i.eachName(n, &schema)
			i.allTogether(n, &i.texts, i.special(), &schema)
			i.allTogether(n, &i.numbers, i.limits, &schema)
		}
		i.allTurned(&schema)
		return &schema
	}
	if len(i.left) == leftBefore && !i.isPinned(append(slices.Clone(path), "*")) {
		all := i.more(wildKey, wild)
		maps.Copy(all, value)
		more := i.try(path, all)
		if handsOn := slices.ContainsFunc(more.places, isOpen); handsOn && more.whole && more.reached == "" && !more.gets(isBounded) || i.isAllowed(path) {
			i.open(&schema, more.places)
			marked := map[string]any{markKey: markText}
			maps.Copy(marked, value)
			i.mark(path, marked)
		}
	}
	if len(schema.Properties) == 0 && schema.AdditionalProperties == nil {
		return nil
	}
	return &schema
}

// more is a map with a value in every field that a template might look for, and in one that none does.
func (i *inference) more(key string, value any) map[string]any {
	all := map[string]any{key: value}
	for _, word := range i.words {
		all[word] = value
	}
	return all
}

// list has the schema of its elements.
func (i *inference) list(path []string, value []any) *apiextensionsv1.JSONSchemaProps {
	schema := i.described(path, "array")
	elements := append(slices.Clone(path), "[]")
	all := map[string]any{}
	for _, element := range value {
		if fields, ok := element.(map[string]any); ok {
			all = united(all, fields)
		}
	}
	var items *apiextensionsv1.JSONSchemaProps
	switch value[0].(type) {
	case map[string]any:
		items = i.object(elements, all)
	case string:
		return i.listOfTexts(path, schema)
	default:
		items = i.schema(elements, value[0])
	}
	if items == nil {
		return nil
	}
	items.Description = ""
	schema.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}
	if hasRules(items) { // which the API server reckons with as many elements as there may be: too much without a bound
		schema.MaxItems = new(int64(64))
	}
	return &schema
}

// listOfTexts has the schema of a text, which is tried as all of the list: that may be empty in a scenario.
func (i *inference) listOfTexts(path []string, schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	items := i.text(path, path, func(text string) any { return []any{text} }, apiextensionsv1.JSONSchemaProps{Type: "string"})
	if items != nil && !i.isAllowed(path) { // the first may have another place than others
		if two := i.try(path, []any{markText, markText}); two.reached != "" {
			items = i.judge(path, two, *items)
		}
	}
	if items == nil {
		return nil
	}
	schema.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}
	return &schema
}

// unknown is a value without a default that says what it may be. What the chart takes is tried.
func (i *inference) unknown(path []string, kind string) *apiextensionsv1.JSONSchemaProps {
	schema := i.described(path, kind)
	var text, fields outcome
	of := func(value any) any {
		if kind == "array" {
			return []any{value}
		}
		return value
	}
	if kind != "object" {
		text = i.try(path, of(wild))
	}
	fields = i.try(path, of(i.more(wildKey, wild)))
	if !fields.accepted { // it is written without quotes somewhere
		fields = i.try(path, of(i.more(markKey, markText)))
		fields.whole = false
	}
	if !fields.accepted { // a field of a field is asked for
		fields = i.try(path, of(i.more(wildKey, map[string]any{wildKey: wild})))
	}
	if kind == "array" { // the first may have another place than others
		text.reached = cmp.Or(text.reached, i.try(path, []any{wild, wild}).reached)
		fields.reached = cmp.Or(fields.reached, i.try(path, []any{i.more(wildKey, wild), i.more(wildKey, wild)}).reached)
	}
	if i.runsText {
		fields.reached = cmp.Or(i.try(path, of(i.more(markKey, template))).templated(), fields.reached)
		text.reached = cmp.Or(i.try(path, of(template)).templated(), text.reached)
	}
	// Where it takes an option to have it, a rendering without has taken the others above, and says nothing.
	isWord := false
	if kind == "" {
		word := i.try(path, markText)
		isWord = len(word.places) > 0 && !slices.ContainsFunc(word.renderings, rendering.breaks)
	}
	if kind == "" && len(text.places)+len(fields.places) == 0 && !isWord {
		if number := i.tryNumber(path); len(number.places) > 0 {
			return i.number(path, nil)
		}
	}
	o, bounded := fields, fields.gets(isBounded) && !i.isAllowed(path)
	switch {
	case text.accepted && fields.accepted && !bounded:
		o = text.and(fields)
	case text.accepted && kind == "array":
		return i.listOfTexts(path, schema)
	case text.accepted, kind == "" && !fields.accepted:
		schema.Type = "string"
		return i.text(path, path, func(text string) any { return text }, schema)
	}
	if o.accepted && o.seen && len(o.places) == 0 || kind == "object" && !fields.accepted {
		o.seen, o.accepted = false, fields.accepted
	}
	if o.accepted && !o.whole && o.reached == "" && !i.isAllowed(path) {
		if isWord {
			if number := i.tryNumber(path); number.reached != "" { // by a way that no word takes: it is reckoned with, say
				i.leave(path, "reaches "+number.reached, true)
				return nil
			}
			schema.XIntOrString = true
			judged := i.text(path, path, func(text string) any { return text }, schema)
			if judged != nil {
				i.numbers = append(i.numbers, setting{path: path, at: path, of: func(number any) any { return number }, schema: *judged})
			}
			return judged
		}
		i.leave(path, "a template writes what it has without quotes: it could be more than a value", false)
		return nil
	}
	if o.accepted && bounded && o.reached == "" {
		i.leave(path, noBound, false)
		return nil
	}
	if kind == "array" {
		items := apiextensionsv1.JSONSchemaProps{}
		anything(&items)
		schema.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		schema.Description += " Nobody knows what the entries may be: the chart hands them on."
	} else {
		i.open(&schema, o.places)
	}
	judged := i.judge(path, o, schema)
	if judged != nil {
		i.mark(path, of(map[string]any{markKey: markText}))
	}
	return judged
}

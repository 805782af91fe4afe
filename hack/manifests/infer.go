package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/release"
)

// inference finds out what the authors of custom resources may set of a chart, by trying each value: where it gets to, and whether it
// is still the text that they wrote.
type inference struct {
	*trial
	scenarios []scenario
	// before is what each scenario is without a trial, and says then.
	before []rendering
	facts  []facts
	// nodeByDefault is whether pods of the chart use the node, whatever an author says.
	nodeByDefault bool
	docs          docs
	allowed       []string
	left          []leftOut
	// texts and numbers are those that are fields so far.
	texts, numbers []setting
}

// setting is a value that authors may set.
type setting struct {
	path, at []string
	of       func(value any) any
	schema   apiextensionsv1.JSONSchemaProps
}

// leftOut is a value that is no field of the kind.
type leftOut struct {
	path, why string
	// powerful is whether it reaches what its author must not have a say in.
	powerful bool
}

// wild is a text that is only left whole where a template quotes it. Everywhere else it could be more than a text.
const wild = markText + "'\"\n}: #x"

// wildKey is the like for the name of a field.
const wildKey = markKey + "'\"\n}: #x"

// oneWord is a text that is one wherever a template writes it.
const oneWord = `^([A-Za-z0-9/.]([-A-Za-z0-9._/:@+=,~]*[A-Za-z0-9/])?)?$`

// oneWordOrPercent is the like for a field of Kubernetes that takes 25%, too.
const oneWordOrPercent = `^([A-Za-z0-9/.]([-A-Za-z0-9._/:@+=,~]*[A-Za-z0-9/%])?)?$`

// noVariable is a text in which Kubernetes finds no $(NAME) to expand, whatever a template writes around it.
const noVariable = `^([^$]|\$+[^$(])*$`

// oneLine is a text of one.
const oneLine = `^[^\r\n]*$`

// evaluated is what is left of a text that is run as a template.
const evaluated, template = markText + "eval", `{{ print "` + markText + `" "eval" }}`

// encoded is in base64 what is only left whole where a template quotes it, and decodedText what that reaches elsewhere. It is one word.
var encoded = base64.StdEncoding.EncodeToString([]byte(wild + "x"))

const decodedText = "more than a text, decoded"

// newInference tries the chart of an entry as it comes, with each sample, and with all options on.
func newInference(t *trial, scenarios []scenario, allowed []string) *inference {
	i := &inference{trial: t, scenarios: scenarios, allowed: allowed, docs: docsOf(t.chart)}
	i.before = t.renderAll(scenarios)
	for n, again := range t.renderAll(scenarios) {
		i.facts = append(i.facts, factsOf(i.before[n].objects, again.objects))
	}
	i.nodeByDefault = len(scenarios) > 0 && useNode(i.before[0].objects)
	return i
}

// schema of a value, nil if authors can't set it.
func (i *inference) schema(path []string, value any) *apiextensionsv1.JSONSchemaProps {
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
		return i.judge(path, i.boolean(path), i.described(path, "boolean"))
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

// outcome is what a value does.
type outcome struct {
	// accepted is whether the chart can be rendered with it.
	accepted bool
	// seen is whether that makes a difference.
	seen   bool
	places []place
	// changed is where something else is than before.
	changed []place
	reached string
	// whole is whether each text is as it was written.
	whole bool
	// renderings are what the scenarios become with it.
	renderings []rendering
}

func (o outcome) and(other outcome) outcome {
	return outcome{accepted: o.accepted || other.accepted, seen: o.seen || other.seen, places: append(o.places, other.places...), reached: cmp.Or(o.reached, other.reached), whole: o.whole && other.whole}
}

// gets is whether a value gets to a place of a kind, whole or not.
func (o outcome) gets(to func(place) bool) bool {
	return slices.ContainsFunc(o.places, to) || slices.ContainsFunc(o.changed, to)
}

// try gives a value to the chart in each scenario. What else it changes counts as what it reaches: a template may write a part of it.
func (i *inference) try(path []string, value any) outcome {
	o := i.turn(path, value)
	for _, p := range o.changed {
		o.reached = cmp.Or(o.reached, reaches(p))
	}
	return o
}

// turn gives a value to the chart in each scenario, of which only what it writes of it counts.
func (i *inference) turn(path []string, value any) outcome {
	o := outcome{whole: true, renderings: i.renderedWith(path, value)}
	for n, with := range o.renderings {
		if with.err != nil {
			o.whole = o.whole && with.err == errNoPath
			continue
		}
		o.accepted = true
		found := places(with.objects)
		changed, differs := i.facts[n].changed(with.objects)
		o.changed = append(o.changed, changed...)
		o.seen = o.seen || len(found) > 0 || differs
		for _, p := range found {
			o.reached = cmp.Or(o.reached, reaches(p))
		}
		o.places = append(o.places, found...)
		for _, p := range found {
			if strings.Contains(p.text, evaluated) {
				o.reached = "a template (tpl)"
			}
			if strings.Contains(p.text, markText) && !strings.Contains(p.text, wild) || strings.Contains(p.text, markKey) && !strings.Contains(p.text, wildKey) {
				o.whole = false
			}
		}
	}
	return o
}

// renderedWith is what the scenarios become with a value.
func (i *inference) renderedWith(path []string, value any) []rendering {
	all := make([]scenario, len(i.scenarios))
	var same []int // those that have it
	for n, s := range i.scenarios {
		other, there := s.with(path, value)
		if there && reflect.DeepEqual(other.values, s.values) {
			same = append(same, n)
		} else if there {
			all[n], all[n].why = other, "another "+dotted(path)
		}
	}
	renderings := i.renderAll(all)
	for _, n := range same {
		renderings[n] = i.before[n]
	}
	return renderings
}

// put sets what is at a path, in which [] stands for every element of a list. It reports whether there is such a place.
func put(in any, path []string, value any) bool {
	switch in := in.(type) {
	case map[string]any:
		if len(path) == 1 {
			in[path[0]] = runtime.DeepCopyJSONValue(value)
			return true
		}
		return put(in[path[0]], path[1:], value)
	case []any:
		found := false
		for n := range in {
			if len(path) == 1 {
				in[n], found = runtime.DeepCopyJSONValue(value), true
			} else if put(in[n], path[1:], value) {
				found = true
			}
		}
		return found
	}
	return false
}

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
		why = "nothing that was rendered has it: nobody can tell what it reaches"
	}
	if why != "" {
		i.leave(path, why, o.reached != "")
		return nil
	}
	return &schema
}

func (i *inference) leave(path []string, why string, powerful bool) {
	i.left = append(i.left, leftOut{dotted(path), why, powerful})
}

// dotted is a path as people write it: ingress.hosts[].host. A dot within a key is escaped, as in overrideValues.
func dotted(path []string) string {
	escaped := make([]string, len(path))
	for i, key := range path {
		escaped[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.ReplaceAll(strings.Join(escaped, "."), ".[]", "[]")
}

// isAllowed is whether the entry lists a value, or one that it is a part of.
func (i *inference) isAllowed(path []string) bool {
	return slices.ContainsFunc(i.allowed, func(allowed string) bool {
		return strings.HasPrefix(dotted(path)+".", allowed+".") || strings.HasPrefix(dotted(path), allowed+"[]")
	})
}

// text tries what an author may write at path: of says what that is with a text.
func (i *inference) text(path, at []string, of func(text string) any, schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	o := i.try(at, of(wild))
	if !o.accepted || !o.whole {
		plain := i.try(at, of(markText))
		plain.reached = cmp.Or(plain.reached, o.reached)
		o, schema.Pattern = plain, oneWord
	}
	if schema.Pattern == "" && o.gets(inEnv) {
		schema.Pattern = noVariable // it might name one that has a Secret
	}
	switch inFile := o.gets(inSecretFile); {
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
	if texts := i.alternatives[path[len(path)-1]]; len(texts) > 0 {
		for _, text := range append([]any{markText}, texts...) {
			o.reached = cmp.Or(o.reached, i.power(i.renderedWith(at, of(text.(string)))))
		}
	}
	if len(schema.Enum) > 0 || i.isAllowed(path) { // who lists it in watches.yaml trusts its authors with lines of a configuration, too
		schema.Pattern = ""
	}
	judged := i.judge(path, o, schema)
	if judged != nil && !i.isAllowed(path) && !o.gets(isName) {
		i.texts = append(i.texts, setting{path, at, func(text any) any { return of(text.(string)) }, schema})
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
	}
	return judged
}

// tryNumber tries one that is in no chart. If the chart makes that many objects, to render them takes too long: what it does is what
// few makes different, and what one more does where there are as many, for it is in other texts, too.
func (i *inference) tryNumber(path []string) outcome {
	var small []scenario
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
		return i.try(path, float64(few)).and(newInference(i.trial, small, i.allowed).try(path, float64(few+1)))
	}
	return i.try(path, float64(markNumber))
}

// mayBeText is whether a number may be a text as well, with which the chart can be rendered, and which reaches nothing more: values.schema.json says so, or it
// says nothing, and all that the number gets to takes both.
func (i *inference) mayBeText(path []string, o outcome, said []string) bool {
	says := slices.Contains(said, "string")
	onlyNumber := func(p place) bool { return p.noText && !takesBoth(p) }
	if !says && (len(said) > 0 || slices.ContainsFunc(slices.Concat(o.places, o.changed), onlyNumber)) {
		return false
	}
	text := i.try(path, markText)
	return text.accepted && text.reached == "" && (says || slices.ContainsFunc(text.places, takesBoth))
}

func (o outcome) templated() string {
	if strings.HasPrefix(o.reached, "a template") {
		return o.reached
	}
	return ""
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

// power is what of the power of pods another value changes: a template may ask for it, and write what makes pods powerful.
func (i *inference) power(renderings []rendering) (reached string) {
	for n, with := range renderings {
		if with.err == nil {
			reached = cmp.Or(reached, i.gained(n, with.objects))
		}
	}
	return reached
}

// gained is what of the power of pods differs in a rendering from that of a scenario.
func (i *inference) gained(n int, objects []rendered) string {
	before := i.before[n].objects
	reached := changedPower(before, objects)
	if reached == "" && useNode(objects) && !useNode(before) && !i.nodeByDefault {
		reached = "the node"
	}
	return reached
}

// reachedBy is what some settings with the same value reach together in a scenario.
func (i *inference) reachedBy(n int, all []setting, value any) (reached string, err error) {
	s, changes := i.scenarios[n], false
	for _, each := range all {
		if !each.takes(value) {
			continue
		}
		if other, there := s.with(each.at, each.of(value)); there {
			s, changes = other, true
		}
	}
	if !changes {
		return "", nil
	}
	s.why = fmt.Sprintf("several values that are %.40v", value)
	objects, err := i.render(s, true)
	switch {
	case err != nil && value == encoded:
		return decodedText, nil
	case err != nil:
		return "", err
	}
	reached = i.gained(n, objects)
	for _, p := range places(objects) {
		reached = cmp.Or(reached, reaches(p))
		if value == encoded && (isBounded(p) || !strings.Contains(p.text, wild)) {
			reached = cmp.Or(reached, decodedText)
		}
	}
	return reached, nil
}

// takes is whether authors may write a value there.
func (s setting) takes(value any) bool {
	if text, ok := value.(string); ok && s.schema.Pattern != "" && !regexp.MustCompile(s.schema.Pattern).MatchString(text) {
		return false
	}
	return len(s.schema.Enum) == 0 || slices.ContainsFunc(s.schema.Enum, func(raw apiextensionsv1.JSON) bool { return string(raw.Raw) == compact(value) })
}

// useNode is whether pods in a rendering do.
func useNode(objects []rendered) bool {
	return slices.ContainsFunc(objects, func(r rendered) bool { return slices.Contains(obj.PodWords(r.object), obj.PodHost) })
}

// changedPower is what of the power of pods differs between two renderings, in the objects that both have.
func changedPower(before, after []rendered) string {
	type set = map[string]bool
	powers := func(objects []rendered) map[string]map[string]set {
		all := map[string]map[string]set{}
		for _, r := range objects {
			fields := map[string]set{"a service account": {}, "a security context": {}, "the node": {}}
			for _, l := range r.leaves {
				for _, field := range l.path {
					if said := fields[powerful[field]]; said != nil {
						said[fmt.Sprint(l.path, l.text)] = true
					}
				}
			}
			all[r.object.GetKind()+" "+r.object.GetName()] = fields
		}
		return all
	}
	now := powers(after)
	for object, fields := range powers(before) {
		for _, what := range slices.Sorted(maps.Keys(fields)) {
			if changed, ok := now[object]; ok && !maps.Equal(fields[what], changed[what]) {
				return what
			}
		}
	}
	return ""
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
		if property := i.schema(below, value[key]); property != nil {
			if property.Properties == nil && !isEmpty(value[key]) && !slices.Contains(below, "[]") {
				property.Default = &apiextensionsv1.JSON{Raw: []byte(compact(value[key]))}
			}
			schema.Properties[key] = *property
		}
	}
	if len(path) == 0 {
		for n := range i.scenarios {
			i.texts = i.together(n, i.texts, i.special(), &schema)
			i.numbers = i.together(n, i.numbers, i.limits, &schema)
		}
		return &schema
	}
	if len(i.left) == leftBefore && !i.isPinned(append(slices.Clone(path), "*")) {
		all := i.more(wildKey, wild)
		maps.Copy(all, value)
		more := i.try(path, all)
		if handsOn := slices.ContainsFunc(more.places, isOpen); handsOn && more.whole && more.reached == "" && !more.gets(isBounded) || i.isAllowed(path) {
			i.open(&schema, more.places)
		}
	}
	if len(schema.Properties) == 0 && schema.AdditionalProperties == nil {
		return nil
	}
	return &schema
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
			maps.Copy(all, fields)
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
		schema.MaxItems = ptr.To[int64](64)
	}
	return &schema
}

// hasRules is whether a schema, or one in it, has rules in CEL.
func hasRules(schema *apiextensionsv1.JSONSchemaProps) bool {
	return len(schema.XValidations) > 0 || schema.Items != nil && hasRules(schema.Items.Schema) ||
		slices.ContainsFunc(slices.Collect(maps.Values(schema.Properties)), func(property apiextensionsv1.JSONSchemaProps) bool { return hasRules(&property) })
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
	o, bounded := fields, fields.gets(isBounded) && !i.isAllowed(path)
	switch {
	case text.accepted && fields.accepted && !bounded:
		o = text.and(fields)
	case text.accepted && kind == "array":
		return i.listOfTexts(path, schema)
	case text.accepted:
		schema.Type = "string"
		return i.text(path, path, func(text string) any { return text }, schema)
	}
	if o.accepted && o.seen && len(o.places) == 0 || kind == "object" && !fields.accepted {
		o.seen, o.accepted = false, fields.accepted
	}
	if o.accepted && !o.whole && o.reached == "" && !i.isAllowed(path) {
		i.leave(path, "a template writes what it has without quotes: it could be more than a value", false)
		return nil
	}
	if o.accepted && bounded && o.reached == "" {
		i.leave(path, "a template writes what it has into a text: no bound can be given for that", false)
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
	return i.judge(path, o, schema)
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

// special are texts with which templates may do more than write them.
func (i *inference) special() (texts []any) {
	if i.decodesText {
		texts = append(texts, encoded)
	}
	if i.parsesText {
		texts = append(texts, compact(i.more(markKey, markText)))
	}
	return append(texts, i.compared...)
}

// together leaves out those settings that are powerful with one of some values that templates compare something with, or only where others have it, too. All are tried at once: what a
// template compares, by a variable or a map, nobody reads. It returns those that are left.
func (i *inference) together(n int, all []setting, values []any, schema *apiextensionsv1.JSONSchemaProps) []setting {
	var alone []setting // those with which the chart can't be rendered with one of the values
	for _, value := range values {
		for again := true; again; { // what breaks it, or is powerful, hides what others do together
			powerful, broken := i.powerfulOf(n, all, value)
			again = len(powerful)+len(broken) > 0
			for _, s := range alone {
				more, _ := i.powerfulOf(n, []setting{s}, value)
				powerful = append(powerful, more...)
			}
			reached, _ := i.reachedBy(n, powerful, value)
			for _, s := range powerful {
				itself, _ := i.reachedBy(n, []setting{s}, value)
				before, _, _ := strings.Cut(dotted(s.path), "[]")
				remove(schema, release.PathOf(before), true)
				i.leave(s.path, "reaches "+cmp.Or(itself, reached), true)
			}
			all, alone = except(all, slices.Concat(powerful, broken)), append(except(alone, powerful), broken...)
		}
	}
	return append(all, alone...)
}

// except are those settings that are not among some others.
func except(all, others []setting) []setting {
	return slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
		return slices.ContainsFunc(others, func(other setting) bool { return slices.Equal(s.path, other.path) })
	})
}

// powerfulOf are those of some settings that make their author more powerful with a value, and those with which the chart can't be rendered.
func (i *inference) powerfulOf(n int, all []setting, value any) (powerful, broken []setting) {
	if len(all) == 0 {
		return nil, nil
	}
	reached, err := i.reachedBy(n, all, value)
	switch {
	case err == nil && reached == "":
		return nil, nil
	case len(all) == 1 && err != nil:
		return nil, all
	case len(all) == 1:
		return all, nil
	}
	for _, half := range [][]setting{all[:len(all)/2], all[len(all)/2:]} {
		more, fail := i.powerfulOf(n, half, value)
		powerful, broken = append(powerful, more...), append(broken, fail...)
	}
	if len(powerful) > 0 || err != nil {
		return powerful, broken
	}
	powerful = all // together only
	for _, s := range all {
		others := except(powerful, []setting{s})
		if reached, err := i.reachedBy(n, others, value); err == nil && reached != "" {
			powerful = others
		}
	}
	return powerful, broken
}

func isOpen(p place) bool { return p.open }

// isBounded is whether what an author writes gets to a text where not all may be: no schema says that of what it does not know.
func isBounded(p place) bool {
	return (inEnv(p) || inLines(p) || inShell(p) || inSecretFile(p)) && strings.Contains(strings.ToLower(p.text), markText)
}

// open lets an author choose the fields of an object, as far as the places that these get to do.
func (i *inference) open(schema *apiextensionsv1.JSONSchemaProps, places []place) {
	ofTexts, ofPods := schema.Type == "object", false
	for _, p := range places {
		if !p.open {
			continue
		}
		parent := p.path[max(len(p.path)-2, 0)]
		ofTexts = ofTexts && slices.Contains([]string{"labels", "annotations", "nodeSelector", "matchLabels"}, parent)
		template, ok := obj.PodsOf[p.object.GetKind()]
		ofPods = ofPods || ok && parent == "labels" && hasPrefix(p.path, template)
	}
	if !ofTexts || !slices.ContainsFunc(places, isOpen) {
		anything(schema)
		return
	}
	schema.Properties = nil
	schema.MaxProperties = ptr.To[int64](64)
	schema.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}
	if ofPods {
		schema.XValidations = apiextensionsv1.ValidationRules{{
			Rule:    "self.all(k, k.matches(r'^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",
			Message: "write keys without a prefix, like team: labels of pods with a prefix (example.com/key) are for controllers that may change what a pod can do",
		}}
	}
}

// anything lets fields be there that the schema does not know.
func anything(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XPreserveUnknownFields = ptr.To(true)
	if schema.Description != "" {
		schema.Description += " Nobody knows all that it may have: the chart hands it on."
	}
}

// described has what values.yaml and values.schema.json say of a value.
func (i *inference) described(path []string, kind string) apiextensionsv1.JSONSchemaProps {
	schema := apiextensionsv1.JSONSchemaProps{Type: kind, Description: i.docs.comment(path)}
	said := i.docs.schema(path)
	if text, _ := said["description"].(string); schema.Description == "" {
		schema.Description = sentence(text)
	}
	if len(path) == 0 {
		schema.Description = fmt.Sprintf("The values of chart %s.", i.chart.Name())
	} else if schema.Description == "" {
		schema.Description = fmt.Sprintf("Value %s of chart %s.", dotted(path), i.chart.Name())
	}
	if kind == "integer" || kind == "number" {
		for word, bound := range map[string]**float64{"minimum": &schema.Minimum, "maximum": &schema.Maximum} {
			if n, ok := said[word].(float64); ok {
				*bound = &n
			}
		}
	}
	if values, _ := said["enum"].([]any); kind == "string" && len(values) > 0 {
		for _, value := range values {
			if _, ok := value.(string); !ok {
				return schema // null is one of them: it may be left out, too
			}
		}
		for _, value := range values {
			raw, _ := json.Marshal(value)
			schema.Enum = append(schema.Enum, apiextensionsv1.JSON{Raw: raw})
		}
	}
	return schema
}

var spaces = regexp.MustCompile(`\s+`)

// sentence is a text in one line that ends in a period.
func sentence(text string) string {
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

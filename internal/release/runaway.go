package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
)

// endless are the functions and actions of a template that can take as long and as much memory as its author likes. Helm bounds none of them: a text that is given to
// tpl, and calls tpl with itself, ends the process.
var endless = []string{
	"tpl", "range", "define", "until", "untilStep", "seq", "repeat", "derivePassword", "htpasswd", "bcrypt",
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
}

// checkTemplates fails if a spec has a template in it that the chart may run, by tpl, and that need not come to an end. The platform may say of a value that its
// authors are trusted with that.
func (k *Kind) checkTemplates(source chartSource, spec map[string]any) error {
	if !source.valuesAsk {
		return nil
	}
	path, word := runaway(spec, "", k.allow.Values)
	if word == "" {
		return nil
	}
	return notAllowed{fmt.Errorf("not allowed: the value %s is a template with %s, which the chart may run: without it in allow.values, the operator's watches.yaml allows authors no templates that may never end",
		path, word)}
}

// runaway is where in a value a text is that could take for ever as a template, and what of it could.
func runaway(value any, path string, allowed []string) (where, word string) {
	if slices.Contains(allowed, path) {
		return "", ""
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if where, word = runaway(value[key], strings.TrimPrefix(path+"."+key, "."), allowed); word != "" {
				return where, word
			}
			if word = endlessIn(key); word != "" {
				return path + "." + key, word
			}
		}
	case []any:
		for _, element := range value {
			if where, word = runaway(element, path, allowed); word != "" {
				return where, word
			}
		}
	case string:
		return path, endlessIn(value)
	}
	return "", ""
}

// endlessIn is what of a text could take for ever if it is run as a template, empty if nothing could. What can't be parsed is not run.
func endlessIn(text string) string {
	if !strings.Contains(text, "{{") {
		return ""
	}
	trees := map[string]*parse.Tree{}
	tree := parse.New("value")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return ""
	}
	if len(trees) > 1 {
		return "define"
	}
	for _, tree := range trees {
		for _, word := range words(tree.Root) {
			if slices.Contains(endless, word) {
				return word
			}
		}
	}
	return ""
}

package object

import (
	"slices"
	"strings"
)

// isChallenge is whether a path of an Ingress is cert-manager's, which adds one while it proves that it
// controls a host (acme.cert-manager.io/http01-edit-in-place).
func isChallenge(path any) bool {
	at, _ := field(path, "path").(string)
	service, _ := field(field(field(path, "backend"), "service"), "name").(string)
	return strings.HasPrefix(at, "/.well-known/acme-challenge/") && strings.HasPrefix(service, "cm-acme-http-solver-")
}

// withChallenges are the wanted rules of an Ingress, with the paths that cert-manager has added for their
// hosts.
func withChallenges(wanted, live []any) []any {
	rules := slices.Clone(wanted)
	for i, rule := range rules {
		at := slices.IndexFunc(live, func(other any) bool { return field(other, "host") == field(rule, "host") })
		if at < 0 {
			continue
		}
		challenges := slices.DeleteFunc(slices.Clone(list(field(field(live[at], "http"), "paths"))), func(path any) bool { return !isChallenge(path) })
		if len(challenges) > 0 {
			paths := slices.DeleteFunc(slices.Clone(list(field(field(rule, "http"), "paths"))), isChallenge)
			rules[i] = pointer{"http", "paths"}.set(rule, append(challenges, paths...), true)
		}
	}
	return rules
}

// withoutChallenges is the content of an object without cert-manager's paths.
func withoutChallenges(content map[string]any) map[string]any {
	rules, ok := field(content["spec"], "rules").([]any)
	if content["kind"] != "Ingress" || !ok {
		return content
	}
	rules = slices.Clone(rules)
	for i, rule := range rules {
		paths := list(field(field(rule, "http"), "paths"))
		others := slices.DeleteFunc(slices.Clone(paths), isChallenge)
		switch {
		case len(others) == len(paths):
		case len(others) == 0:
			rules[i] = pointer{"http"}.set(rule, nil, false)
		default:
			rules[i] = pointer{"http", "paths"}.set(rule, others, true)
		}
	}
	return pointer{"spec", "rules"}.set(content, rules, true).(map[string]any)
}

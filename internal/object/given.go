package object

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// givenIn are the lists of a ServiceAccount to which OpenShift appends Secrets that it makes for it, and appends further ones where these are gone.
var givenIn = []string{"imagePullSecrets", "secrets"}

// given is how these are named after that of the account.
var given = regexp.MustCompile(`^-(dockercfg|token)-[a-z0-9]{5}$`)

func isGiven(secret any, account string) bool {
	name, _ := field(secret, "name").(string)
	rest, is := strings.CutPrefix(name, account)
	return is && given.MatchString(rest)
}

// withGiven is the wanted content of a ServiceAccount, with these Secrets of the live one.
func withGiven(wanted, live map[string]any, account string) map[string]any {
	content := maps.Clone(wanted)
	for _, name := range givenIn {
		if all := list(content[name]); len(all) > 0 {
			content[name] = slices.Concat(all, slices.DeleteFunc(slices.Clone(list(live[name])), func(secret any) bool {
				return !isGiven(secret, account) || slices.ContainsFunc(all, func(other any) bool { return field(other, "name") == field(secret, "name") })
			}))
		}
	}
	return content
}

// withoutGiven is the content of an object without them.
func withoutGiven(content map[string]any, name string) map[string]any {
	if content["kind"] != "ServiceAccount" {
		return content
	}
	content = maps.Clone(content)
	for _, field := range givenIn {
		others := slices.DeleteFunc(slices.Clone(list(content[field])), func(secret any) bool { return isGiven(secret, name) })
		if delete(content, field); len(others) > 0 {
			content[field] = others
		}
	}
	return content
}

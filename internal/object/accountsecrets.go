package object

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// accountSecretLists are the lists of a ServiceAccount to which OpenShift appends Secrets that it creates for
// the account. It appends further ones whenever these are removed.
var accountSecretLists = []string{"imagePullSecrets", "secrets"}

// accountSecret matches the end of such a Secret's name, behind the name of the account.
var accountSecret = regexp.MustCompile(`^-(dockercfg|token)-[a-z0-9]{5}$`)

func isAccountSecret(secret any, account string) bool {
	name, _ := field(secret, "name").(string)
	rest, is := strings.CutPrefix(name, account)
	return is && accountSecret.MatchString(rest)
}

// withAccountSecrets is the wanted content of a ServiceAccount, with OpenShift's Secrets of the live one.
func withAccountSecrets(wanted, live map[string]any, account string) map[string]any {
	content := maps.Clone(wanted)
	for _, name := range accountSecretLists {
		if all := list(content[name]); len(all) > 0 {
			content[name] = slices.Concat(all, slices.DeleteFunc(slices.Clone(list(live[name])), func(secret any) bool {
				return !isAccountSecret(secret, account) || slices.ContainsFunc(all, func(other any) bool { return field(other, "name") == field(secret, "name") })
			}))
		}
	}
	return content
}

// withoutAccountSecrets is the content of an object without OpenShift's Secrets.
func withoutAccountSecrets(content map[string]any, name string) map[string]any {
	if content["kind"] != "ServiceAccount" {
		return content
	}
	content = maps.Clone(content)
	for _, field := range accountSecretLists {
		others := slices.DeleteFunc(slices.Clone(list(content[field])), func(secret any) bool { return isAccountSecret(secret, name) })
		if delete(content, field); len(others) > 0 {
			content[field] = others
		}
	}
	return content
}

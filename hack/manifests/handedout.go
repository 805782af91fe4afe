package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

// handedOut are the rules of those roles of a kind, Role or ClusterRole, that the operator may make: nobody
// may hand out rights that they have not. They are those of a custom resource that says nothing, for no
// other's are made; a rule for resources whose names follow from the release's is one for all names. Of what
// is too much for a chart to ask for, a comment tells instead.
func handedOut(kinds []kind, role string) (text string, err error) {
	for _, k := range kinds {
		handed, err := k.handedOut(role)
		if err != nil {
			return "", err
		}
		text += handed
	}
	return text, nil
}

func (k kind) handedOut(role string) (text string, err error) {
	mayBeMade := func(m infer.Made) bool {
		return m.Kind == role && obj.HandsOut(groupVersionKind(m).GroupKind()) && k.refusal(m) == ""
	}
	if !slices.ContainsFunc(k.api.kinds, mayBeMade) {
		return "", nil
	}
	objects, err := k.api.trial.ByDefault()
	if err != nil {
		return "", err
	}
	another, err := k.api.trial.As(infer.OtherRelease)
	if err != nil {
		return "", err
	}
	others, err := another.ByDefault()
	if err != nil {
		return "", err
	}
	for i, r := range objects {
		if !mayBeMade(infer.Made{APIVersion: r.Object.GetAPIVersion(), Kind: r.Object.GetKind(), Objects: []infer.Variant{{Rendered: r}}}) {
			continue
		}
		what := fmt.Sprintf("%s %s of each %s may", role, terminal.Line(r.Object.GetName()), k.entry.Kind)
		file := terminal.Line(path.Base(r.File))
		given, err := rulesOf(r)
		if err != nil {
			return "", fmt.Errorf("%s, by %s: %w", what, file, err)
		}
		if i < len(others) && others[i].File == r.File && others[i].Object.GetKind() == role {
			if of, err := rulesOf(others[i]); err == nil {
				given = underAnyName(given, of)
			}
		}
		refused := sets.New[string]()
		given = slices.DeleteFunc(given, func(rule rbacv1.PolicyRule) bool {
			why := k.tooMuch(rule)
			if why != "" {
				refused.Insert(why)
			}
			return why != ""
		})
		if len(given) > 0 {
			list, err := yaml.Marshal(given)
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("# Hand out what %s, by %s:\n%s", what, file, list)
		}
		for _, why := range sets.List(refused) {
			text += fmt.Sprintf("# No right to hand out what %s (by %s): %s\n", what, file, why)
		}
	}
	return text, nil
}

// rulesOf are the rules of a Role or a ClusterRole. One that gathers those of others has all, for the API server.
func rulesOf(r infer.Rendered) ([]rbacv1.PolicyRule, error) {
	var role rbacv1.ClusterRole // a Role's rules are the same
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"rules": r.Object.Object["rules"], "aggregationRule": r.Object.Object["aggregationRule"]}, &role)
	if gathers := role.AggregationRule; gathers != nil && len(gathers.ClusterRoleSelectors) > 0 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"whatever its aggregationRule gathers"}})
	}
	return role.Rules, err
}

// underAnyName are rules without the names of resources that are others in another release: no rule can say
// those of all custom resources.
func underAnyName(rules, ofAnother []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i := range rules {
		if i >= len(ofAnother) || !slices.Equal(rules[i].ResourceNames, ofAnother[i].ResourceNames) {
			rules[i].ResourceNames = nil
		}
	}
	return rules
}

// tooMuch is why the operator does not get a right that a chart's role hands out, empty if it does. The API
// server then refuses that role, unless the platform has given the operator's ServiceAccount the right by
// hand.
func (k kind) tooMuch(rule rbacv1.PolicyRule) string {
	has := func(all []string, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(all, word) })
	}
	switch {
	case has(rule.Verbs, "bind", "escalate", "impersonate") || has(rule.Verbs, "*") && has(rule.APIGroups, rbacv1.GroupName, "*"):
		return "it gives the right to give rights, which no word of watches.yaml allows"
	case !k.entry.Secrets && has(rule.APIGroups, "", "*") && slices.ContainsFunc(rule.Resources, func(resource string) bool {
		return resource == "*" || resource == "secrets" || strings.HasPrefix(resource, "secrets/")
	}):
		return "it reaches Secrets, which takes secrets: true"
	}
	return ""
}

// tooMuchIn says of each role of a kind what it hands out that the operator may not have: of what it does by
// default, and of what only an option has more.
func (k kind) tooMuchIn(m infer.Made) (all []string) {
	told := map[string]bool{}
	for _, v := range m.Objects {
		name := v.Object.GetName()
		of := name
		if strings.Contains(v.When, infer.TextsGiven) { // it may be the same by another name
			of = v.File
		}
		var reasons []string
		isNew := false
		for _, rule := range k.tooMuchOf(v.Object) {
			why := k.tooMuch(rule)
			reasons = append(reasons, fmt.Sprintf("%s on %s: %s", strings.Join(rule.Verbs, ", "), strings.Join(rule.Resources, ", "), why))
			isNew = isNew || !told[of+" "+why]
			told[name+" "+why], told[v.File+" "+why] = true, true
		}
		if !isNew {
			continue
		}
		without := k.api.trial.Without(func(o *unstructured.Unstructured) bool {
			return o.GetKind() == m.Kind && o.GetName() == name && len(k.tooMuchOf(o)) > 0
		})
		text := fmt.Sprintf("The operator gets no right to hand out what %s %s does (%s, %s): %s",
			m.Kind, name, path.Base(v.File), cmp.Or(k.condition(m, v.When), k.always()), strings.Join(reasons, ", "))
		if without != "" {
			text += "; pinned in overrideValues, " + without + " leaves it out"
		}
		all = append(all, text)
	}
	return all
}

// boundIn says of each binding which role it binds that the chart does not make. The chart does not show what such
// a role hands out, and the API server refuses the binding unless the operator has all of that.
func (k kind) boundIn(m infer.Made) (all []string) {
	if !obj.HandsOut(groupVersionKind(m).GroupKind()) {
		return nil
	}
	told := map[string]bool{}
	for _, v := range m.Objects {
		role, _, _ := unstructured.NestedStringMap(v.Object.Object, "roleRef")
		what := role["kind"] + " " + role["name"]
		isMade := slices.ContainsFunc(k.api.kinds, func(m infer.Made) bool {
			return m.Kind == role["kind"] && slices.ContainsFunc(m.Objects, func(v infer.Variant) bool { return v.Object.GetName() == role["name"] })
		})
		if role["name"] == "" || infer.IsTried(role["name"]) || isMade || told[what] {
			continue
		}
		told[what] = true
		all = append(all, fmt.Sprintf("The operator gets no right to hand out what %s does (%s, %s), which the chart binds and does not make: bind it to the operator's ServiceAccount as well, by hand, if whoever writes a %s may have all of it",
			what, path.Base(v.File), cmp.Or(k.condition(m, v.When), k.always()), k.entry.Kind))
	}
	return all
}

// always is the consequence if something that the chart makes by default is refused.
func (k kind) always() string { return "always: no " + k.entry.Kind + " will be ready" }

// tooMuchOf are the rules of a role that the operator may not hand out.
func (k kind) tooMuchOf(o *unstructured.Unstructured) []rbacv1.PolicyRule {
	if !obj.HandsOut(o.GroupVersionKind().GroupKind()) {
		return nil
	}
	given, _ := rulesOf(infer.Rendered{Object: o}) // bindings have none, and what can't be read writeRole says
	return slices.DeleteFunc(given, func(rule rbacv1.PolicyRule) bool { return k.tooMuch(rule) == "" })
}

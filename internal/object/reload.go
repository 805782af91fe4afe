package object

import (
	"regexp"
	"slices"
)

var (
	podContainers = mustPointer("/spec/template/spec/containers")
	reload        = regexp.MustCompile(`^STAKATER_.+_(CONFIGMAP|SECRET|SECRETPROVIDERCLASS)$`)
)

// isReload is whether an environment variable is Reloader's, which sets one to have pods replaced when what they
// read has changed (stakater/Reloader, strategy env-vars). Like an annotation of restarts, it has to stay.
func isReload(variable any) bool {
	name, _ := field(variable, "name").(string)
	return field(variable, "valueFrom") == nil && reload.MatchString(name)
}

// withReloads are the wanted containers of a workload with Reloader's variables of the live ones, each at its end
// of the list: another order would replace the pods once more.
func withReloads(wanted, live []any) []any {
	containers := slices.Clone(wanted)
	for i, there := range counterparts(live, wanted) {
		env := list(field(there, "env"))
		first := slices.IndexFunc(env, func(variable any) bool { return !isReload(variable) })
		if first < 0 {
			first = len(env)
		}
		last := slices.DeleteFunc(slices.Clone(env[first:]), func(variable any) bool { return !isReload(variable) })
		if first+len(last) > 0 {
			own := slices.DeleteFunc(slices.Clone(list(field(wanted[i], "env"))), isReload)
			containers[i] = pointer{"env"}.set(wanted[i], slices.Concat(env[:first], own, last), true)
		}
	}
	return containers
}

// withoutReloads is the content of a workload without Reloader's variables.
func withoutReloads(content map[string]any) map[string]any {
	value, _, _ := podContainers.in(content)
	containers := slices.Clone(list(value))
	for i, container := range containers {
		env := list(field(container, "env"))
		if own := slices.DeleteFunc(slices.Clone(env), isReload); len(own) < len(env) {
			containers[i] = pointer{"env"}.set(container, own, len(own) > 0)
			content = podContainers.set(content, containers, true).(map[string]any)
		}
	}
	return content
}

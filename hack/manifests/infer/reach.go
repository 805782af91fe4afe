package infer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// What a value reaches that makes its author more powerful, by the name of a field, wherever that is. Pods
// are stricter: see harmlessInPods.
var powerful = map[string]string{
	"image": "an image", "imagePullPolicy": "an image", "imagePullSecrets": "an image",
	"command": "a command", "args": "a command", "lifecycle": "a command", "exec": "a command",
	"serviceAccountName": "a service account", "serviceAccount": "a service account", "automountServiceAccountToken": "a service account",
	"volumes": "a volume", "volumeMounts": "a volume", "volumeDevices": "a volume", "hostPath": "a volume", "volumeName": "a volume",
	"securityContext": "a security context", "hostNetwork": "the node", "hostPID": "the node", "hostIPC": "the node", "hostPort": "the node", "hostUsers": "the node",
	"ownerReferences": "an owner", "finalizers": "an owner", "namespace": "another namespace",
}

// harmlessInPods are the fields of a template of pods that a value may reach.
var harmlessInPods = []string{
	"metadata.labels", "metadata.annotations", "metadata.name",
	"spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.topologySpreadConstraints", "spec.terminationGracePeriodSeconds", "spec.restartPolicy",
	"spec.activeDeadlineSeconds", "spec.enableServiceLinks", "spec.dnsPolicy",
}

// harmlessInContainers are those of a container, of which a value may be a part that is not said by its author.
var harmlessInContainers = []string{"name", "ports.[].name", "ports.[].containerPort", "ports.[].protocol"}

// reaches is what a value reaches at a place that its author must not have a say in, empty if that is nothing.
func reaches(p place) string {
	kind := p.object.GetKind()
	if p.path[0] == "apiVersion" || p.path[0] == "kind" || p.open && len(p.path) == 1 {
		return "an extra object"
	}
	if p.number && IsTest(p.object) && (slices.Contains(p.path, "args") || slices.Contains(p.path, "command")) {
		return "" // a port that is asked: it would be no field only because there is a test
	}
	inMetadata := p.path[0] == "metadata" && len(p.path) > 1 && slices.Contains([]string{"labels", "annotations", "name"}, p.path[1])
	switch {
	case slices.Contains([]string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"}, kind) && (!inMetadata || p.path[1] != "labels"):
		return "a service account"
	case inMetadata:
		return ""
	case inText(p) && (p.open || isScript(p) || !p.number && (p.named || isCode.MatchString(p.path[1]))): // pods may have it in their environment
		return "a command"
	case p.open && p.path[len(p.path)-2] == "metadata":
		return "an owner"
	case isFile(p) && slices.Contains([]string{wild, markText}, strings.TrimSpace(p.text)):
		return "a configuration file"
	}
	template, hasPods := templateOf(p.object)
	if hasPods && hasPrefix(p.path, template) {
		return reachesInPods(p, template)
	}
	if hasPods && p.open && hasPrefix(template, p.path[:len(p.path)-1]) {
		return "all of its pods"
	}
	if p.open && !hasPods && slices.ContainsFunc(p.path, func(field string) bool {
		return slices.Contains([]string{"template", "containers", "initContainers"}, field)
	}) {
		return "a command" // as far as anybody can tell of a kind that is not Kubernetes' own
	}
	if slices.Contains(p.path, "volumeClaimTemplates") || kind == "PersistentVolumeClaim" {
		field := p.path[len(p.path)-1]
		if !p.open && slices.Contains([]string{"storage", "storageClassName", "[]"}, field) {
			return ""
		}
		return "a volume"
	}
	if kind == "Secret" || kind == "ConfigMap" {
		return ""
	}
	for _, field := range p.path {
		if what := powerful[field]; what != "" {
			return what
		}
	}
	return ""
}

// templateOf is where an object has a template of pods: one of another kind than Kubernetes' own, as an Argo
// Rollout, where most have it.
func templateOf(o *unstructured.Unstructured) ([]string, bool) {
	if template, ok := obj.PodsOf[o.GetKind()]; ok {
		return template, true
	}
	template := []string{"spec", "template"}
	_, ok, _ := unstructured.NestedMap(o.Object, append(template, "spec")...)
	return template, ok
}

func reachesInPods(p place, template []string) string {
	path, open := p.path[len(template):], p.open
	begins := func(field string) bool { return strings.HasPrefix(strings.Join(path, ".")+".", field+".") }
	if slices.ContainsFunc(harmlessInPods, begins) {
		return ""
	}
	for _, containers := range []string{"spec.containers.[]", "spec.initContainers.[]"} {
		if !begins(containers) || len(path) < 4 {
			continue
		}
		within := path[3:]
		field := strings.Join(within, ".")
		switch {
		case within[0] == "resources":
			return ""
		case strings.HasSuffix(within[0], "Probe") && len(within) > 1 && !open && !slices.Contains(within, "exec") && !slices.Contains(within, "host"):
			return ""
		case inEnv(p):
			return reachesFromEnv(p, append(slices.Clone(template), path[:2]...))
		case !open && slices.Contains(harmlessInContainers, field):
			return ""
		case !open && !p.number && !IsTried(p.text) && isVariable.MatchString(field): // there or not, but as the chart has it
			return ""
		case within[0] == "env" || within[0] == "envFrom":
			return "the environment, and so any Secret"
		}
	}
	for _, field := range path {
		if what := powerful[field]; what != "" {
			return what
		}
	}
	if open {
		path = path[:len(path)-1]
	}
	return "its pods' " + cmp.Or(strings.Join(path, "."), "template")
}

var (
	// named is the name of a variable that an author can choose.
	named = regexp.MustCompile(`\$(\([^)]*)?` + markText)
	// isVariable finds the name of a variable, and what of its own pod one may have (GOMEMLIMIT the limit of memory, say).
	isVariable = regexp.MustCompile(`^env\.\[\]\.(name$|valueFrom\.(fieldRef|resourceFieldRef)\.)`)
	// isCode is the name of a variable that interpreters run, or take for their arguments.
	isCode = regexp.MustCompile(`^(PATH|LD_\w+|BASH_ENV|NODE_PATH|PYTHON(PATH|HOME|STARTUP)|PERL5LIB|RUBYLIB|DOTNET_STARTUP_HOOKS|CLASSPATH|LUA_INIT|PERL5DB|GIT_SSH|PROMPT_COMMAND)$|(^|_)(CMD|COMMAND)$|(OPTS?|OPTIONS|ARGS|EXTRA_FLAGS|JVM_?FLAGS|ERL_\w*FLAGS)$`)
	// variable is one that Kubernetes expands.
	variable = regexp.MustCompile(`\$\(([^()]+)\)`)
	// shellVariable is one that shells expand, to several words if it has them.
	shellVariable = regexp.MustCompile(`\$\{?(\w+)`)
)

// reachesFromEnv is what a variable gets to: Kubernetes writes what it holds wherever a container, or a later
// variable, says $(NAME).
func reachesFromEnv(p place, containers []string) string {
	if p.number {
		return ""
	}
	if named.MatchString(p.text) {
		return "the environment, and so any Secret"
	}
	all, _, _ := unstructured.NestedSlice(p.object.Object, containers...)
	for _, each := range all {
		container, _ := each.(map[string]any)
		variables, _ := container["env"].([]any)
		delete(container, "env") // of a copy
		says := Compact(container)
		var holding []string
		for _, each := range variables {
			variable, _ := each.(map[string]any)
			value := fmt.Sprint(variable["value"])
			if value != p.text && !slices.ContainsFunc(holding, func(expanded string) bool { return strings.Contains(value, expanded) }) {
				continue
			}
			name := fmt.Sprint(variable["name"])
			expanded := "$(" + name + ")"
			if isCode.MatchString(name) || strings.Contains(says, expanded) {
				return "a command"
			}
			holding = append(holding, expanded)
		}
	}
	return ""
}

package main

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	obj "demo.welcome.domain/welcome-operator/internal/object"
)

// place is where a value got to in the objects of a chart.
type place struct {
	object *unstructured.Unstructured
	// path has the keys, and [] for the elements of a list.
	path []string
	// text is what is there, of an open place its key.
	text string
	// open is whether the author of a custom resource says which fields there are, not only what one is.
	open bool
	// number is whether no more than a number got there.
	number bool
	// noText is whether what is there is none.
	noText bool
	// mounted is whether a volume in the same rendering has the name of the object: pods have what is in it as files.
	mounted bool
	// named is whether a command in the same rendering names the last key, or a variable that has it, or an interpreter takes that.
	named bool
	// shell is whether a command in the same rendering has the variable that is there, or of its name, as shells expand it.
	shell bool
}

// What a value reaches that makes its author more powerful, by the name of a field, wherever that is. Pods are stricter: see harmlessInPods.
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
	if p.number && isTest(p.object) && (slices.Contains(p.path, "args") || slices.Contains(p.path, "command")) {
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

// templateOf is where an object has a template of pods: one of another kind than Kubernetes' own, as an Argo Rollout, where most have it.
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

// inEnv is whether a place is what a variable of the environment holds, in which Kubernetes expands $(NAME).
func inEnv(p place) bool {
	return len(p.path) > 3 && slices.Equal(p.path[len(p.path)-3:], []string{"env", "[]", "value"})
}

var (
	// named is the name of a variable that an author can choose.
	named = regexp.MustCompile(`\$(\([^)]*)?` + markText)
	// isCode is the name of a variable that interpreters run, or take for their arguments.
	isCode = regexp.MustCompile(`^(PATH|LD_\w+|BASH_ENV|NODE_PATH|PYTHON(PATH|HOME|STARTUP)|PERL5LIB|RUBYLIB|DOTNET_STARTUP_HOOKS|CLASSPATH|LUA_INIT|PERL5DB|GIT_SSH|PROMPT_COMMAND)$|(^|_)(CMD|COMMAND)$|(OPTS?|OPTIONS|ARGS|EXTRA_FLAGS|JVM_?FLAGS|ERL_\w*FLAGS)$`)
	// variable is one that Kubernetes expands.
	variable = regexp.MustCompile(`\$\(([^()]+)\)`)
	// shellVariable is one that shells expand, to several words if it has them.
	shellVariable = regexp.MustCompile(`\$\{?(\w+)`)
)

// reachesFromEnv is what a variable gets to: Kubernetes writes what it holds wherever a container, or a later variable, says $(NAME).
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
		says := compact(container)
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

// takesBoth is whether a place is a field of Kubernetes for a number or a text: 1 or 25%, a port or its name, 2 or 500m.
func takesBoth(p place) bool {
	last := func(n int) string { return p.path[max(len(p.path)-n, 0)] }
	switch last(1) {
	case "minAvailable", "maxUnavailable", "maxSurge", "targetPort":
		return true
	case "port":
		return last(2) == "httpGet" || last(2) == "tcpSocket" || p.object.GetKind() == "NetworkPolicy"
	}
	return last(3) == "resources" && (last(2) == "limits" || last(2) == "requests")
}

// isFile is whether a place is what pods have as a file, by its name or a volume. A program may do whatever its configuration says. In a Secret, what has no
// dot is most often a password: see inSecretFile.
func isFile(p place) bool {
	return inText(p) && (strings.Contains(p.path[1], ".") || p.mounted && p.object.GetKind() == "ConfigMap")
}

// inLines is whether a place is in a text with more in it: there, a word must not become two, nor a line.
func inLines(p place) bool { return inText(p) && strings.TrimSpace(p.text) != wild }

// inShell is whether a shell may make words of what is at a place.
func inShell(p place) bool { return p.shell }

// inSecretFile is whether a place is all of a file that pods have of a Secret.
func inSecretFile(p place) bool { return inText(p) && p.mounted && !inLines(p) }

// isName is whether a place is the name of an object.
func isName(p place) bool { return slices.Equal(p.path, []string{"metadata", "name"}) }

// inText is whether a place is in a text of a ConfigMap or Secret.
func inText(p place) bool {
	return slices.Contains([]string{"ConfigMap", "Secret"}, p.object.GetKind()) && len(p.path) == 2 && slices.Contains([]string{"data", "stringData", "binaryData"}, p.path[0])
}

// isScript is whether somebody might run what a key of a ConfigMap or Secret holds.
func isScript(p place) bool {
	return strings.HasPrefix(strings.TrimSpace(p.text), "#!") || slices.Contains([]string{".sh", ".bash", ".py", ".rb", ".pl", ".js", ".lua", ".php"}, path.Ext(p.path[1]))
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// What stands for the text of an author, for a field that only an author knows, and for a number.
const (
	markText   = "zqmark"
	markKey    = "zqkey"
	markNumber = 30917
)

// few is a number of which a chart can make that many objects. It may be in any text, so that it is no mark.
const few = 97

// places are those in the objects that a mark got to.
func places(objects []rendered) []place {
	var all []place
	used := usesOf(objects)
	for _, r := range objects {
		for _, l := range r.leaves {
			if l.marked {
				all = append(all, placeOf(r, used, l))
			}
		}
	}
	return all
}

// uses are what pods use of ConfigMaps and Secrets.
type uses struct {
	mounted map[string]bool // the names that volumes have in them
	named   map[string]bool // the keys of variables that commands name, or interpreters take
	shell   map[string]bool // the keys and the values of variables that commands name for a shell
}

func usesOf(objects []rendered) uses {
	used := uses{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, r := range objects {
		for _, l := range r.leaves {
			if slices.Contains(l.path, "volumes") {
				used.mounted[l.text] = true
			}
			if slices.Contains(l.path, "command") || slices.Contains(l.path, "args") {
				for _, found := range variable.FindAllStringSubmatch(l.text, -1) {
					used.named[found[1]] = true
				}
				for _, found := range shellVariable.FindAllStringSubmatch(l.text, -1) {
					used.shell[found[1]] = true
				}
			}
		}
	}
	for _, r := range objects {
		eachVariable(r.object.Object, func(variable map[string]any) {
			name, _ := variable["name"].(string)
			if value, _ := variable["value"].(string); value != "" && used.shell[name] {
				used.shell[value] = true
			}
			for _, from := range []string{"configMapKeyRef", "secretKeyRef"} {
				key, _, _ := unstructured.NestedString(variable, "valueFrom", from, "key")
				used.named[key] = used.named[key] || used.named[name] || isCode.MatchString(name)
				used.shell[key] = used.shell[key] || used.shell[name]
			}
		})
	}
	return used
}

// eachVariable visits the variables of the environment of all containers.
func eachVariable(value any, visit func(variable map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		variables, _ := value["env"].([]any)
		for _, each := range variables {
			if variable, ok := each.(map[string]any); ok {
				visit(variable)
			}
		}
		for _, inner := range value {
			eachVariable(inner, visit)
		}
	case []any:
		for _, inner := range value {
			eachVariable(inner, visit)
		}
	}
}

func placeOf(r rendered, used uses, l leaf) place {
	last := l.path[len(l.path)-1]
	p := place{
		object: r.object, path: l.path, text: l.text, open: l.key, number: strings.Contains(l.text, fmt.Sprint(markNumber)), noText: !l.isText,
		mounted: used.mounted[r.object.GetName()], named: used.named[last],
	}
	p.shell = inText(p) && used.shell[last] || inEnv(p) && used.shell[l.text]
	return p
}

package infer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// mounted is whether a volume in the same rendering names the object: pods have what is in it as files.
	mounted bool
	// named is whether a command in the same rendering names the last key, or a variable that has it, or an
	// interpreter takes that.
	named bool
	// shell is whether a command in the same rendering has the variable that is there, or of its name, as shells expand it.
	shell bool
}

// places are those in the objects that a mark got to.
func places(objects []Rendered) []place {
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

func placeOf(r Rendered, used uses, l leaf) place {
	last := l.path[len(l.path)-1]
	p := place{
		object: r.Object, path: l.path, text: l.text, open: l.key, number: strings.Contains(l.text, fmt.Sprint(markNumber)), noText: !l.isText,
		mounted: used.mounted[r.Object.GetKind()+" "+r.Object.GetName()], named: used.named[last],
	}
	p.shell = inText(p) && used.shell[last] || inEnv(p) && used.shell[l.text]
	return p
}

// uses are what pods use of ConfigMaps and Secrets.
type uses struct {
	mounted map[string]bool // the kinds and names that volumes may have in them
	named   map[string]bool // the keys of variables that commands name, or interpreters take
	shell   map[string]bool // the keys and the values of variables that commands name for a shell
}

func usesOf(objects []Rendered) uses {
	used := uses{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, r := range objects {
		for _, l := range r.leaves {
			if slices.Contains(l.path, "volumes") {
				for _, kind := range mountedKinds(l.path) {
					used.mounted[kind+" "+l.text] = true
				}
			}
			if slices.Contains(l.path, "command") || slices.Contains(l.path, "args") {
				for _, name := range groups(variable, l.text) {
					used.named[name] = true
				}
				for _, name := range groups(shellVariable, l.text) {
					used.shell[name] = true
				}
			}
		}
	}
	for _, r := range objects {
		eachVariable(r.Object.Object, func(variable map[string]any) {
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

// mountedKinds are the kinds of which a text at a path below volumes may name an object. A custom resource may
// have its own way to name one.
func mountedKinds(path []string) []string {
	switch last := len(path) - 1; {
	case slices.Contains(path, "configMap"):
		return []string{"ConfigMap"}
	case slices.Contains(path, "secret"):
		return []string{"Secret"}
	case slices.Contains(path, "persistentVolumeClaim"), path[last] == "name" && slices.Equal(path[max(last-2, 0):last], []string{"volumes", "[]"}):
		return nil
	}
	return []string{"ConfigMap", "Secret"}
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

func isOpen(p place) bool { return p.open }

// isBounded is whether what an author writes gets to a text where not all may be: no schema says that of what
// it does not know.
func isBounded(p place) bool {
	return (inEnv(p) || inLines(p) || inShell(p) || inSecretFile(p)) && strings.Contains(strings.ToLower(p.text), markText)
}

// inEnv is whether a place is what a variable of the environment holds, in which Kubernetes expands $(NAME).
func inEnv(p place) bool {
	return len(p.path) > 3 && slices.Equal(p.path[len(p.path)-3:], []string{"env", "[]", "value"})
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

// isFile is whether a place is what pods have as a file, as its name or a volume tells. A program may do
// whatever its configuration says. In a Secret, a key without a dot is most often that of a password: see
// inSecretFile.
func isFile(p place) bool {
	return inText(p) && (strings.Contains(p.path[1], ".") || p.mounted && p.object.GetKind() == "ConfigMap")
}

// inText is whether a place is in a text of a ConfigMap or Secret.
func inText(p place) bool {
	return slices.Contains([]string{"ConfigMap", "Secret"}, p.object.GetKind()) && len(p.path) == 2 && slices.Contains([]string{"data", "stringData", "binaryData"}, p.path[0])
}

// inLines is whether a place is in a text with more in it: there, a word must not become two, nor a line.
func inLines(p place) bool { return inText(p) && strings.TrimSpace(p.text) != wild }

// inShell is whether a shell may make words of what is at a place.
func inShell(p place) bool { return p.shell }

// inSecretFile is whether a place is all of a file that pods have of a Secret.
func inSecretFile(p place) bool { return inText(p) && p.mounted && !inLines(p) }

// isName is whether a place is the name of an object.
func isName(p place) bool { return slices.Equal(p.path, []string{"metadata", "name"}) }

// isScript is whether somebody might run what a key of a ConfigMap or Secret holds.
func isScript(p place) bool {
	return strings.HasPrefix(strings.TrimSpace(p.text), "#!") || slices.Contains([]string{".sh", ".bash", ".py", ".rb", ".pl", ".js", ".lua", ".php"}, path.Ext(p.path[1]))
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// schemas are the API server's OpenAPI schemas, by the names of the types.
type schemas map[string]any

// readSchemas reads the OpenAPI documents of group versions.
func readSchemas(client rest.Interface, groupVersions ...string) (schemas, error) {
	all := schemas{}
	for _, groupVersion := range groupVersions {
		path := "/openapi/v3/apis/" + groupVersion
		if !strings.Contains(groupVersion, "/") {
			path = "/openapi/v3/api/" + groupVersion
		}
		text, err := client.Get().AbsPath(path).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var document struct {
			Components struct{ Schemas schemas }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		maps.Copy(all, document.Components.Schemas)
	}
	return all, nil
}

// of is the schema of an object.
func (all schemas) of(object *unstructured.Unstructured) (map[string]any, error) {
	gvk := object.GroupVersionKind()
	for _, schema := range all {
		kinds, _ := child(schema, "x-kubernetes-group-version-kind").([]any)
		if slices.ContainsFunc(kinds, func(kind any) bool {
			return child(kind, "group") == gvk.Group && child(kind, "version") == gvk.Version && child(kind, "kind") == gvk.Kind
		}) {
			return all.resolve(schema), nil
		}
	}
	return nil, fmt.Errorf("the API server describes no %s", gvk)
}

// resolve follows references.
func (all schemas) resolve(schema any) map[string]any {
	if reference, ok := child(schema, "$ref").(string); ok {
		name := reference[strings.LastIndexByte(reference, '/')+1:]
		resolved := maps.Clone(all.resolve(all[name]))
		resolved["name"] = name
		return resolved
	}
	if parts, ok := child(schema, "allOf").([]any); ok && len(parts) == 1 {
		return all.resolve(parts[0])
	}
	resolved, _ := schema.(map[string]any)
	return resolved
}

func child(of any, name string) any {
	fields, _ := of.(map[string]any)
	return fields[name]
}

// mutation is a change of one field of an object.
type mutation struct {
	path []string
	how  string
	do   func(value any, random *rand.Rand) (any, bool) // the new value of the field, and whether it is to be there
}

func (m mutation) String() string { return m.how + " /" + strings.Join(m.path, "/") }

// in applies the mutation to an object.
func (m mutation) in(object *unstructured.Unstructured, random *rand.Rand) {
	object.Object = edited(object.Object, m.path, func(value any) (any, bool) { return m.do(value, random) }).(map[string]any)
}

// edited is content with another value at path.
func edited(content any, path []string, edit func(any) (any, bool)) any {
	switch content := content.(type) {
	case map[string]any:
		value, present := content[path[0]], true
		if len(path) > 1 {
			value = edited(value, path[1:], edit)
		} else {
			value, present = edit(value)
		}
		if !present {
			delete(content, path[0])
			return content
		}
		content[path[0]] = value
	case []any:
		at, err := strconv.Atoi(path[0])
		if err != nil || at >= len(content) {
			return content // another one, by what was done before
		}
		if len(path) > 1 {
			content[at] = edited(content[at], path[1:], edit)
		} else if value, present := edit(content[at]); present {
			content[at] = value
		} else {
			return slices.Delete(content, at, at+1)
		}
	}
	return content
}

// mutations lists what may be done to value, which is at path and has a schema: each field that exists is
// changed, removed, reordered and renamed, and each possible other one is added.
func (all schemas) mutations(schema map[string]any, value any, path ...string) []mutation {
	var list []mutation
	add := func(how string, do func(any, *rand.Rand) (any, bool), path ...string) {
		list = append(list, mutation{path: slices.Clone(path), how: how, do: do})
	}
	remove := func(any, *rand.Rand) (any, bool) { return nil, false }
	within := func(token string) []string { return append(slices.Clone(path), token) }
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			inner := all.resolve(properties[name])
			if current, ok := value[name]; ok {
				add("remove", remove, within(name)...)
				list = append(list, all.mutations(inner, current, within(name)...)...)
				continue
			}
			add("add", func(_ any, random *rand.Rand) (any, bool) { return all.generate(inner, name, random, 0), true }, within(name)...)
		}
		if inner := all.resolve(schema["additionalProperties"]); inner != nil {
			key := func(random *rand.Rand) string { return "added-" + strconv.Itoa(random.IntN(100)) }
			add("add to", func(current any, random *rand.Rand) (any, bool) {
				content, ok := current.(map[string]any)
				if ok {
					content[key(random)] = all.generate(inner, "", random, 0)
				}
				return content, ok
			}, path...)
			for _, name := range slices.Sorted(maps.Keys(value)) {
				add("remove", remove, within(name)...)
				add("rename", func(current any, random *rand.Rand) (any, bool) {
					content, ok := current.(map[string]any)
					if ok {
						content[key(random)] = content[name]
						delete(content, name)
					}
					return content, ok
				}, path...)
				list = append(list, all.mutations(inner, value[name], within(name)...)...)
			}
		}
	case []any:
		inner := all.resolve(schema["items"])
		add("add to", func(current any, random *rand.Rand) (any, bool) {
			elements, _ := current.([]any)
			element := all.generate(inner, "", random, 0)
			if len(elements) > 0 && random.IntN(2) == 0 {
				element = all.renamed(schema, copied(elements[random.IntN(len(elements))]), random)
			}
			return slices.Insert(elements, random.IntN(len(elements)+1), element), true
		}, path...)
		if len(value) > 1 {
			add("reorder", func(current any, random *rand.Rand) (any, bool) {
				elements, ok := current.([]any)
				random.Shuffle(max(0, len(elements)-1), func(i, j int) { elements[i], elements[j] = elements[j], elements[i] })
				slices.Reverse(elements)
				return elements, ok
			}, path...)
		}
		for i, element := range value {
			at := within(strconv.Itoa(i))
			add("remove", remove, at...)
			if _, isObject := element.(map[string]any); isObject {
				add("rename", func(current any, random *rand.Rand) (any, bool) { return all.renamed(schema, current, random), true }, at...)
			}
			list = append(list, all.mutations(inner, element, at...)...)
		}
	default:
		name := path[len(path)-1]
		add("change", func(current any, random *rand.Rand) (any, bool) {
			for range 10 {
				if other := all.generate(schema, name, random, 0); fmt.Sprint(other) != fmt.Sprint(current) {
					return other, true
				}
			}
			return current, true
		}, path...)
	}
	return list
}

func copied(value any) any {
	return (&unstructured.Unstructured{Object: map[string]any{"value": value}}).DeepCopy().Object["value"]
}

// renamed is an element of a list with another key.
func (all schemas) renamed(list map[string]any, element any, random *rand.Rand) any {
	fields, ok := element.(map[string]any)
	if !ok {
		return element
	}
	keys, _ := list["x-kubernetes-list-map-keys"].([]any)
	for _, key := range append(keys, "name", "key", "host", "ip") {
		name := key.(string)
		if current, ok := fields[name]; ok {
			properties := all.resolve(list["items"])["properties"]
			fields[name] = all.generate(all.resolve(child(properties, name)), name, random, 0)
			if fields[name] != current {
				return fields
			}
		}
	}
	return fields
}

// samples are values of fields in which an arbitrary text would be refused, or would have no effect.
var samples = map[string][]any{
	"ip": {"192.0.2.77"}, "cidr": {"198.51.100.0/24"}, "clusterIP": {"None", "10.0.77.1"}, "nameservers": {"192.0.2.99"},
	"mountPath": {"/added", "/config"}, "path": {"/added", "added", "a"}, "name": {"scratch", "config", "main", "added", "http", "NUMBER", "a"},
	"key": {"a", "added"}, "image": {"example.com/theirs:1"}, "port": {"http", int64(8081), int64(80)}, "targetPort": {"admin", int64(8081)},
	"schedule": {"@daily"}, "timeZone": {"Europe/Berlin"}, "restartPolicy": {"Always", "Never", "OnFailure"}, "hostnames": {"x.example.com"}, "host": {"x.example.com", "*.example.com"},
	"topologyKey": {"kubernetes.io/hostname", "example.com/x"}, "fieldPath": {"metadata.name", "metadata.uid"}, "serviceAccountName": {"default", "theirs"},
	"verbs": {"delete"}, "apiGroups": {"batch"}, "resources": {"jobs"}, "externalName": {"x.example.com"}, "loadBalancerClass": {"example.com/class"},
	"protocol": {"TCP", "UDP"}, "resource": {"limits.cpu", "requests.memory"}, "operator": {"In", "Exists", "NotIn", "Equal"}, "value": {"1", "theirs"},
	"apiGroup": {"rbac.authorization.k8s.io", ""}, "kind": {"User", "Group", "ServiceAccount", "Other"}, "apiVersion": {"v1", "apps/v1"},
	"containerName": {"main"}, "mode": {int64(0o400)}, "defaultMode": {int64(0o400)}, "type": {"ClusterIP", "NodePort", "ExternalName", "LoadBalancer", "Recreate", "OnDelete", "RollingUpdate"},
	"externalTrafficPolicy": {"Local", "Cluster"}, "internalTrafficPolicy": {"Local"}, "ipFamilyPolicy": {"PreferDualStack", "SingleStack"}, "appProtocol": {"http"},
	"healthCheckNodePort": {int64(30123)}, "nodePort": {int64(30124)}, "secretName": {"theirs"}, "labels": {"added"},
}

// generate makes a value of a schema, for a field of that name.
func (all schemas) generate(schema map[string]any, name string, random *rand.Rand, depth int) any {
	pick := func(values ...any) any { return copied(values[random.IntN(len(values))]) }
	if enum, ok := schema["enum"].([]any); ok && len(enum) > 0 {
		return pick(enum...)
	}
	kind, _ := schema["name"].(string)
	switch {
	case strings.HasSuffix(kind, ".Quantity"):
		return pick("7", "150m", "3Gi")
	case strings.HasSuffix(kind, ".Time"), strings.HasSuffix(kind, ".MicroTime"):
		return "2026-01-01T00:00:00Z"
	case strings.HasSuffix(kind, ".FieldsV1"):
		return map[string]any{}
	}
	if values := samples[name]; values != nil && schema["type"] != "object" && schema["type"] != "array" && schema["type"] != "boolean" {
		fits := slices.DeleteFunc(slices.Clone(values), func(value any) bool {
			_, isNumber := value.(int64)
			return schema["type"] == "integer" && !isNumber || schema["type"] == "string" && schema["format"] != "int-or-string" && isNumber
		})
		if len(fits) > 0 {
			return pick(fits...)
		}
	}
	switch schema["type"] {
	case "string":
		switch schema["format"] {
		case "byte":
			return "eA=="
		case "int-or-string":
			return pick(int64(1), "25%", "http")
		}
		return pick("theirs", "a", "x-1")
	case "integer":
		return pick(int64(0), int64(1), int64(3), int64(30), int64(600), int64(8081))
	case "number":
		return float64(1)
	case "boolean":
		return random.IntN(4) > 0
	case "array":
		return []any{all.generate(all.resolve(schema["items"]), name, random, depth+1)}
	}
	if strings.HasSuffix(kind, ".IntOrString") || schema["oneOf"] != nil {
		return pick(int64(1), "25%", "http")
	}
	content := map[string]any{}
	if inner := all.resolve(schema["additionalProperties"]); inner != nil {
		content["added"] = all.generate(inner, "", random, depth+1)
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	optional := slices.DeleteFunc(slices.Sorted(maps.Keys(properties)), func(name string) bool { return slices.Contains(required, any(name)) })
	for _, name := range required {
		content[name.(string)] = all.generate(all.resolve(properties[name.(string)]), name.(string), random, depth+1)
	}
	if len(optional) > 0 && depth < 5 { // few: most types take one of several alternatives
		for range 1 + random.IntN(2) {
			name := optional[random.IntN(len(optional))]
			content[name] = all.generate(all.resolve(properties[name]), name, random, depth+1)
		}
	}
	return content
}

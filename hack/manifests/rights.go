package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"demo.welcome.domain/welcome-operator/hack/manifests/infer"
	obj "demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/terminal"
)

const rightsDir = "config/rbac"

// kind is an entry of watches.yaml with all that was found out about it.
type kind struct {
	entry operator.Entry
	api   *API
	crd   *apiextensionsv1.CustomResourceDefinition
}

// plural is how people call several custom resources: Welcomes.
func (k kind) plural() string {
	if end, ok := strings.CutPrefix(k.crd.Spec.Names.Plural, k.crd.Spec.Names.Singular); ok {
		return k.entry.Kind + end
	}
	return k.crd.Spec.Names.Plural
}

// child is a kind of objects that a chart makes.
type child struct {
	group, resource string
	// why says which chart makes it.
	why string
	// refused is why the operator gets no right to it, empty if it does.
	refused string
	// inNoNamespace is whether it is cluster-scoped.
	inNoNamespace bool
}

func groupVersionKind(m infer.Made) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(m.APIVersion, m.Kind)
}

// children of the objects of a kind.
func (k kind) children() []child {
	var all []child
	for _, m := range k.api.kinds {
		gvk := groupVersionKind(m)
		why := k.entry.Kind + ": " + m.File
		if m.When != "" {
			why += ", with " + k.condition(m, m.When)
		}
		all = append(all, child{gvk.Group, resourceOf(gvk), terminal.Line(why), k.refusal(m), k.inNoNamespace(gvk.GroupKind())})
	}
	return all
}

// clusterScoped are kinds in no namespace of what many clusters have beside Kubernetes' own API.
var clusterScoped = []string{
	"GatewayClass", "VolumeSnapshotClass", "APIService", "CustomResourceDefinition", "ClusterIssuer", "PodSecurityPolicy", "SecurityContextConstraints",
}

// inNamespaces are the kinds of Kubernetes that are in namespaces: those for whose client client-go, which is
// generated, wants to know one. A list of those that are in none would lack what the next version brings.
var inNamespaces = func() map[schema.GroupKind]bool {
	all := map[schema.GroupKind]bool{}
	for group := range reflect.TypeFor[kubernetes.Interface]().Methods() {
		for client := range group.Type.Out(0).Methods() {
			if client.Type.NumIn() != 1 || client.Type.In(0).Kind() != reflect.String {
				continue
			}
			create, ok := client.Type.Out(0).MethodByName("Create")
			if !ok {
				continue
			}
			kinds, _, _ := scheme.Scheme.ObjectKinds(reflect.New(create.Type.In(1).Elem()).Interface().(runtime.Object)) // one that it does not know is in none
			for _, kind := range kinds {
				all[kind.GroupKind()] = true
			}
		}
	}
	return all
}()

// inNoNamespace is whether objects of a kind are cluster-scoped: of kinds that nobody here knows, the entry says so.
func (k kind) inNoNamespace(of schema.GroupKind) bool {
	return len(scheme.Scheme.VersionsForGroupKind(of)) > 0 && !inNamespaces[of] || slices.Contains(clusterScoped, of.Kind) || strings.HasSuffix(of.Kind, "Review") ||
		k.entry.Allow.HasCluster(of)
}

// dropped is whether a kind is Kubernetes' own, and no cluster that the operator is for has it in the version
// that a chart makes.
func dropped(m infer.Made) bool {
	gvk := groupVersionKind(m)
	object, err := scheme.Scheme.New(gvk)
	if err != nil { // client-go forgets versions in the end, and kinds (PodSecurityPolicy)
		return scheme.Scheme.IsGroupRegistered(gvk.Group)
	}
	version, hasEnd := object.(interface{ APILifecycleRemoved() (major, minor int) })
	if !hasEnd {
		return false
	}
	_, minor := version.APILifecycleRemoved()
	oldest, _ := strconv.Atoi(infer.OldestKubernetes.Minor)
	return minor <= oldest
}

// condition is the value that what is made needs, and who may set it. What hands out rights, or is in no
// namespace, has to be as it is for a custom resource that says nothing.
func (k kind) condition(m infer.Made, when string) string {
	if of := groupVersionKind(m).GroupKind(); when != "" && (k.inNoNamespace(of) || obj.HandsOut(of)) {
		when += ", which only overrideValues may set"
	}
	return when
}

// refusal is why the operator gets no right to a kind.
func (k kind) refusal(m infer.Made) string {
	switch of := groupVersionKind(m).GroupKind(); {
	case k.inNoNamespace(of):
		for _, v := range m.Objects {
			if err := k.entry.Allow.InNoNamespace(infer.SampleRelease, of, v.Object.GetName()); err != nil {
				return err.Error()
			}
		}
		return ""
	case of == obj.Secret.GroupKind() && !k.entry.Secrets:
		return "only with secrets: true"
	case obj.HandsOut(of) && !slices.Contains(k.entry.Allow.Kinds, of.String()):
		return "it hands out rights, so that it needs " + of.String() + " in allow.kinds"
	case obj.HandsOut(of):
		return ""
	}
	// Kinds that nobody here knows need a word of the platform's, even if every custom resource has them: a
	// chart may write anything for a kind.
	allowed := obj.Allow{Hosts: []string{"*"}, Annotations: []string{"*"}, Kinds: k.entry.Allow.Kinds}
	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": m.APIVersion, "kind": m.Kind, "metadata": map[string]any{"namespace": infer.SampleRelease.Namespace}}}
	if len(allowed.Refused(infer.SampleRelease.Namespace, obj.Asks(bare))) > 0 {
		return "only with " + groupVersionKind(m).GroupKind().String() + " in allow.kinds"
	}
	return ""
}

// childVerbs are what the operator does with what a chart makes: get, create, patch and delete are Helm's,
// list and watch find drift, which a patch repairs.
func childVerbs() []string { return []string{"get", "list", "watch", "create", "patch", "delete"} }

// secretRule is for what charts make, and for release records: get, create, patch and delete are for both, list and
// watch find drift and the newest record, and Helm writes a record by an update.
const secretRule = `# Make Secrets (secrets: true), and keep release records in some: all of the namespaces that are watched, for no rule can name those that are to be made.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update, patch, delete]
`

const generated = "# Generated by `make manifests` from watches.yaml and the charts. Edit those"

func rule(comment, group string, resources []string, verbs ...string) string {
	text := ""
	for line := range strings.SplitSeq(comment, "\n") {
		text += "# " + line + "\n"
	}
	if group == "" {
		group = `""`
	}
	return text + fmt.Sprintf("- apiGroups: [%s]\n  resources: [%s]\n  verbs: [%s]\n", group, strings.Join(resources, ", "), strings.Join(verbs, ", "))
}

// writeRole writes what the operator may.
func writeRole(kinds []kind) error {
	text := generated + `, or hack/manifests/rights.go.
#
# What the operator may do in the namespaces that it watches. No rule names Secrets, unless an entry has secrets: true. The
# bundle turns this role into permissions, which OLM grants per watched namespace only.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager-role
rules:
`
	for _, k := range kinds {
		plural := k.crd.Spec.Names.Plural
		text += rule("Read "+k.plural()+", and patch their finalizers.", k.entry.Group, []string{plural}, "list", "watch", "patch")
		text += rule("Say how they are.", k.entry.Group, []string{plural + "/status"}, "update")
		text += rule("Own children with blockOwnerDeletion, where the cluster enforces that right (OpenShift does).", k.entry.Group, []string{plural + "/finalizers"}, "update")
	}
	text += rule("Keep release records.", "", []string{"configmaps"}, "get", "list", "watch", "create", "update", "patch", "delete")
	if slices.ContainsFunc(kinds, func(k kind) bool { return k.entry.Secrets }) {
		text += secretRule
	}
	refused := map[string][]string{}
	for _, k := range kinds {
		for _, c := range k.children() {
			if c.refused != "" {
				what := c.refused // of what is cluster-scoped, that names the object: there may be a right to others
				if !c.inNoNamespace {
					what = strings.TrimSuffix(c.resource+"."+c.group, ".") + ": " + what
				}
				what = terminal.Line(what)
				refused[what] = append(refused[what], c.why)
			}
		}
	}
	text += makeRules(kinds, false)
	handed, err := handedOut(kinds, "Role")
	if err != nil {
		return err
	}
	text += handed
	text += rule("Say why a release is not ready: its pods are listed once in a while, never watched.", "", []string{"pods"}, "list")
	text += rule("Tell users what happened.", "", []string{"events"}, "create", "patch")
	for _, what := range slices.Sorted(maps.Keys(refused)) {
		text += fmt.Sprintf("# No right to %s\n", what)
		for _, why := range refused[what] {
			text += "# - " + terminal.Line(why) + "\n"
		}
	}
	return os.WriteFile(filepath.Join(rightsDir, roleFile), []byte(text), 0o644)
}

// granted is what charts make in namespaces, or in none, and the operator may: why, by group and resource.
func granted(kinds []kind, inNoNamespace bool) map[string]map[string][]string {
	children := map[string]map[string][]string{}
	for _, k := range kinds {
		for _, c := range k.children() {
			if c.refused != "" || c.inNoNamespace != inNoNamespace {
				continue
			}
			if children[c.group] == nil {
				children[c.group] = map[string][]string{}
			}
			children[c.group][c.resource] = append(children[c.group][c.resource], c.why)
		}
	}
	return children
}

// makeRules are the rules to make what charts make, in namespaces or in none.
func makeRules(kinds []kind, inNoNamespace bool) (text string) {
	children := granted(kinds, inNoNamespace)
	delete(children[""], "configmaps") // as the records
	delete(children[""], "secrets")
	for _, group := range slices.Sorted(maps.Keys(children)) {
		resources := slices.Sorted(maps.Keys(children[group]))
		var why []string
		for _, resource := range resources {
			why = append(why, children[group][resource]...)
		}
		if len(resources) > 0 {
			text += rule("Make "+strings.Join(resources, ", ")+":\n- "+strings.Join(slices.Compact(why), "\n- "), group, resources, childVerbs()...)
		}
	}
	return text
}

const (
	roleFile        = "role.yaml"
	clusterRoleFile = "cluster_role.yaml"
)

// writeClusterRole writes what the operator may in no namespace.
func writeClusterRole(kinds []kind) error {
	rules := makeRules(kinds, true)
	handed, err := handedOut(kinds, "ClusterRole")
	if err != nil {
		return err
	}
	rules += handed
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.entry.CRDs }); i >= 0 {
		rules += rule("Make the CRDs of charts ("+kinds[i].entry.Kind+": crds: true).", "apiextensions.k8s.io", []string{"customresourcedefinitions"}, "create")
	}
	text := generated + `, or hack/manifests/rights.go.
#
# What the operator may do beyond namespaces, for kinds with allow.cluster or crds: true: the bundle turns it into clusterPermissions. It is
# there without a rule, too: kubectl apply takes a right away that is not in it, and would leave a role that is not there.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager-cluster-role
rules:` + cmp.Or(strings.TrimSuffix("\n"+rules, "\n"), " []") + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: manager-cluster-role-binding
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: manager-cluster-role
subjects:
- kind: ServiceAccount
  name: controller-manager
  namespace: system
`
	return os.WriteFile(filepath.Join(rightsDir, clusterRoleFile), []byte(text), 0o644)
}

// userRoles are for people who have custom resources of a kind, by the word in the names of their files.
func (k kind) userRoles() map[string]string {
	plural, group := k.crd.Spec.Names.Plural, k.entry.Group
	all := k.plural()
	scale, status := "", rule("", group, []string{plural + "/status"}, "get")
	if k.crd.Spec.Versions[0].Subresources.Scale != nil {
		scale = rule("", group, []string{plural + "/scale"}, "get", "update", "patch")
	}
	role := func(may, to, comment, rules string) string {
		return fmt.Sprintf("%s, or hack/manifests/rights.go.\n#\n# %s\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s-%s-role\n  labels:\n    rbac.authorization.k8s.io/aggregate-to-%s: \"true\"\nrules:\n%s",
			generated, comment, k.crd.Spec.Names.Singular, may, to, strings.ReplaceAll(rules, "# \n", ""))
	}
	return map[string]string{
		"viewer": role("viewer", "view", "For people who look at "+all+"; part of the cluster's own view, edit and admin roles.",
			rule("Look.", group, []string{plural, plural + "/status"}, "get", "list", "watch")),
		"editor": role("editor", "edit", "For people who run "+all+"; part of the cluster's own edit and admin roles. The status is\n# the operator's word, so it is not among what they may write.",
			rule("Look, create, change and delete.", group, []string{plural}, "get", "list", "watch", "create", "update", "patch", "delete")+scale+status),
		"admin": role("admin", "admin", "For people who run "+all+" and clean up after them; part of the cluster's own admin role.",
			rule("All of the editor's rights, and deletion of many at once.", group, []string{plural}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")+scale+status),
	}
}

// writeUserRoles returns the names of the files.
func writeUserRoles(kinds []kind) ([]string, error) {
	var files []string
	for _, k := range kinds {
		roles := k.userRoles()
		for _, may := range slices.Sorted(maps.Keys(roles)) {
			file := k.crd.Spec.Names.Singular + "_" + may + "_role.yaml"
			if err := os.WriteFile(filepath.Join(rightsDir, file), []byte(roles[may]), 0o644); err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

package object

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterKind is a kind of cluster-scoped objects that a chart may make, with names that tell which custom
// resource they belong to.
type ClusterKind struct {
	// Kind with its group: ClusterRole.rbac.authorization.k8s.io.
	Kind string `json:"kind"`
	// Name is the pattern of the names. It must have {namespace} and {name}, those of the custom resource:
	// otherwise custom resources could make objects with each other's names. * stands for any text.
	Name string `json:"name"`
}

const ownerName = "{name}"

// webhooks is the suffix of the kinds by which the API server calls webhooks.
const webhooks = "WebhookConfiguration"

// namedByKubernetes are the kinds whose names are determined by what they are for.
var namedByKubernetes = []string{"CustomResourceDefinition.apiextensions.k8s.io", "APIService.apiregistration.k8s.io"}

// clusterName matches the pattern of a cluster-scoped name, once it is filled in. Names of RBAC objects may
// have a colon.
var clusterName = regexp.MustCompile(`^[-A-Za-z0-9.:*]+$`)

// Of replaces {namespace} and {name} in a text by those of a custom resource.
func Of(owner metav1.Object, text string) string {
	return strings.NewReplacer(hostNamespace, owner.GetNamespace(), ownerName, owner.GetName()).Replace(text)
}

// IsOf is whether a text has something for Of to replace.
func IsOf(text string) bool {
	return strings.Contains(text, hostNamespace) || strings.Contains(text, ownerName)
}

func (c ClusterKind) validate() error {
	if !kindPattern.MatchString(c.Kind) {
		return fmt.Errorf("allow.cluster: %q is no kind with its group: write ClusterRole.rbac.authorization.k8s.io", c.Kind)
	}
	if strings.Contains(c.Kind, "AdmissionPolicy") {
		return fmt.Errorf("allow.cluster: %s: nothing bounds an admission policy to a namespace, not even another one", c.Kind)
	}
	if !strings.Contains(c.Name, hostNamespace) || !strings.Contains(c.Name, ownerName) || !clusterName.MatchString(Of(&metav1.ObjectMeta{Namespace: "a", Name: "a"}, c.Name)) {
		return fmt.Errorf("allow.cluster: %q is no pattern of names for one custom resource: write %s-%s-*, or another one with both of these", c.Name, hostNamespace, ownerName)
	}
	return nil
}

// HasCluster is whether the chart may make cluster-scoped objects of a kind, by some name.
func (a Allow) HasCluster(kind schema.GroupKind) bool {
	return slices.ContainsFunc(a.Cluster, func(c ClusterKind) bool { return c.Kind == kind.String() })
}

// InNoNamespace is why owner may not have a cluster-scoped object; nil if it may.
func (a Allow) InNoNamespace(owner metav1.Object, kind schema.GroupKind, name string) error {
	if slices.ContainsFunc(a.Cluster, func(c ClusterKind) bool {
		matches, err := path.Match(Of(owner, c.Name), name) // a name has no "/", and * matches none
		return c.Kind == kind.String() && err == nil && matches
	}) {
		return nil
	}
	var remedy string
	if one, err := suggestion(owner, kind, name); err == nil {
		remedy = fmt.Sprintf(": [{kind: %s, name: %q}]", one.Kind, one.Name)
		if strings.HasSuffix(kind.Kind, webhooks) {
			remedy += ", if it is asked about that namespace only: pin its namespaceSelector"
		}
	} else {
		remedy = ", and " + err.Error()
	}
	return fmt.Errorf("%s: the operator's watches.yaml allows such only by allow.cluster%s", Describe(kind.Kind, "", name), remedy)
}

// suggestion is the entry of allow.cluster that would allow a cluster-scoped object of owner. The error is
// the rest of a sentence that begins with "by allow.cluster, and".
func suggestion(owner metav1.Object, kind schema.GroupKind, name string) (ClusterKind, error) {
	if slices.Contains(namedByKubernetes, kind.String()) {
		return ClusterKind{}, errors.New("this one not at all: it is for the whole cluster, by a name that no chart chooses: have who runs the cluster install it before, and turn it off in the chart")
	}
	pattern, ok := patternOf(owner, name)
	if !ok {
		return ClusterKind{}, fmt.Errorf(`by names with namespace and name of the custom resource: overrideValues: {fullnameOverride: "%s-%s"} for most charts. A name that stays the same with it is fixed: turn the object off in the chart`, hostNamespace, ownerName)
	}
	one := ClusterKind{Kind: kind.String(), Name: pattern}
	if err := one.validate(); err != nil {
		return one, fmt.Errorf("this one not at all: %w", err)
	}
	return one, nil
}

// patternOf is a pattern by which a cluster-scoped object of owner can be allowed. ok is false if the name
// does not tell which custom resource the object belongs to.
func patternOf(owner metav1.Object, name string) (pattern string, ok bool) {
	namespaced, named := [2]string{owner.GetNamespace(), "\x00"}, [2]string{owner.GetName(), "\x01"}
	first := func(text, old, mark string) string { return strings.Replace(text, old, mark, 1) }
	for _, replace := range []func(text, old, mark string) string{replaceParts, first} {
		for _, order := range [][2][2]string{{namespaced, named}, {named, namespaced}} { // one may contain the other
			pattern = name
			for _, each := range order {
				pattern = replace(pattern, each[0], each[1])
			}
			if strings.Contains(pattern, "\x00") && strings.Contains(pattern, "\x01") {
				return strings.NewReplacer("\x00", hostNamespace, "\x01", ownerName).Replace(pattern), true
			}
		}
	}
	return "", false
}

// replaceParts replaces the parts of a name that equal old by mark. Parts are separated by "-", "." or ":".
func replaceParts(name, old, mark string) string {
	part := regexp.MustCompile(`(^|[-.:])` + regexp.QuoteMeta(old) + `([-.:]|$)`)
	for part.MatchString(name) { // more than once, because adjacent parts share a separator
		name = part.ReplaceAllString(name, "${1}"+mark+"${2}")
	}
	return name
}

// namespaceLabel is the label that Kubernetes sets on each namespace to its name, and that nobody can change.
const namespaceLabel = corev1.LabelMetadataName

// CheckReach is why a webhook configuration may not exist: the API server must ask it only about requests for
// objects of one namespace, by a selector. The selector does not hold for cluster-scoped objects, so that the
// resources in its rules must be namespaced; isNamespaced tells.
func CheckReach(o *unstructured.Unstructured, namespace string, isNamespaced func(schema.GroupResource) bool) error {
	if !strings.HasSuffix(o.GetKind(), webhooks) {
		return nil
	}
	for _, webhook := range elements(o.Object["webhooks"]) {
		part := fields(webhook)
		if !selects(fields(part["namespaceSelector"]), namespace) {
			return fmt.Errorf("%s is asked about other namespaces, too: the operator's watches.yaml allows it to be asked about that of the custom resource, by namespaceSelector: {matchLabels: {%s: %s}}",
				Describe(o.GetKind(), "", o.GetName()), namespaceLabel, namespace)
		}
		bounded := func(rule any) bool { return boundedRule(fields(rule), isNamespaced) }
		if slices.ContainsFunc(elements(part["rules"]), func(rule any) bool { return !bounded(rule) }) {
			return fmt.Errorf("%s is asked about cluster-scoped objects, too: the operator's watches.yaml allows it to be asked about namespaced ones, by scope: Namespaced in its rules",
				Describe(o.GetKind(), "", o.GetName()))
		}
	}
	return nil
}

// selects is whether a selector of namespaces selects no other one than namespace.
func selects(selector map[string]any, namespace string) bool {
	if fields(selector["matchLabels"])[namespaceLabel] == namespace {
		return true
	}
	return slices.ContainsFunc(elements(selector["matchExpressions"]), func(expression any) bool {
		e := fields(expression)
		values := elements(e["values"])
		return e["key"] == namespaceLabel && e["operator"] == "In" && len(values) == 1 && values[0] == namespace
	})
}

// boundedRule is whether a rule is about namespaced objects only.
func boundedRule(rule map[string]any, isNamespaced func(schema.GroupResource) bool) bool {
	if rule["scope"] == "Namespaced" {
		return true
	}
	for _, group := range elements(rule["apiGroups"]) {
		for _, name := range elements(rule["resources"]) {
			resource, _, _ := strings.Cut(fmt.Sprint(name), "/")
			if !isNamespaced(schema.GroupResource{Group: fmt.Sprint(group), Resource: resource}) {
				return false
			}
		}
	}
	return true
}

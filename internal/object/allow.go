package object

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Allow is what the authors of custom resources of a kind may ask of controllers that serve others, too. By
// default, that is nothing: the operator may create an Ingress where they may not, and whoever gets a host gets
// its visitors.
type Allow struct {
	// Hosts are host names and addresses. A leading *. stands for every name below the rest, * for every
	// host, and {namespace} for the namespace of the custom resource.
	Hosts []string `json:"hosts,omitempty"`
	// Annotations are keys of annotations. * at the end stands for any end.
	Annotations []string `json:"annotations,omitempty"`
	// Kinds are kinds that are not Kubernetes' own, such as VirtualService.networking.istio.io: the operator
	// cannot tell which hosts they ask for.
	Kinds []string `json:"kinds,omitempty"`
	// Cluster are the kinds of cluster-scoped objects that the chart may make. Their content must be the
	// chart's alone.
	Cluster []ClusterKind `json:"cluster,omitempty"`
	// Pods are what the pods of the chart may use, of PodSecrets, PodServiceAccounts and PodHost, where a
	// policy bounds what the operator may make (config/policy). The chart decides whether they do.
	Pods []string `json:"pods,omitempty"`
	// Values are values of the chart that are fields of the custom resource although they give its author
	// more power, or may: image.tag, or image for all below it. `make manifests` says which values these are.
	Values []string `json:"values,omitempty"`
	// Options are what authors may set by annotations of the stock Helm operators: OptionDisableHooks and
	// OptionReconcilePeriod.
	Options []string `json:"options,omitempty"`
	// Adopt is whether custom resources may take over objects that nobody owns, for example of `helm
	// install`, if the annotation AdoptFor of these says so.
	Adopt bool `json:"adopt,omitempty"`
}

// What Allow.Options may have.
const (
	OptionDisableHooks    = "disable-hooks"
	OptionReconcilePeriod = "reconcile-period"
)

// What Allow.Pods may have.
const (
	PodSecrets         = "secrets"
	PodServiceAccounts = "serviceAccounts"
	PodHost            = "host"
)

const (
	// everyHost is what an object without a host asks for, and the pattern that allows it.
	everyHost     = "*"
	hostNamespace = "{namespace}"
)

var (
	hostPattern       = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	annotationPattern = regexp.MustCompile(`^([-A-Za-z0-9_./]*\*|[-A-Za-z0-9_./]*[A-Za-z0-9])$`)
	kindPattern       = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9][-a-z0-9]*)+$`)
	// freeKey matches keys of annotations that no controller obeys: controllers' keys have a prefix, or are
	// names in a domain.
	freeKey = regexp.MustCompile(`^[-A-Za-z0-9_]*$`)
	// helmKey matches annotations for Helm, and so for the operator, which is limited to what the custom
	// resource owns.
	helmKey = regexp.MustCompile(`^helm\.sh/`)
	// checksumKey and checksum match the annotations by which charts restart pods when their configuration
	// changes. No controller obeys them.
	checksumKey, checksum = regexp.MustCompile(`^checksum/`), regexp.MustCompile(`^[0-9a-f]*$`)
)

// Validate fails for entries that make no sense.
func (a Allow) Validate() error {
	for _, host := range a.Hosts {
		plain := strings.ReplaceAll(host, hostNamespace, "namespace")
		if host != everyHost && net.ParseIP(host) == nil && !hostPattern.MatchString(plain) {
			return fmt.Errorf("allow.hosts: %q is no host: write hello.example.com, *.example.com for every name below, *.%s.example.com for those of the custom resource's namespace, an address, or * for every host", host, hostNamespace)
		}
	}
	for _, key := range a.Annotations {
		if !annotationPattern.MatchString(key) {
			return fmt.Errorf("allow.annotations: %q is no key of an annotation: write example.com/key, or example.com/* for every key that begins so", key)
		}
	}
	for _, kind := range a.Kinds {
		if !kindPattern.MatchString(kind) {
			return fmt.Errorf("allow.kinds: %q is no kind with its group: write VirtualService.networking.istio.io", kind)
		}
	}
	for _, kind := range a.Cluster {
		if err := kind.validate(); err != nil {
			return err
		}
	}
	for _, word := range a.Pods {
		if !slices.Contains([]string{PodSecrets, PodServiceAccounts, PodHost}, word) {
			return fmt.Errorf("allow.pods: %q is none of %s, %s and %s", word, PodSecrets, PodServiceAccounts, PodHost)
		}
	}
	for _, word := range a.Options {
		if !slices.Contains([]string{OptionDisableHooks, OptionReconcilePeriod}, word) {
			return fmt.Errorf("allow.options: %q is neither %s nor %s", word, OptionDisableHooks, OptionReconcilePeriod)
		}
	}
	return nil
}

// Ask is what an object asks of controllers that serve others, too.
type Ask struct {
	kind, name string // of the object
	what       string // host, annotation, kind or content
	key, value string
}

func (a Ask) String() string {
	object := fmt.Sprintf("%s %q", a.kind, a.name)
	if a.what == "content" {
		return object + ", which is not as the chart makes it for a custom resource that says nothing: only overrideValues there may change it"
	}
	key := fmt.Sprintf("%s %q", a.what, a.key)
	if a.what == "host" && a.key == everyHost {
		key = "every host"
	}
	return key + " (" + object + ")"
}

// Asks lists what an object asks for.
func Asks(o *unstructured.Unstructured) []Ask {
	ask := func(what, key, value string) Ask { return Ask{o.GetKind(), o.GetName(), what, key, value} }
	kind := o.GroupVersionKind().GroupKind()
	var asks []Ask
	hosts, known := hostsOf(o)
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		asks = append(asks, ask("host", host, ""))
	}
	if !known {
		asks = append(asks, ask("kind", kind.String(), contentOf(o)))
	}
	if HandsOut(kind) || InNoNamespace(o) {
		asks = append(asks, ask("content", kind.String(), contentOf(o)))
	}
	eachAnnotation("", o.Object, func(key, text string) { asks = append(asks, ask("annotation", key, text)) })
	return asks
}

// HandsOut is whether objects of a kind grant rights.
func HandsOut(kind schema.GroupKind) bool { return kind.Group == rbacv1.GroupName }

// contentOf is the content of an object without the chart's version and what charts generate anew at each
// rendering.
func contentOf(o *unstructured.Unstructured) string {
	if kind := o.GetKind(); HandsOut(o.GroupVersionKind().GroupKind()) && (kind == "Role" || kind == "RoleBinding") { // nobody obeys their labels
		content, _ := json.Marshal([]any{o.Object["rules"], o.Object["roleRef"], o.Object["subjects"]})
		return string(content)
	}
	o = o.DeepCopy()
	labels := o.GetLabels()
	for _, label := range ofVersion {
		delete(labels, label)
	}
	o.SetLabels(labels)
	for _, webhook := range elements(o.Object["webhooks"]) {
		delete(fields(fields(webhook)["clientConfig"]), "caBundle")
	}
	content, _ := json.Marshal(o.Object) // it came as JSON
	return string(content)
}

// eachAnnotation finds annotations wherever they are: in an object, in its pod template, in its template of
// objects with a pod template, and in whatever else a kind hands on. Those that no controller obeys do not count,
// nor do Helm's own on the object itself: the operator overwrites them.
func eachAnnotation(path string, value any, found func(key, text string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			annotations, ok := value[key].(map[string]any)
			if key != "annotations" || !ok {
				eachAnnotation(path+"."+key, value[key], found)
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(annotations)) {
				text := fmt.Sprint(annotations[key])
				if freeKey.MatchString(key) || helmKey.MatchString(key) || checksumKey.MatchString(key) && checksum.MatchString(text) {
					continue
				}
				if path == ".metadata" && (key == ReleaseName || key == ReleaseNamespace) {
					continue
				}
				found(key, text)
			}
		}
	case []any:
		for _, element := range value {
			eachAnnotation(path+"[]", element, found)
		}
	}
}

// hostsOf lists the hosts and addresses that an object claims or leads to. known is whether that can be told
// for its kind.
func hostsOf(o *unstructured.Unstructured) (hosts []string, known bool) {
	claim := func(value any) {
		for _, host := range elements(value) {
			hosts = append(hosts, strings.TrimSuffix(strings.ToLower(fmt.Sprint(host)), "."))
		}
	}
	// orEvery is claim for lists of which an empty one means every host.
	orEvery := func(value any) {
		if len(elements(value)) == 0 {
			value = everyHost
		}
		claim(value)
	}
	spec := fields(o.Object["spec"])
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, schema.GroupKind{Group: "extensions", Kind: "Ingress"}:
		for _, rule := range elements(spec["rules"]) {
			orEvery(fields(rule)["host"])
		}
		for _, tls := range elements(spec["tls"]) {
			orEvery(fields(tls)["hosts"])
		}
		if spec["defaultBackend"] != nil || spec["backend"] != nil {
			claim(everyHost)
		}
	case schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}, schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"},
		schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "TLSRoute"}:
		orEvery(spec["hostnames"])
	case schema.GroupKind{Group: "route.openshift.io", Kind: "Route"}:
		claim(spec["host"]) // without a host, the router makes one of name and namespace
		claim(spec["subdomain"])
		if policy := spec["wildcardPolicy"]; policy != nil && policy != "None" {
			claim(everyHost)
		}
	case schema.GroupKind{Kind: "Service"}:
		for _, ip := range slices.Concat(elements(spec["clusterIP"]), elements(spec["clusterIPs"])) {
			if ip != "None" {
				claim(ip)
			}
		}
		claim(spec["externalIPs"])
		claim(spec["loadBalancerIP"])
		claim(spec["externalName"])
	case schema.GroupKind{Kind: "Endpoints"}:
		for _, subset := range elements(o.Object["subsets"]) {
			for _, address := range slices.Concat(elements(fields(subset)["addresses"]), elements(fields(subset)["notReadyAddresses"])) {
				claim(fields(address)["ip"])
			}
		}
	case schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		for _, endpoint := range elements(o.Object["endpoints"]) {
			claim(fields(endpoint)["addresses"])
		}
	default:
		return nil, builtIn.Recognizes(o.GroupVersionKind())
	}
	return hosts, true
}

// Refused are those of asks that a does not allow in a namespace.
func (a Allow) Refused(namespace string, asks []Ask) []Ask {
	return slices.DeleteFunc(slices.Clone(asks), func(ask Ask) bool { return a.allows(namespace, ask) })
}

func (a Allow) allows(namespace string, ask Ask) bool {
	switch ask.what {
	case "host":
		return slices.ContainsFunc(a.in(namespace).Hosts, func(pattern string) bool {
			below, wild := strings.CutPrefix(pattern, "*")
			return pattern == ask.key || pattern == everyHost || wild && hostPattern.MatchString(ask.key) && strings.HasSuffix(ask.key, below)
		})
	case "annotation":
		return slices.ContainsFunc(a.Annotations, func(pattern string) bool {
			begin, wild := strings.CutSuffix(pattern, "*")
			return pattern == ask.key || wild && strings.HasPrefix(ask.key, begin)
		})
	case "kind":
		return slices.Contains(a.Kinds, ask.key) || slices.ContainsFunc(a.Cluster, func(c ClusterKind) bool { return c.Kind == ask.key })
	default:
		// What concerns the whole cluster is not for authors to say, nor are rights, which the operator may
		// hand out for another kind.
		return false
	}
}

// in is a with {namespace} replaced by a namespace.
func (a Allow) in(namespace string) Allow {
	hosts := make([]string, len(a.Hosts))
	for i, host := range a.Hosts {
		hosts[i] = strings.ReplaceAll(host, hostNamespace, namespace)
	}
	a.Hosts = hosts
	return a
}

// told bounds how many refused asks are shown.
const told = 5

// Refusal says to the author of a custom resource what is refused, what is allowed, and who can change that.
func (a Allow) Refusal(namespace string, refused []Ask) error {
	var asks []string
	for _, ask := range refused {
		asks = append(asks, ask.String())
	}
	more := ""
	if allowance := (Allow{}).allowing(refused[:min(len(refused), told)]).String(); allowance != (Allow{}).String() {
		more = "; it would take " + allowance
	}
	return fmt.Errorf("not allowed: %s. In namespace %s, the operator's watches.yaml allows hosts: %s; annotations with a prefix: %s; kinds that are not Kubernetes' own: %s%s",
		strings.Join(Few(asks, told), ", "), namespace, orNone(a.in(namespace).Hosts), orNone(a.Annotations), orNone(a.Kinds), more)
}

func orNone(allowed []string) string {
	if len(allowed) == 0 {
		return "none"
	}
	return strings.Join(allowed, ", ")
}

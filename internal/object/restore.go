package object

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// othersUnlessSet lists, for kinds whose whole spec belongs to the chart, the fields that belong to others
// unless the chart sets them: what the cluster assigns, and what Kubernetes' own tools and well-known
// controllers write. An update has to keep these. Every other field that somebody has added gets its default
// again.
var othersUnlessSet = map[schema.GroupKind][]pointer{
	{Group: "apps", Kind: "Deployment"}:                     pointers(replicas, "/spec/paused", restartedAt), // kubectl rollout pause, restart
	StatefulSet:                                             pointers(replicas, restartedAt),
	{Group: "apps", Kind: "DaemonSet"}:                      pointers(restartedAt),
	{Group: "batch", Kind: "CronJob"}:                       pointers("/spec/suspend"), // kubectl patch, before a maintenance
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {},
	{Group: "networking.k8s.io", Kind: "Ingress"}:           pointers("/spec/ingressClassName"), // the default class
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     {},
	{Group: "policy", Kind: "PodDisruptionBudget"}:          {},
	service: pointers("/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy", "/spec/healthCheckNodePort",
		"/spec/loadBalancerClass", "/spec/loadBalancerIP"), // controllers of load balancers write the last
}

// notAssigned are those of othersUnlessSet that no cluster assigns, and that are removed when the chart no
// longer sets them. The others stay: an Ingress that loses its class gets no default one, which only new ones
// get, and replicas belong from then on to whoever scales, except 0, see isStop.
var notAssigned = pointers("/spec/paused", "/spec/suspend", restartedAt, "/spec/loadBalancerIP")

// othersIn are the fields of an object that may belong to others: those of othersUnlessSet, the node ports of a
// Service, and the size of a claim.
func othersIn(object *unstructured.Unstructured) []pointer {
	kind := object.GroupVersionKind().GroupKind()
	others := slices.Clip(othersUnlessSet[kind])
	switch kind {
	case service:
		for i := range min(len(list(field(object.Object["spec"], "ports"))), maxPorts) {
			others = append(others, pointer{"spec", "ports", strconv.Itoa(i), "nodePort"})
		}
	case Claim:
		others = append(others, storage)
	}
	return others
}

// maxPorts bounds the ports of a Service whose node ports belong to others: each costs a look at all of them.
const maxPorts = 100

var (
	service   = schema.GroupKind{Kind: "Service"}
	clusterIP = mustPointer("/spec/clusterIP")
	storage   = mustPointer("/spec/resources/requests/storage")
)

const (
	replicas    = "/spec/replicas" // an autoscaler's
	restartedAt = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt"
)

func pointers(texts ...string) []pointer {
	all := make([]pointer, len(texts))
	for i, text := range texts {
		all[i] = mustPointer(text)
	}
	return all
}

// isTheCharts is whether a change of others at p is a drift.
func isTheCharts(p pointer, desired *unstructured.Unstructured, left Left) bool {
	if slices.ContainsFunc(left, func(ignored pointer) bool { return ignored.covers(p) }) {
		return false
	}
	_, set, _ := p.in(desired.Object)
	if finalizers.covers(p) {
		set = slices.Contains(desired.GetFinalizers(), p[len(finalizers)])
	}
	isOthers := p[0] == "metadata" || slices.ContainsFunc(othersIn(desired), func(other pointer) bool { return slices.Equal(other, p) })
	return set || !isOthers
}

// Restore returns live with everything put back that the chart wants, except what is left to others. Labels,
// annotations and finalizers that the chart does not set stay: by convention they belong to everybody. So do
// other fields that it does not set, of kinds that are not in othersUnlessSet: their controllers may have set
// them. What previous has and desired lacks is removed, except replicas, whose default of one would hold until
// an autoscaler has counted. previous is nil if nothing proves what the chart wanted before.
func Restore(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	live, desired = live.DeepCopy(), desired.DeepCopy()
	var before map[string]any
	switch {
	case previous == nil || previous.GroupVersionKind().GroupKind() != desired.GroupVersionKind().GroupKind():
	case previous.GetAPIVersion() == desired.GetAPIVersion():
		before = previous.Object
	default:
		before = unconverted(previous.Object, live.Object)
		before["metadata"] = previous.Object["metadata"]
	}
	if live.GroupVersionKind().GroupKind() == Pod {
		desired.Object = withInjected(before, live.Object, desired.Object).(map[string]any)
	}
	content := dropsEmpty(builtIn.Recognizes(desired.GroupVersionKind())).mergeMap(before, live.Object, desired.Object)
	wanted, hasSpec := desired.Object["spec"].(map[string]any)
	if others, known := othersUnlessSet[live.GroupVersionKind().GroupKind()]; known && hasSpec {
		spec := maps.Clone(wanted)
		current := fields(live.Object["spec"])
		if ports, ok := wanted["ports"]; ok { // of a Service
			spec["ports"] = withNodePorts(list(ports), list(current["ports"]))
		}
		if rules, ok := wanted["rules"]; ok { // of an Ingress
			spec["rules"] = withChallenges(list(rules), list(current["rules"]))
		}
		content["spec"] = spec
		for _, p := range others {
			_, set, _ := p.in(content)
			value, ok, _ := p.in(live.Object)
			was, had, _ := p.in(before)
			dropped := had && reflect.DeepEqual(was, value) && (isStop(p, value) || slices.ContainsFunc(notAssigned, func(other pointer) bool { return slices.Equal(other, p) }))
			if ok && !set && !dropped {
				content = p.set(content, value, true).(map[string]any)
			}
		}
	}
	if live.GetKind() == "ServiceAccount" {
		content = withAccountSecrets(content, live.Object, live.GetName())
	}
	content = withFinalizers(content, &unstructured.Unstructured{Object: before}, live, desired)
	restored := &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(content, live.Object)}
	restored.SetOwnerReferences(live.GetOwnerReferences())
	return restored
}

// unconverted is the part of a previous object, in another API version, that live has as well. The rest may
// have another meaning or name in live's version.
func unconverted(previous, live map[string]any) map[string]any {
	same := map[string]any{}
	for key, value := range previous {
		if inner, there := fields(value), fields(live[key]); inner != nil && there != nil {
			same[key] = unconverted(inner, there)
		} else if reflect.DeepEqual(value, live[key]) {
			same[key] = value
		} else if elements := unconvertedList(list(value), list(live[key])); elements != nil {
			same[key] = elements
		}
	}
	return same
}

// unconvertedList is unconverted for lists whose elements correspond, each to one; else nil. The API server may
// have added defaults to elements.
func unconvertedList(previous, live []any) (same []any) {
	if len(previous) != len(live) {
		return nil
	}
	for i, there := range counterparts(live, previous) {
		inner := unconverted(fields(previous[i]), fields(there))
		if len(inner) == 0 {
			return nil
		}
		same = append(same, inner)
	}
	return same
}

// Reset is Restore for an object that the API server refuses with what others have set in it. That is removed,
// except labels, annotations and what is left to others; the API server assigns again what it assigns. Replicas
// stay: they are never refused, and their default would end pods.
func Reset(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	bare := live.DeepCopy()
	for key := range live.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" && key != "status" {
			delete(bare.Object, key)
		}
	}
	reset := Restore(previous, bare, desired, nil)
	reset.Object = left.andReplicas(previous, live, desired).keep(reset.Object, live.Object)
	return reset
}

// Anew is the object to create in place of live.
func Anew(previous, live, desired *unstructured.Unstructured, left Left) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: left.andReplicas(previous, live, desired).keep(desired.DeepCopy().Object, live.Object)}
}

// StaysHeadless is whether a Service would stay headless though the chart no longer wants that. Of all that a
// chart drops, this is the only field that the API server keeps without an error.
func StaysHeadless(previous, live, desired *unstructured.Unstructured, left Left) bool {
	isHeadless := func(object *unstructured.Unstructured) bool {
		return object != nil && field(object.Object["spec"], "clusterIP") == corev1.ClusterIPNone
	}
	return desired.GroupVersionKind().GroupKind() == service && isHeadless(previous) && isHeadless(live) && !isHeadless(desired) &&
		field(desired.Object["spec"], "type") != string(corev1.ServiceTypeExternalName) && isTheCharts(clusterIP, previous, left)
}

// isStop is whether a value is a replica count of 0. That does not stay once the chart no longer sets it: no
// autoscaler scales up from 0.
func isStop(p pointer, value any) bool { return p.String() == replicas && fmt.Sprint(value) == "0" }

// withNodePorts are the wanted ports of a Service, each with the node port of the live port of the same name or
// else number. None is used twice for a protocol, which the API server would refuse.
func withNodePorts(wanted, live []any) []any {
	ports, taken := slices.Clone(wanted), map[string]bool{}
	nodePort := func(of, at any) string {
		return fmt.Sprint(cmp.Or(field(of, "protocol"), any("TCP")), field(at, "nodePort"))
	}
	for _, port := range wanted {
		taken[nodePort(port, port)] = true
	}
	for _, key := range []string{"name", "port"} {
		for i, port := range ports {
			port, ok := port.(map[string]any)
			if !ok || port["nodePort"] != nil {
				continue // one that is none, the API server tells of
			}
			at := slices.IndexFunc(live, func(other any) bool {
				return field(other, key) == port[key] && field(other, "nodePort") != nil && !taken[nodePort(port, other)]
			})
			if at >= 0 {
				taken[nodePort(port, live[at])] = true
				port = maps.Clone(port)
				port["nodePort"] = field(live[at], "nodePort")
				ports[i] = port
			}
		}
	}
	return ports
}

package object

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// othersUnlessSet lists, for kinds whose whole spec belongs to the chart, the fields that belong to others
// unless the chart sets them: what the cluster assigns, and what Kubernetes' own tools and well-known
// controllers write. An update has to keep these. Every other field that somebody has added gets its default
// again.
var othersUnlessSet = map[schema.GroupKind][]pointer{
	{Group: "apps", Kind: "Deployment"}:                     slices.Concat(pointers("/spec/replicas", "/spec/paused"), restarts), // kubectl rollout pause, restart
	StatefulSet:                                             slices.Concat(pointers("/spec/replicas"), restarts),
	{Group: "apps", Kind: "DaemonSet"}:                      restarts,
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
// get, and replicas belong from then on to whoever scales, except 0, see isStopped.
var notAssigned = slices.Concat(pointers("/spec/paused", "/spec/suspend", "/spec/loadBalancerIP"), restarts)

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
	replicas  = mustPointer("/spec/replicas") // an autoscaler's
)

// restarts are the annotations of a pod template by which others have the pods replaced. To take one off again
// would bring back the pods of before.
var restarts = pointers(
	"/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt",
	"/spec/template/metadata/annotations/openshift.openshift.io~1restartedAt",       // OpenShift's console
	"/spec/template/metadata/annotations/cattle.io~1timestamp",                      // Rancher
	"/spec/template/metadata/annotations/kubesphere.io~1restartedAt",                // KubeSphere's console
	"/spec/template/metadata/annotations/vso.secrets.hashicorp.com~1restartedAt",    // Vault Secrets Operator
	"/spec/template/metadata/annotations/operator.1password.io~1last-restarted",     // 1Password's operator
	"/spec/template/metadata/annotations/reloader.stakater.com~1last-reloaded-from", // Reloader, see reload.go
	"/spec/template/metadata/annotations/wave.pusher.com~1config-hash",              // Wave, a digest of what pods read
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
	return set || p[0] != "metadata" && !p.among(othersIn(desired))
}

// isStopped is whether an object has 0 replicas. They do not stay once the chart no longer sets them: no
// autoscaler scales up from 0.
func isStopped(object *unstructured.Unstructured) bool {
	return object != nil && fmt.Sprint(field(object.Object["spec"], "replicas")) == "0"
}

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

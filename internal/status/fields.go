package status

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// describeObjects fills the fields that come from the objects of the release. Those of objects that are not
// seen just now keep their values; an object that does not exist has no pods and no page.
func (s *Status) describeObjects(seen observation) {
	if seen.state.Revision > 0 { // else the path is not known yet, and the stored URL still holds
		isUnseen := func(o childState) bool { return o.live == nil && !o.gone }
		if url := pageURL(seen.objects, seen.state.PagePath); url != "" || seen.state.Children != nil && !slices.ContainsFunc(seen.objects, isUnseen) {
			s.URL = url
		}
	}
	var workloads, replicas, ready int32
	selector := s.Selector
	for _, o := range seen.objects {
		switch {
		case !o.isWorkload():
		case o.live != nil:
			workloads++
			replicas, ready = replicas+count(o.live, "replicas"), ready+count(o.live, "readyReplicas")
			selector = podSelector(o.live)
		case o.gone:
			workloads++
		default:
			return
		}
	}
	switch {
	case workloads == 0 && seen.state.Children == nil:
		return // not known yet
	case workloads != 1: // no selector has all of their pods, and only them
		selector = ""
	}
	s.Replicas, s.ReadyReplicas, s.Selector = replicas, ready, selector
}

// isWorkload is whether an object counts its pods in the way of Deployments, StatefulSets
// and ReplicaSets.
func (o childState) isWorkload() bool {
	return o.hasPods() && o.Kind != "DaemonSet"
}

// hasPods is whether an object keeps pods running, which its selector finds.
func (o childState) hasPods() bool { return strings.HasPrefix(o.APIVersion, "apps/") }

func (o childState) isJob() bool {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind() == object.Job
}

func count(o *unstructured.Unstructured, field string) int32 {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", field)
	return int32(n)
}

// podSelector is the selector of a workload's pods in the form of kubectl's --selector.
func podSelector(o *unstructured.Unstructured) string {
	content, _, _ := unstructured.NestedMap(o.Object, "spec", "selector")
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector); err != nil {
		return ""
	}
	return metav1.FormatLabelSelector(selector)
}

// pageURL is where the page is reached: at the load balancer, otherwise at the ingress,
// otherwise inside of the cluster. It ends in path.
func pageURL(objects []childState, path string) string {
	var inside, outside string
	for _, o := range objects {
		if o.live == nil {
			continue
		}
		switch o.live.GroupVersionKind().GroupKind().String() {
		case "Service":
			service := &corev1.Service{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.live.Object, service) != nil {
				continue
			}
			i := slices.IndexFunc(service.Spec.Ports, servesPages)
			if i < 0 {
				continue
			}
			port := service.Spec.Ports[i]
			if addresses := service.Status.LoadBalancer.Ingress; len(addresses) > 0 {
				return pageAt(cmp.Or(addresses[0].Hostname, addresses[0].IP), port, path)
			}
			inside = pageAt(service.Name+"."+service.Namespace+".svc", port, path)
		case "Ingress.networking.k8s.io":
			ingress := &networkingv1.Ingress{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.live.Object, ingress) == nil {
				outside = cmp.Or(outside, ingressURL(ingress, path))
			}
		}
	}
	return cmp.Or(outside, inside)
}

// HasPage is whether an object, as a chart makes it, may be where a page is reached.
func HasPage(o *unstructured.Unstructured) bool {
	switch o.GroupVersionKind().GroupKind().String() {
	case "Service":
		service := &corev1.Service{}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, service) == nil && slices.ContainsFunc(service.Spec.Ports, servesPages)
	case "Ingress.networking.k8s.io":
		return true
	}
	return false
}

// servesPages is whether a port says that it speaks HTTP, or has a number that is taken for that.
func servesPages(port corev1.ServicePort) bool {
	said := spoken(port)
	isPage := strings.HasPrefix(said, "http") || strings.HasPrefix(said, "web") && !strings.HasPrefix(said, "webhook")
	return isPage || port.Port == 80 || port.Port == 8080
}

// spoken is what a port says that it speaks.
func spoken(port corev1.ServicePort) string {
	return strings.ToLower(cmp.Or(ptr.Deref(port.AppProtocol, ""), port.Name))
}

func pageAt(host string, port corev1.ServicePort, path string) string {
	scheme, usual := "http://", ":80"
	if said := spoken(port); strings.HasPrefix(said, "https") || said == "websecure" { // as Traefik calls it
		scheme, usual = "https://", ":443"
	}
	return scheme + strings.TrimSuffix(net.JoinHostPort(host, strconv.Itoa(int(port.Port))), usual) + path
}

// ingressURL is empty if the ingress names no host that can be asked for the path.
func ingressURL(ingress *networkingv1.Ingress, path string) string {
	for _, rule := range ingress.Spec.Rules {
		if rule.Host == "" || strings.HasPrefix(rule.Host, "*") || rule.HTTP != nil && !slices.ContainsFunc(rule.HTTP.Paths, leadsTo(path)) {
			continue
		}
		scheme := "http://"
		if slices.ContainsFunc(ingress.Spec.TLS, secures(rule.Host)) {
			scheme = "https://"
		}
		return scheme + rule.Host + path
	}
	return ""
}

// secures is whether a part of an ingress has a certificate for host, for all below the same name, or for all.
func secures(host string) func(networkingv1.IngressTLS) bool {
	_, below, _ := strings.Cut(host, ".")
	return func(tls networkingv1.IngressTLS) bool {
		return len(tls.Hosts) == 0 || slices.Contains(tls.Hosts, host) || slices.Contains(tls.Hosts, "*."+below)
	}
}

// leadsTo is whether requests for path go by a path of an ingress. Types other than Exact are
// prefixes of whole elements: /hell does not lead to /hello/.
func leadsTo(path string) func(networkingv1.HTTPIngressPath) bool {
	return func(p networkingv1.HTTPIngressPath) bool {
		if ptr.Deref(p.PathType, "") == networkingv1.PathTypeExact {
			return p.Path == path
		}
		return strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", strings.TrimSuffix(p.Path, "/")+"/")
	}
}

package status

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// describeObjects fills the fields that come from the objects of the release. Those of
// objects that nobody sees just now stay.
func (s *Status) describeObjects(seen observation) {
	if seen.state.Revision > 0 { // else the path is not known yet: what was written before still holds
		s.URL = cmp.Or(pageURL(seen.objects, seen.state.PagePath), s.URL)
	}
	for _, o := range seen.objects {
		if o.live != nil && isWorkload(o.live) {
			s.Replicas, s.ReadyReplicas = count(o.live, "replicas"), count(o.live, "readyReplicas")
			s.Selector = podSelector(o.live)
			return
		}
	}
}

// isWorkload is whether an object counts its pods in the way of Deployments, StatefulSets
// and ReplicaSets.
func isWorkload(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().Group == "apps" && o.GetKind() != "DaemonSet"
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
func pageURL(objects []object, path string) string {
	var inside, outside string
	for _, o := range objects {
		if o.live == nil {
			continue
		}
		switch o.live.GroupVersionKind().GroupKind().String() {
		case "Service":
			service := &corev1.Service{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.live.Object, service) != nil || len(service.Spec.Ports) == 0 {
				continue
			}
			port := service.Spec.Ports[0].Port
			if addresses := service.Status.LoadBalancer.Ingress; len(addresses) > 0 {
				return httpURL(cmp.Or(addresses[0].Hostname, addresses[0].IP), port, path)
			}
			inside = httpURL(service.Name+"."+service.Namespace+".svc", port, path)
		case "Ingress.networking.k8s.io":
			ingress := &networkingv1.Ingress{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.live.Object, ingress) == nil {
				outside = ingressURL(ingress, path)
			}
		}
	}
	if outside != "" {
		return outside
	}
	return inside
}

func httpURL(host string, port int32, path string) string {
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	return "http://" + strings.TrimSuffix(address, ":80") + path
}

func ingressURL(ingress *networkingv1.Ingress, path string) string {
	for _, rule := range ingress.Spec.Rules {
		if rule.Host == "" {
			continue
		}
		scheme := "http://"
		if len(ingress.Spec.TLS) > 0 {
			scheme = "https://"
		}
		return scheme + rule.Host + path
	}
	return ""
}

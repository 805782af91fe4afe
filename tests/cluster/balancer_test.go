//go:build linux

package main

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWithAddress(t *testing.T) {
	service := func(name string, kind corev1.ServiceType, class *string, address string) corev1.Service {
		s := corev1.Service{Spec: corev1.ServiceSpec{Type: kind, LoadBalancerClass: class}}
		s.Name = name
		if address != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		}
		return s
	}
	services := []corev1.Service{
		service("new", corev1.ServiceTypeLoadBalancer, nil, ""),
		service("inside", corev1.ServiceTypeClusterIP, nil, ""),
		service("old", corev1.ServiceTypeLoadBalancer, nil, "198.18.6.1"),
		service("another's", corev1.ServiceTypeLoadBalancer, new("example.com/lb"), ""),
		service("newer", corev1.ServiceTypeLoadBalancer, nil, ""),
		service("one too many", corev1.ServiceTypeLoadBalancer, nil, ""),
	}
	want := map[string]string{"new": "198.18.6.2", "newer": "198.18.6.3"}
	given := withAddress(services, netip.MustParsePrefix("198.18.6.0/30"))
	for _, s := range given {
		if got := s.Status.LoadBalancer.Ingress[0].IP; got != want[s.Name] {
			t.Errorf("%s has the address %s, want %q", s.Name, got, want[s.Name])
		}
	}
	if len(given) != len(want) {
		t.Errorf("%d Services got an address, want %d", len(given), len(want))
	}
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// balancerCommand gives Services of type LoadBalancer an address. That is all: kube-proxy answers at each
// address that it finds in the status of a Service, and the host routes the range to the node.
const balancerCommand = "balancer"

// balance ends with its watch, and is started again by the supervisor. What it decides on is listed each
// time: with a cache that is behind, two Services could get the same address.
func balance(ctx context.Context, c *cluster) error {
	if err := c.loadNetwork(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return fmt.Errorf("read %s: %w", c.kubeconfig(), err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	changes, err := api.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Services: %w", err)
	}
	defer changes.Stop()
	for range changes.ResultChan() {
		services, err := api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list Services: %w", err)
		}
		for _, service := range withAddress(services.Items, c.Network.Balanced) {
			_, err := api.CoreV1().Services(service.Namespace).UpdateStatus(ctx, &service, metav1.UpdateOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				continue // that change comes next
			}
			if err != nil {
				return fmt.Errorf("write the address of a Service: %w", err)
			}
			log.Printf("Service %s/%s has the address %s", service.Namespace, service.Name, service.Status.LoadBalancer.Ingress[0].IP)
		}
	}
	return errors.New("the watch of Services has ended")
}

// withAddress returns the Services that lack an address, each with the first of the range that none has. One
// with a class of load balancers is for somebody else to serve.
func withAddress(services []corev1.Service, addresses netip.Prefix) []corev1.Service {
	taken := map[string]bool{}
	var lacking []corev1.Service
	for _, service := range services {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			taken[ingress.IP] = true
		}
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
			lacking = append(lacking, service)
		}
	}
	var given []corev1.Service
	for address := addresses.Addr().Next(); len(given) < len(lacking) && addresses.Contains(address); address = address.Next() {
		if !taken[address.String()] {
			service := lacking[len(given)]
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address.String()}}
			given = append(given, service)
		}
	}
	return given
}

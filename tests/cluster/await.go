//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// patience is how long a component may take: the slowest takes some seconds on two
// idle cores.
const patience = 3 * time.Minute

// condition returns nil once it holds, and otherwise why it doesn't yet.
type condition func(context.Context) error

// await waits until the condition holds. When it fails it shows the end of the log
// of the component that is to blame.
func (c *cluster) await(ctx context.Context, component string, holds condition) error {
	var last error
	defer waiting.While(waiting.Stderr, component)()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if last = holds(ctx); last == nil {
			return true, nil
		}
		pid, err := c.runningMachine()
		if err == nil && pid == 0 {
			component = "machine"
			err = errors.New("the machine ended")
		}
		return false, err
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (%w)\n%s\nsee .cluster/logs/%s.log; `make cluster-down cluster` starts afresh",
		last, err, tail(c.log(component), 15), component)
}

// tail returns the last lines of a file, as far as it can be read.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (c *cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.kubeconfig(), err)
	}
	config.Timeout = 5 * time.Second
	return kubernetes.NewForConfig(config)
}

func apiReady(api kubernetes.Interface) condition {
	return func(ctx context.Context) error {
		if err := api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("the API server is not ready: %w", err)
		}
		return nil
	}
}

// nodeReady holds when the node is Ready by a report that is not older than the given
// time: right after a restart, etcd still holds what was true before.
func nodeReady(api kubernetes.Interface, name string, since time.Time) condition {
	return func(ctx context.Context) error {
		node, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the node is not registered: %w", err)
		}
		for _, cond := range node.Status.Conditions {
			if cond.Type != corev1.NodeReady {
				continue
			}
			// Times in the API are whole seconds.
			if cond.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
				return errors.New("the kubelet has not reported yet")
			}
			if cond.Status != corev1.ConditionTrue {
				return fmt.Errorf("the node is not ready: %s", cond.Message)
			}
			return nil
		}
		return errors.New("the node says nothing about being ready")
	}
}

// metricsServed holds when metrics-server answers for the API server.
func metricsServed(api kubernetes.Interface) condition {
	return func(context.Context) error {
		if _, err := api.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1"); err != nil {
			return fmt.Errorf("the metrics of pods are not served (`kubectl -n kube-system logs deployment/metrics-server`): %w", err)
		}
		return nil
	}
}

// dnsAnswers holds when CoreDNS answers the host at its ClusterIP: then pods run, and
// Services reach them. What the API says about pods is no proof right after a restart.
func (c *cluster) dnsAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(c.Network.DNS.String(), "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err != nil {
		return fmt.Errorf("the DNS doesn't answer (`kubectl -n kube-system describe pods`): %w", err)
	}
	if !slices.Equal(addresses, []string{c.Network.API.String()}) {
		return fmt.Errorf("the DNS says that the API server is at %v, not at %s", addresses, c.Network.API)
	}
	return nil
}

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// hostPrograms are what the cluster takes from the host, and the Debian package
// that each comes in.
var hostPrograms = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"ipset", "ipset"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
}

// toolPrograms are built into bin/ by make.
var toolPrograms = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
	"kube-proxy", "kubectl", "coredns", "networkpolicies", "metrics-server", "pause",
}

// checkHost says what the host lacks for a cluster, and how to get it. make asks
// before it builds the tools, which takes minutes.
func checkHost() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root, for namespaces and containers: run as root, or set KUBECONFIG to use a cluster elsewhere")
	}
	var packages []string
	for _, p := range hostPrograms {
		if _, err := exec.LookPath(p.path); err != nil {
			packages = append(packages, p.pkg)
		}
	}
	if len(packages) > 0 {
		return fmt.Errorf("programs are missing: apt-get install -y %s", strings.Join(packages, " "))
	}
	_, err := cgroupMounts()
	return err
}

// checkTools says which tools have not been built.
func (c *cluster) checkTools() error {
	for _, tool := range toolPrograms {
		if _, err := os.Stat(c.bin(tool)); err != nil {
			return fmt.Errorf("bin/%s is missing: `make cluster` builds the tools and starts the cluster", tool)
		}
	}
	return nil
}

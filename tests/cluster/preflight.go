package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// hostPrograms are what the cluster takes from the host, and the Debian package
// that each comes in.
var hostPrograms = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
}

// toolPrograms are built into bin/ by make.
var toolPrograms = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
	"kube-proxy", "kubectl", "coredns", "pause",
}

// preflight says everything that is missing for a cluster on this machine, and
// how to get it.
func (c *cluster) preflight() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster needs Linux, and this is %s: set KUBECONFIG to use a cluster elsewhere", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root, for namespaces and containers: run as root, or set KUBECONFIG to use a cluster elsewhere")
	}
	var packages []string
	for _, p := range hostPrograms {
		if _, err := exec.LookPath(p.path); err != nil && !slices.Contains(packages, p.pkg) {
			packages = append(packages, p.pkg)
		}
	}
	var tools []string
	for _, t := range toolPrograms {
		if _, err := os.Stat(c.bin(t)); err != nil {
			tools = append(tools, "bin/"+t)
		}
	}
	var missing []error
	if len(packages) > 0 {
		missing = append(missing, fmt.Errorf("missing programs: apt-get install -y %s", strings.Join(packages, " ")))
	}
	if len(tools) > 0 {
		missing = append(missing, fmt.Errorf("missing %s: `make cluster` builds them", strings.Join(tools, ", ")))
	}
	return errors.Join(missing...)
}

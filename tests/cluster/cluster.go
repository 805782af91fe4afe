//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"path/filepath"
)

// cluster holds the names and addresses of the cluster of one checkout. All of
// them derive from the checkout's path, so that two checkouts never meet.
type cluster struct {
	// Checkout is the absolute path of the working tree.
	Checkout string
	// Name is the node's host name, the host's end of the link to it, and the
	// root of its cgroups: at most 15 characters, the kernel's limit for links.
	Name string
	// Dir holds all state.
	Dir string
	// Network is set by up, and kept for as long as Dir exists.
	Network network
}

func newCluster(checkout string) *cluster {
	sum := sha256.Sum256([]byte(checkout))
	return &cluster{
		Checkout: checkout,
		Name:     "welcome-" + hex.EncodeToString(sum[:])[:7],
		Dir:      filepath.Join(checkout, ".cluster"),
	}
}

func (c *cluster) bin(name string) string      { return filepath.Join(c.Checkout, "bin", name) }
func (c *cluster) pki(name string) string      { return filepath.Join(c.Dir, "pki", name) }
func (c *cluster) config(name string) string   { return filepath.Join(c.Dir, "config", name) }
func (c *cluster) log(component string) string { return filepath.Join(c.Dir, "logs", component+".log") }

// kubeconfig is the administrator's: it works from the host.
func (c *cluster) kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// network is the block of addresses that one cluster uses.
type network struct {
	Block    netip.Prefix // all of the following
	Pods     netip.Prefix
	Services netip.Prefix
	Balanced netip.Prefix // addresses of Services of type LoadBalancer
	Link     netip.Prefix // between the host and the node
	Host     netip.Addr   // the host's end of the link
	Node     netip.Addr   // the node's end: API server, registry and NodePorts
	Nowhere  netip.Addr   // the node's default route: nobody answers there
	API      netip.Addr   // ClusterIP of the Service "kubernetes"
	DNS      netip.Addr   // ClusterIP of CoreDNS
}

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// routedPrefixes lists what the host's routing table knows, the default route
// aside.
func routedPrefixes() ([]netip.Prefix, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var prefixes []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		ones, _ := r.Dst.Mask.Size()
		if addr, ok := netip.AddrFromSlice(r.Dst.IP.To4()); ok && ones > 0 {
			prefixes = append(prefixes, netip.PrefixFrom(addr, ones))
		}
	}
	return prefixes, nil
}

// connect links the host with the network namespace of process pid, and routes
// the cluster's pods and services over it. The kernel removes the link and the
// routes when that namespace ends.
//
// The machine's default route leads to an address where nobody answers: without
// a default route the kernel refuses a ClusterIP before kube-proxy's rules can
// translate it, and with one through the host packets could leave the machine.
func (c *cluster) connect(pid int) error {
	if err := c.disconnect(); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = c.Name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add the link %s: %w", c.Name, err)
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer host.Close()
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer ns.Close()
	node, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	defer node.Close()

	n := c.Network
	return errors.Join(
		raise(node, "lo", netip.Prefix{}),
		raise(node, "eth0", netip.PrefixFrom(n.Node, n.Link.Bits())),
		raise(host, c.Name, netip.PrefixFrom(n.Host, n.Link.Bits())),
		route(node, netip.MustParsePrefix("0.0.0.0/0"), n.Nowhere),
		route(host, n.Pods, n.Node),
		route(host, n.Services, n.Node),
		route(host, n.Balanced, n.Node),
	)
}

// disconnect removes the link, if it is there: the kernel takes a while to clean
// up a network namespace after its last process has ended.
func (c *cluster) disconnect() error {
	link, err := netlink.LinkByName(c.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find the link %s: %w", c.Name, err)
	}
	// It may go by itself in this very moment.
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the link %s: %w", c.Name, err)
	}
	return nil
}

func raise(h *netlink.Handle, name string, address netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if address.IsValid() {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("give %s to link %s: %w", address, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("raise link %s: %w", name, err)
	}
	return nil
}

func route(h *netlink.Handle, to netip.Prefix, via netip.Addr) error {
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("route %s via %s: %w", to, via, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

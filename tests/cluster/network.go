//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crypto/sha256"
)

// clusterRange is set aside for benchmarks of network devices (RFC 2544), so no
// LAN or VPN uses it. A cluster takes a block of 2048 addresses of it.
var clusterRange = netip.MustParsePrefix("198.18.0.0/15")

const blockBits = 21

// pickBlock returns the block that the checkout's path selects, or the next one
// that overlaps nothing in use.
func pickBlock(checkout string, inUse []netip.Prefix) (netip.Prefix, error) {
	sum := sha256.Sum256([]byte(checkout))
	blocks := uint32(1) << (blockBits - clusterRange.Bits())
	first := binary.BigEndian.Uint32(sum[:4]) % blocks
	for i := range blocks {
		offset := (first + i) % blocks << (32 - blockBits)
		block := netip.PrefixFrom(addrAt(clusterRange, offset), blockBits)
		if !overlapsAny(block, inUse) {
			return block, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("all of %s is routed already: stop another checkout's cluster (`ip route` shows them)", clusterRange)
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, p.Overlaps)
}

// newNetwork splits a block: half for pods, a quarter for services, an eighth for those
// with a load balancer, and the last eight addresses for the link between the host and the node.
func newNetwork(block netip.Prefix) network {
	services := netip.PrefixFrom(addrAt(block, 1024), blockBits+2)
	link := netip.PrefixFrom(addrAt(block, 2040), 29)
	return network{
		Block:    block,
		Pods:     netip.PrefixFrom(block.Addr(), blockBits+1),
		Services: services,
		Balanced: netip.PrefixFrom(addrAt(block, 1536), blockBits+3),
		Link:     link,
		Host:     addrAt(link, 1),
		Node:     addrAt(link, 2),
		Nowhere:  addrAt(link, 6),
		API:      addrAt(services, 1),
		DNS:      addrAt(services, 10),
	}
}

func addrAt(p netip.Prefix, offset uint32) netip.Addr {
	base := p.Addr().As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(base[:])+offset)
	return netip.AddrFrom4(out)
}

// blockFile keeps the block for as long as the state lives: the certificates and
// the objects in etcd name its addresses.
func (c *cluster) blockFile() string { return filepath.Join(c.Dir, "network") }

// loadNetwork sets the network that an earlier up chose. Without one it returns
// an error that is fs.ErrNotExist.
func (c *cluster) loadNetwork() error {
	text, err := os.ReadFile(c.blockFile())
	if err != nil {
		return err
	}
	block, err := netip.ParsePrefix(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read %s: %w", c.blockFile(), err)
	}
	c.Network = newNetwork(block)
	return nil
}

// chooseNetwork sets the kept network, or picks one and keeps it.
func (c *cluster) chooseNetwork() error {
	if err := c.loadNetwork(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	inUse, err := routedPrefixes()
	if err != nil {
		return err
	}
	block, err := pickBlock(c.Checkout, inUse)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.blockFile(), []byte(block.String()+"\n"), 0o644); err != nil {
		return err
	}
	c.Network = newNetwork(block)
	return nil
}

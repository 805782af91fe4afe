//go:build linux

package main

import (
	"net/netip"
	"testing"
)

func TestPickBlockIsTheCheckoutsOwn(t *testing.T) {
	one, err := pickBlock("/home/one/welcome-operator", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := pickBlock("/home/one/welcome-operator", nil)
	other, _ := pickBlock("/home/other/welcome-operator", nil)
	if one != again {
		t.Errorf("the same checkout got %s, then %s", one, again)
	}
	if one == other {
		t.Errorf("two checkouts got %s", one)
	}
	if !clusterRange.Overlaps(one) || one.Bits() != blockBits || one.Masked() != one {
		t.Errorf("%s is no block of %s", one, clusterRange)
	}
}

func TestPickBlockAvoidsWhatIsRouted(t *testing.T) {
	var taken []netip.Prefix
	for range 64 {
		block, err := pickBlock("/checkout", taken)
		if err != nil {
			t.Fatalf("after %d blocks: %v", len(taken), err)
		}
		if overlapsAny(block, taken) {
			t.Fatalf("%s overlaps one of %v", block, taken)
		}
		taken = append(taken, block)
	}
	if block, err := pickBlock("/checkout", taken); err == nil {
		t.Errorf("all of %s is taken, and yet got %s", clusterRange, block)
	}
	if block, err := pickBlock("/checkout", []netip.Prefix{netip.MustParsePrefix("198.0.0.0/8")}); err == nil {
		t.Errorf("a wider route covers %s, and yet got %s", clusterRange, block)
	}
}

func TestNetworkPartsShareNoAddress(t *testing.T) {
	n := newNetwork(netip.MustParsePrefix("198.18.72.0/21"))
	parts := []netip.Prefix{n.Pods, n.Services, n.Balanced, n.Link}
	for i, p := range parts {
		if p.Masked() != p {
			t.Errorf("%s has host bits", p)
		}
		if !n.Block.Contains(p.Addr()) || p.Bits() < n.Block.Bits() {
			t.Errorf("%s is not inside %s", p, n.Block)
		}
		if overlapsAny(p, parts[i+1:]) {
			t.Errorf("%s overlaps one of %v", p, parts[i+1:])
		}
	}
	for _, a := range []netip.Addr{n.Host, n.Node, n.Nowhere} {
		if !n.Link.Contains(a) {
			t.Errorf("%s is not in the link %s", a, n.Link)
		}
	}
	if !n.Services.Contains(n.API) || !n.Services.Contains(n.DNS) {
		t.Errorf("%s and %s are not in %s", n.API, n.DNS, n.Services)
	}
}

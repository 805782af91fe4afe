//go:build linux

package main

import "testing"

func TestNamesDeriveFromTheCheckout(t *testing.T) {
	one, other := newCluster("/home/one/welcome-operator"), newCluster("/home/other/welcome-operator")
	if one.Name == other.Name {
		t.Errorf("two checkouts are both called %s", one.Name)
	}
	if again := newCluster(one.Checkout); again.Name != one.Name {
		t.Errorf("one checkout is called %s and %s", one.Name, again.Name)
	}
	// IFNAMSIZ is 16, with its terminating zero.
	if len(one.Name) > 15 {
		t.Errorf("%s is too long for a network link", one.Name)
	}
}

//go:build linux

package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestConfigsAreComplete(t *testing.T) {
	c := testCluster(t)
	c.Network = newNetwork(netip.MustParsePrefix("198.18.72.0/21"))
	if err := os.Mkdir(c.config(""), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.writeConfigs(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubelet.yaml", "kube-proxy.yaml", "audit-policy.yaml", "cni.conflist"} {
		text, err := os.ReadFile(c.config(name))
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if strings.Contains(string(text), "no value") {
			t.Errorf("%s lacks a value:\n%s", name, text)
		}
	}
	// containerd looks for exactly this path below its config_path.
	hosts, err := os.ReadFile(filepath.Join(c.Dir, "config/registries/_default/hosts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(hosts), c.registryAddress()) {
		t.Errorf("hosts.toml doesn't name %s:\n%s", c.registryAddress(), hosts)
	}
}

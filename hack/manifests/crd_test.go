package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestResourceOf(t *testing.T) {
	for kind, want := range map[string]string{
		"Gateway": "gateways", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "Memcached": "memcacheds", "Endpoints": "endpoints", "CronTab": "crontabs", "Proxy": "proxies",
		"Elasticsearch": "elasticsearches", "Mesh": "meshes", "Sandbox": "sandboxes",
	} {
		if got := resourceOf(schema.GroupVersionKind{Version: "v1", Kind: kind}); got != want {
			t.Errorf("%s: %s, not %s", kind, got, want)
		}
	}
}

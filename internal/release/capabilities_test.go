package release

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

func TestCapabilitiesDigestIgnoresOrder(t *testing.T) {
	a := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"v1", "apps/v1"}}
	b := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"apps/v1", "v1"}}
	if capabilitiesDigest(a) != capabilitiesDigest(b) {
		t.Error("the order of APIs changes the digest")
	}
	b.KubeVersion.Version = "v1.36.0"
	if capabilitiesDigest(a) == capabilitiesDigest(b) {
		t.Error("another server version has the same digest")
	}
}

// discoverer is the discovery of a cluster in which APIs may not answer.
type discoverer struct {
	discovery.DiscoveryInterface
	lists  []*metav1.APIResourceList
	failed map[schema.GroupVersion]error
}

func (d *discoverer) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: "v1.37.1"}, nil
}

func (d *discoverer) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	if len(d.failed) > 0 {
		return nil, d.lists, &discovery.ErrGroupDiscoveryFailed{Groups: d.failed}
	}
	return nil, d.lists, nil
}

// An API whose server does not answer for a while is not gone, and one that is gone is.
func TestCapabilitiesOfAnAPIThatDoesNotAnswer(t *testing.T) {
	list := func(groupVersion, kind string) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{{Kind: kind}}}
	}
	core, metrics := list("v1", "Pod"), list("metrics.k8s.io/v1beta1", "PodMetrics")
	away := map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1beta1"}: errors.New("no endpoints")}
	cluster := &discoverer{lists: []*metav1.APIResourceList{core, metrics}}
	c, err := NewCapabilities(cluster, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	before := c.digest()
	cluster.lists, cluster.failed = []*metav1.APIResourceList{core}, away
	if err := c.refresh(); err != nil || c.digest() != before || !c.settled() || !c.get().APIVersions.Has("metrics.k8s.io/v1beta1/PodMetrics") {
		t.Errorf("it has changed while an API does not answer: %v, %v", c.get().APIVersions, err)
	}
	cluster.failed = nil
	if err := c.refresh(); err != nil || c.digest() == before || c.get().APIVersions.Has("metrics.k8s.io/v1beta1/PodMetrics") {
		t.Errorf("it has not changed when the API is gone: %v, %v", c.get().APIVersions, err)
	}

	cluster.failed = away
	if c, err = NewCapabilities(cluster, logr.Discard()); err != nil || c.settled() {
		t.Errorf("nobody knows what there was before the start, and it passes for all: %v", err)
	}
	c.started = time.Now().Add(-2 * unseenFor)
	if !c.settled() {
		t.Error("an API that is away for long does not count as gone")
	}
}

package release

import (
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
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

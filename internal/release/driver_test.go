package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"

	"demo.welcome.domain/welcome-operator/internal/record"
)

// The cache may show what an earlier leader has made between the look at the newest record and Helm's.
func TestRevisionThatWasNotDecidedUpon(t *testing.T) {
	a := &actionClient{current: &record.Record{Name: "sh.helm.release.v1.hello.v1", Revision: 1}}
	err := operationDriver{op: &operation{client: a}}.Create("", &release.Release{Name: "hello", Version: 3})
	if err == nil || !strings.Contains(err.Error(), "the cache is behind") {
		t.Errorf("revision 3 was made after revision 1: %v", err)
	}
}

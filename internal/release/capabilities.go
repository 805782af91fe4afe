package release

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/client-go/discovery"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// capabilitiesPeriod is how long a chart may see an outdated server version or list of APIs
// after a cluster upgrade or a new CRD.
const capabilitiesPeriod = 5 * time.Minute

// Capabilities keeps what charts may ask of the cluster (.Capabilities). Left to itself, Helm
// drops and fetches the whole discovery document at every action.
type Capabilities struct {
	discovery discovery.DiscoveryInterface
	log       logr.Logger
	current   atomic.Pointer[capabilities]
}

type capabilities struct {
	*chartutil.Capabilities
	digest string
}

// NewCapabilities reads the capabilities of the cluster once.
func NewCapabilities(discovery discovery.DiscoveryInterface, log logr.Logger) (*Capabilities, error) {
	c := &Capabilities{discovery: discovery, log: log}
	return c, c.refresh()
}

// Start refreshes the capabilities until ctx ends. A manager runs it.
func (c *Capabilities) Start(ctx context.Context) error {
	ticker := time.NewTicker(capabilitiesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.refresh(); err != nil {
				c.log.Error(err, "Keeping the last known capabilities")
			}
		}
	}
}

// NeedLeaderElection has the standby keep them up to date as well: it takes over without a pause.
func (c *Capabilities) NeedLeaderElection() bool { return false }

// Get returns a copy that the caller may change.
func (c *Capabilities) Get() *chartutil.Capabilities {
	return c.current.Load().Copy()
}

// Digest is a short name of the capabilities.
func (c *Capabilities) Digest() string {
	return c.current.Load().digest
}

func (c *Capabilities) refresh() error {
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	apis, err := action.GetVersionSet(c.discovery)
	// An aggregated API whose server is down is missing from the list; the others are valid.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return fmt.Errorf("read the API groups of the cluster: %w", err)
	}
	current := &chartutil.Capabilities{
		APIVersions: apis,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	c.current.Store(&capabilities{Capabilities: current, digest: capabilitiesDigest(current)})
	return nil
}

func capabilitiesDigest(c *chartutil.Capabilities) string {
	apis := slices.Clone([]string(c.APIVersions))
	slices.Sort(apis)
	return object.Plain.Digest(fmt.Appendf(nil, "%s %q", c.KubeVersion.Version, apis))
}

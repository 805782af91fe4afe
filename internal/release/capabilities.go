package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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
	started   time.Time
	current   atomic.Pointer[capabilities]
}

// unseenFor is how long after its start an operator puts off upgrades while an API does not answer that it has
// never seen: without it, the chart might render something else than what is applied. An API that is away for
// longer counts as gone.
const unseenFor = 15 * time.Minute

type capabilities struct {
	*chartutil.Capabilities
	digest string
	unseen bool // whether an API that the cluster should have does not answer, and never has since the start
}

// NewCapabilities reads the capabilities of the cluster once.
func NewCapabilities(discovery discovery.DiscoveryInterface, log logr.Logger) (*Capabilities, error) {
	c := &Capabilities{discovery: discovery, log: log, started: time.Now()}
	return c, c.refresh()
}

// Start refreshes the capabilities until ctx ends. A manager runs it.
func (c *Capabilities) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, capabilitiesPeriod, false, func(context.Context) (bool, error) { // it ends with ctx, and only so
		if err := c.refresh(); err != nil {
			c.log.Error(err, "Keeping the last known capabilities")
		}
		return false, nil
	})
	return nil
}

// NeedLeaderElection has the standby keep them up to date as well: it takes over without a pause.
func (c *Capabilities) NeedLeaderElection() bool { return false }

// get returns a copy that the caller may change.
func (c *Capabilities) get() *chartutil.Capabilities {
	return c.current.Load().Copy()
}

// digest is a short name of the capabilities.
func (c *Capabilities) digest() string {
	return c.current.Load().digest
}

// settled is whether APIs that the capabilities lack are gone, and not only failing to answer for the moment.
func (c *Capabilities) settled() bool {
	return !c.current.Load().unseen || time.Since(c.started) > unseenFor
}

// withFailed notes the APIs whose server did not answer: Helm leaves them out without a word.
type withFailed struct {
	discovery.ServerResourcesInterface
	failed map[schema.GroupVersion]error
}

func (d *withFailed) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, resources, err := d.ServerResourcesInterface.ServerGroupsAndResources()
	d.failed, _ = discovery.GroupDiscoveryFailedErrorGroups(err)
	return groups, resources, err
}

func (c *Capabilities) refresh() error {
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	answered := &withFailed{ServerResourcesInterface: c.discovery}
	apis, err := action.GetVersionSet(answered)
	if err != nil {
		return fmt.Errorf("read the API groups of the cluster: %w", err)
	}
	// Helm leaves out an aggregated API whose server is down, such as that of metrics. A chart that asks for it
	// would render something else meanwhile.
	unseen := false
	for failed := range answered.failed {
		known := c.known(failed.String())
		for _, api := range known {
			if !slices.Contains(apis, api) {
				apis = append(apis, api)
			}
		}
		unseen = unseen || len(known) == 0
	}
	current := &chartutil.Capabilities{
		APIVersions: apis,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	c.current.Store(&capabilities{Capabilities: current, digest: capabilitiesDigest(current), unseen: unseen})
	return nil
}

// known is what was known of a group version before.
func (c *Capabilities) known(groupVersion string) (known []string) {
	if last := c.current.Load(); last != nil {
		for _, api := range last.APIVersions {
			if api == groupVersion || strings.HasPrefix(api, groupVersion+"/") {
				known = append(known, api)
			}
		}
	}
	return known
}

// versions are those in which the cluster serves an API group now. The REST mapper learns of new ones, but
// forgets none.
func (c *Capabilities) versions(group string) (versions []string, err error) {
	groups, err := c.discovery.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("read the API groups of the cluster: %w", err)
	}
	for _, served := range groups.Groups {
		if served.Name == group {
			for _, version := range served.Versions {
				versions = append(versions, version.Version)
			}
		}
	}
	return versions, nil
}

func capabilitiesDigest(c *chartutil.Capabilities) string {
	apis := slices.Clone([]string(c.APIVersions))
	slices.Sort(apis)
	return object.Plain.Digest(fmt.Appendf(nil, "%s %q", c.KubeVersion.Version, apis))
}

package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"
)

// inputs is everything that decides what a chart renders. Equal inputs render equal
// manifests, so a release whose record carries the digest of its inputs need not be rendered
// again to know that it is up to date.
type inputs struct {
	Chart        string         // digest of the chart's files
	Capabilities string         // digest of the cluster's version and APIs, empty if the chart does not ask for them
	Values       map[string]any // the custom resource's spec with overrides and the chart's defaults
}

// digest is a short name of the inputs; JSON sorts the keys of maps.
func (i inputs) digest() (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("digest the values of a release: %w", err)
	}
	return shortDigest(text), nil
}

// shortDigest fits into a label, and 128 bits of SHA-256 do not collide by chance.
func shortDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// impure finds what makes a template's output depend on more than its inputs: the cluster's
// objects, time, chance, DNS, or the number of the revision.
var impure = regexp.MustCompile(`\b(lookup|now|ago|htmlDate|rand[A-Z]\w*|uuidv4|gen(CA|PrivateKey|SelfSigned|Signed)\w*|derivePassword|htpasswd|bcrypt|encryptAES|getHostByName)\b|\.Release\.(Revision|IsInstall|IsUpgrade)`)

// capable finds what makes it depend on the cluster's version and APIs.
var capable = regexp.MustCompile(`\.Capabilities\b`)

// chartSource is a chart as a source of releases.
type chartSource struct {
	digest string
	// pure is whether equal inputs render equal manifests.
	pure bool
	// asksCluster is whether the cluster's version and APIs are among the inputs. For other charts, a
	// new CRD or an aggregated API that is down would have every release upgraded to what it is.
	asksCluster bool
}

func newChartSource(c *chart.Chart) chartSource {
	files := slices.Clone(c.Raw)
	slices.SortFunc(files, func(a, b *chart.File) int { return cmp.Compare(a.Name, b.Name) })
	hash := sha256.New()
	for _, file := range files {
		_, _ = fmt.Fprintf(hash, "%s\x00%d\x00%s", file.Name, len(file.Data), file.Data) // a hash takes any write
	}
	return chartSource{digest: hex.EncodeToString(hash.Sum(nil)[:16]), pure: !mentions(c, impure), asksCluster: mentions(c, capable)}
}

// mentions is whether a template of c or of its subcharts does.
func mentions(c *chart.Chart, what *regexp.Regexp) bool {
	return slices.ContainsFunc(c.Templates, func(t *chart.File) bool { return what.Match(t.Data) }) ||
		slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return mentions(d, what) })
}

// private returns a copy of a chart that has subcharts: Helm takes out of a chart what the values
// disable, and the next release would lack it, too.
func private(c *chart.Chart) *chart.Chart {
	if len(c.Dependencies()) == 0 {
		return c
	}
	return copyOf(c)
}

func copyOf(c *chart.Chart) *chart.Chart {
	copied, metadata := *c, *c.Metadata
	metadata.Dependencies = nil
	for _, dependency := range c.Metadata.Dependencies {
		d := *dependency
		metadata.Dependencies = append(metadata.Dependencies, &d)
	}
	copied.Metadata, copied.Values = &metadata, runtime.DeepCopyJSON(c.Values)
	var subcharts []*chart.Chart
	for _, subchart := range c.Dependencies() {
		subcharts = append(subcharts, copyOf(subchart))
	}
	copied.SetDependencies(subcharts...)
	return &copied
}

func capabilitiesDigest(c *chartutil.Capabilities) string {
	apis := slices.Clone([]string(c.APIVersions))
	slices.Sort(apis)
	return shortDigest(fmt.Appendf(nil, "%s %q", c.KubeVersion.Version, apis))
}

package operator

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"demo.welcome.domain/welcome-operator/internal/object"
	"demo.welcome.domain/welcome-operator/internal/record"
	"demo.welcome.domain/welcome-operator/internal/release"
)

const (
	// publishedKey is where the ConfigMap has the Published, as YAML. Its binary data are the charts.
	publishedKey = "operator.yaml"
	// maxPublished bounds the packed charts that are published, in bytes. A ConfigMap can hold twice as much.
	maxPublished = 512 << 10
	// publishPeriod is the time between attempts to publish, which end with an error that would stay.
	publishPeriod = 30 * time.Second
)

// Published says how an operator was started. It is in a ConfigMap beside the lease, with the same name:
// whoever may read that can render as the operator does. It holds no secrets.
type Published struct {
	// Version of the operator, as its metric has it.
	Version string `json:"version,omitempty"`
	// Namespaces that it watches, none for all.
	Namespaces []string         `json:"namespaces,omitempty"`
	Entries    []PublishedEntry `json:"entries"`

	charts map[string][]byte // packed, by the names of files
}

// PublishedEntry is a served entry of the watches file, in its words, with the operator's defaults filled in:
// all that a rendering depends on.
type PublishedEntry struct {
	Group   string         `json:"group"`
	Version string         `json:"version"`
	Kind    string         `json:"kind"`
	Chart   PublishedChart `json:"chart"`
	// OverrideValues are those whose values are published. FromEnvironment are the others, as the watches file
	// has them: an environment variable may be a secret, except one with an image.
	OverrideValues  map[string]string     `json:"overrideValues,omitempty"`
	FromEnvironment map[string]string     `json:"fromEnvironment,omitempty"`
	Selector        *metav1.LabelSelector `json:"selector,omitempty"`
	ReleaseName     record.Names          `json:"releaseName"`
	Allow           object.Allow          `json:"allow"`
	Secrets         bool                  `json:"secrets,omitempty"`
	DriftDetection  driftDetection        `json:"driftDetection"`
	Recreate        object.Kinds          `json:"recreate,omitempty"`
}

// PublishedChart identifies the chart, and the file of the ConfigMap that has it, empty if it is too large for
// that.
type PublishedChart struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	File    string `json:"file,omitempty"`
}

// GroupVersionKind of the custom resources.
func (e PublishedEntry) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// publish makes the Published of entries.
func publish(entries []Entry, options Options) (*Published, error) {
	p := &Published{Version: version, Namespaces: options.WatchNamespaces, charts: map[string][]byte{}}
	size := 0
	for _, entry := range entries {
		said := PublishedEntry{
			Group: entry.Group, Version: entry.Version, Kind: entry.Kind,
			Chart:          PublishedChart{Name: entry.Chart.Name(), Version: entry.Chart.Metadata.Version, Digest: release.ChartDigest(entry.Chart)},
			OverrideValues: map[string]string{}, FromEnvironment: map[string]string{},
			Selector: entry.Selector, ReleaseName: entry.ReleaseName, Allow: entry.Allow, Secrets: entry.Secrets,
			DriftDetection: entry.DriftDetection, Recreate: entry.Recreate,
		}
		for key, value := range entry.OverrideValues {
			if written := entry.written[key]; mayBeSecret(written) {
				said.FromEnvironment[key] = written
			} else {
				said.OverrideValues[key] = value
			}
		}
		packed, err := pack(entry.Chart)
		if err != nil {
			return nil, fmt.Errorf("pack chart %s: %w", entry.ChartPath, err)
		}
		if size+len(packed) <= maxPublished {
			size += len(packed)
			said.Chart.File = strings.ToLower(entry.Kind) + ".tgz"
			p.charts[said.Chart.File] = packed
		}
		p.Entries = append(p.Entries, said)
	}
	return p, nil
}

// mayBeSecret is whether an override, as the watches file has it, takes from the environment anything but an
// image reference. A template may.
func mayBeSecret(written string) bool {
	secret := strings.Contains(written, "{{")
	os.Expand(written, func(name string) string {
		secret = secret || !strings.HasPrefix(name, "RELATED_IMAGE_")
		return ""
	})
	return secret
}

// pack packs a chart, always into the same bytes for the same files.
func pack(c *chart.Chart) ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	files := slices.SortedFunc(slices.Values(c.Raw), func(a, b *chart.File) int { return cmp.Compare(a.Name, b.Name) })
	for _, file := range files {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(c.Name(), file.Name), Mode: 0o644, Size: int64(len(file.Data))}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// setUpPublished makes the leader publish how it was started, by one request, which changes nothing if that is
// published already.
func setUpPublished(mgr ctrl.Manager, entries []Entry, options Options) error {
	log := mgr.GetLogger().WithName("published")
	const without = "kubectl welcome diff has to be told the chart, and has no overrides: what this operator was started with is not published"
	lease, err := options.lease()
	if err != nil {
		return err
	}
	if lease == nil {
		log.Info(without+". Outside of a cluster, say where by --leader-election-namespace", "reason", "the operator has no namespace")
		return nil
	}
	published, err := publish(entries, options)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(published)
	if err != nil {
		return fmt.Errorf("publish the entries of %s: %w", options.WatchesFile, err)
	}
	content := corev1apply.ConfigMap(lease.Name, lease.Namespace).WithLabels(map[string]string{object.Published: "entries"}).
		WithData(map[string]string{publishedKey: string(text)}).WithBinaryData(published.charts)
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { // once it leads
		told := false
		_ = wait.PollUntilContextCancel(ctx, publishPeriod, true, func(ctx context.Context) (done bool, err error) { // the operator ends, or it is published
			err = mgr.GetClient().Apply(ctx, content, client.FieldOwner(object.Manager), client.ForceOwnership)
			if err != nil && !told && ctx.Err() == nil {
				told = true
				log.Error(err, without+". Give its ServiceAccount the right to create and patch this ConfigMap in its own namespace, as config/rbac/leader_election_role.yaml has it",
					"namespace", lease.Namespace, "configMap", lease.Name)
			}
			return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err), nil
		})
		return nil
	}))
}

// ReadPublished reads what an operator has published.
func ReadPublished(from *corev1.ConfigMap) (*Published, error) {
	p := &Published{}
	if err := yaml.Unmarshal([]byte(from.Data[publishedKey]), p); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s is not what the operator publishes: %w", from.Namespace, from.Name, err)
	}
	p.charts = from.BinaryData
	return p, nil
}

// Of is the entry of a kind, whatever its version: the caller may know another one than the operator.
func (p *Published) Of(kind schema.GroupKind) (PublishedEntry, bool) {
	at := slices.IndexFunc(p.Entries, func(e PublishedEntry) bool { return e.GroupVersionKind().GroupKind() == kind })
	if at < 0 {
		return PublishedEntry{}, false
	}
	return p.Entries[at], true
}

// ChartOf is the chart of an entry as the operator has it, nil if it is too large to be published.
func (p *Published) ChartOf(e PublishedEntry) (*chart.Chart, error) {
	packed := p.charts[e.Chart.File]
	if packed == nil {
		return nil, nil
	}
	read, err := loader.LoadArchive(bytes.NewReader(packed))
	if err == nil && release.ChartDigest(read) != e.Chart.Digest {
		err = fmt.Errorf("it is not what the operator has: its digest is %s, not %s", release.ChartDigest(read), e.Chart.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("read the published chart of %s: %w", e.Kind, err)
	}
	return read, nil
}

// KindOptions are those with which an operator that has this entry serves the kind with a chart; an error is
// why it would not.
func (p *Published) KindOptions(e PublishedEntry, c *chart.Chart) (release.KindOptions, error) {
	entry := Entry{ReleaseName: e.ReleaseName, Allow: e.Allow, Secrets: e.Secrets, DriftDetection: e.DriftDetection, Recreate: e.Recreate}
	entry.GroupVersionKind, entry.Chart, entry.ChartPath, entry.OverrideValues = e.GroupVersionKind(), c, c.Name(), maps.Clone(e.OverrideValues)
	entry.Selector = cmp.Or(e.Selector, &metav1.LabelSelector{})
	if err := validateEntry(&entry); err != nil {
		return release.KindOptions{}, err
	}
	return entry.kindOptions(Options{WatchNamespaces: p.Namespaces}), nil
}

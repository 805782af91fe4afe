package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

const (
	catalogFile  = "catalog/template.yaml"
	releasedFile = "catalog/charts.yaml"
)

// released is what releasedFile says: the newest release of the operator, and its charts by their directories.
type released struct {
	Release string                   `json:"release"`
	Charts  map[string]releasedChart `json:"charts"`
}

type releasedChart struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// keepReleased refuses a chart that differs from the released one and has its version: nobody could tell from a cluster
// which of the two runs there. A chart with a higher version may change until it is released, too, which is when catalogFile
// lists a new release: then its charts are written down.
func keepReleased(charts map[string]*chart.Chart) error {
	release, err := newestRelease()
	if err != nil {
		return fmt.Errorf("%s: %w", catalogFile, err)
	}
	var last released
	data, err := os.ReadFile(releasedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := yaml.UnmarshalStrict(data, &last); err != nil {
		return fmt.Errorf("%s: %w", releasedFile, err)
	}

	now := released{Release: release, Charts: map[string]releasedChart{}}
	for _, dir := range slices.Sorted(maps.Keys(charts)) {
		now.Charts[dir] = releasedChart{Version: charts[dir].Metadata.Version, Digest: chartDigest(charts[dir])}
		before, ok := last.Charts[dir]
		if !ok || before.Digest == now.Charts[dir].Digest {
			continue
		}
		higher, err := isHigher(now.Charts[dir].Version, before.Version)
		if err != nil {
			return fmt.Errorf("%s/Chart.yaml: %w", dir, err)
		}
		if !higher {
			return fmt.Errorf("%s is no longer what release %s has as its version %s: raise version in %[1]s/Chart.yaml "+
				"(once until the next release), then make manifests update-golden", dir, last.Release, before.Version)
		}
	}
	if last.Release == release {
		return nil
	}
	text, err := yaml.Marshal(now)
	if err != nil {
		return err
	}
	header := "# Written by `make manifests` when template.yaml has a new release: its charts. One that changes later needs a higher version.\n"
	return os.WriteFile(releasedFile, append([]byte(header), text...), 0o644)
}

// newestRelease is the highest version that the channels of the catalog have.
func newestRelease() (string, error) {
	data, err := os.ReadFile(catalogFile)
	if err != nil {
		return "", err
	}
	var catalog struct {
		Entries []struct {
			Entries []struct{ Name string }
		}
	}
	if err := yaml.Unmarshal(data, &catalog); err != nil {
		return "", err
	}
	newest := "0.0.0"
	for _, channel := range catalog.Entries {
		for _, entry := range channel.Entries {
			_, release, _ := strings.Cut(entry.Name, ".v")
			higher, err := isHigher(release, newest)
			if err != nil {
				return "", fmt.Errorf("entry %q: %w", entry.Name, err)
			}
			if higher {
				newest = release
			}
		}
	}
	return newest, nil
}

func isHigher(a, b string) (bool, error) {
	parsed, err := version.ParseSemantic(a)
	if err != nil {
		return false, err
	}
	order, err := parsed.Compare(b)
	return order > 0, err
}

var versionLine = regexp.MustCompile(`(?m)^version:.*\n`)

// chartDigest is that of the chart's files but its version and the README, which is for people.
func chartDigest(c *chart.Chart) string {
	hash := sha256.New()
	for _, file := range slices.SortedFunc(slices.Values(c.Raw), func(a, b *chart.File) int { return strings.Compare(a.Name, b.Name) }) {
		data := file.Data
		switch file.Name {
		case "README.md":
			continue
		case "Chart.yaml":
			data = versionLine.ReplaceAll(data, nil)
		}
		_, _ = fmt.Fprintf(hash, "%s\x00%d\x00%s", file.Name, len(data), data) // a hash takes any write
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

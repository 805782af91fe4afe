//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The cluster's own images, each one static binary of bin/.
const (
	pauseImage         = "demo.welcome.domain/cluster-pause:local"
	coreDNSImage       = "demo.welcome.domain/cluster-coredns:local"
	metricsServerImage = "demo.welcome.domain/cluster-metrics-server:local"
)

// pushOwnImages pushes the images that the cluster itself needs. What the registry
// holds already costs only a question.
func (c *cluster) pushOwnImages(ctx context.Context) error {
	for repository, binary := range map[string]string{
		"cluster-pause:local":          "pause",
		"cluster-coredns:local":        "coredns",
		"cluster-metrics-server:local": "metrics-server",
	} {
		image, err := binaryImage(c.bin(binary))
		if err != nil {
			return err
		}
		if err := c.push(ctx, repository, image); err != nil {
			return err
		}
	}
	return nil
}

// push pushes an image to the registry under repository, a path and a tag.
func (c *cluster) push(ctx context.Context, repository string, image v1.Image) error {
	ref, err := name.NewTag(c.registryAddress() + "/" + repository)
	if err != nil {
		return err
	}
	transport, err := c.registryTransport()
	if err != nil {
		return err
	}
	if err := remote.Write(ref, image, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	return nil
}

// binaryImage returns an image FROM scratch whose only file, /app, is its entry point.
func binaryImage(path string) (v1.Image, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	if err := archive.WriteHeader(&tar.Header{Name: "app", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := archive.Write(content); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	// Not compressed: the way to the registry is short.
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/app"}
	return mutate.ConfigFile(image, config)
}

func (c *cluster) registryTransport() (http.RoundTripper, error) {
	ca, err := os.ReadFile(c.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, nil
}

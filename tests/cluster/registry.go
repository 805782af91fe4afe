//go:build linux

package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/registry"
)

// registryCommand serves the image registry inside the machine. containerd sends
// every pull there, whatever the image's domain (see files/hosts.toml), with the
// rest of the name: demo.welcome.domain/welcome:v1 is pushed as <address>/welcome:v1.
const registryCommand = "registry"

// serveRegistry keeps blobs in .cluster/registry and tags in memory: after a
// restart an image has to be pushed again, which is fast, for its blobs are there.
func serveRegistry(c *cluster) error {
	if err := c.loadNetwork(); err != nil {
		return err
	}
	handler := registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(c.Dir, "registry"))),
		registry.Logger(log.New(os.Stderr, "", log.LstdFlags)),
	)
	err := http.ListenAndServeTLS(c.registryAddress(), c.pki("registry.crt"), c.pki("registry.key"), handler)
	return fmt.Errorf("serve the registry on %s: %w", c.registryAddress(), err)
}

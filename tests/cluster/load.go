//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// load pushes every tagged image of docker archives (`docker save`, `buildah push
// … docker-archive:`) to the cluster's registry, and prints each by its digest: a
// pod that names the digest gets these very bytes, however often the tag moves.
func load(ctx context.Context, c *cluster, archives []string) error {
	if pid, err := c.runningMachine(); err != nil {
		return err
	} else if pid == 0 {
		return errors.New("the cluster doesn't run: `make cluster` starts it")
	}
	if err := c.loadNetwork(); err != nil {
		return err
	}
	for _, archive := range archives {
		opener := func() (io.ReadCloser, error) { return os.Open(archive) }
		manifest, err := tarball.LoadManifest(opener)
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		for _, descriptor := range manifest {
			for _, repoTag := range descriptor.RepoTags {
				if err := c.loadTag(ctx, opener, repoTag); err != nil {
					return fmt.Errorf("load %s from %s: %w", repoTag, archive, err)
				}
			}
		}
	}
	return nil
}

func (c *cluster) loadTag(ctx context.Context, opener tarball.Opener, repoTag string) error {
	tag, err := name.NewTag(repoTag)
	if err != nil {
		return err
	}
	image, err := tarball.Image(opener, &tag)
	if err != nil {
		return err
	}
	// containerd asks the registry for the name without its domain.
	if err := c.push(ctx, tag.RepositoryStr()+":"+tag.TagStr(), image); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", tag.Context(), digest)
	return nil
}

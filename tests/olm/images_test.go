package olm

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// The images that OLM, operator-sdk and scorecard use, each with only the files that are run in it, because base
// images cannot be pulled here. The registry serves a repository under any domain, so that for a fixed image name,
// the path is enough.
var (
	olmImage       = registry + "/operator-framework/olm:test"
	opmImage       = registry + "/operator-framework/opm:test"
	busyboxImage   = registry + "/busybox:test"
	scorecardImage = registry + "/operator-framework/scorecard-test:v1.42.3"
	// bundleUpgradeInitImage is the image that operator-sdk 1.42 always uses for `run bundle-upgrade`.
	bundleUpgradeInitImage = registry + "/ubi9/ubi:9.8"
)

// user is the user that the images run as. OLM's pods must not run as root, which the kubelet can check for a
// numeric user only.
const user = "1001"

func pushImages(ctx context.Context) error {
	busybox := file{"/bin/busybox", "bin/busybox"}
	return pushAll(ctx, map[string]imageContent{
		olmImage: {
			files: []file{tool("olm"), tool("catalog"), tool("package-server"), tool("copy-content"), tool("cpb"), busybox},
			links: []string{"cp"},
		},
		opmImage: {
			files: []file{tool("opm"), tool("grpc_health_probe"), busybox},
			links: []string{"sh"},
			dirs:  []string{"tmp", "configs"},
			// Without this label, operator-sdk takes the image for an SQLite index.
			labels: catalogLabels,
		},
		busyboxImage:           {files: []file{busybox}, links: []string{"sh", "cat", "gzip", "tar"}},
		bundleUpgradeInitImage: {files: []file{busybox}, links: []string{"sh", "cat", "gzip", "tar"}},
		scorecardImage:         {files: []file{tool("scorecard-test")}, dirs: []string{"tmp"}},
	})
}

func pushAll(ctx context.Context, images map[string]imageContent) error {
	for ref, content := range images {
		image, err := content.build()
		if err != nil {
			return fmt.Errorf("build %s: %w", ref, err)
		}
		if err := push(ctx, ref, image); err != nil {
			return err
		}
	}
	return nil
}

func push(ctx context.Context, ref string, image v1.Image) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	return nil
}

// catalogLabels say where in the image the catalog is, as catalog/Dockerfile does.
var catalogLabels = map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}

type file struct{ from, to string }

func tool(name string) file { return file{kit.File("bin", name), "bin/" + name} }

type imageContent struct {
	files  []file
	links  []string // links to busybox in /bin
	dirs   []string // which everybody may write to
	labels map[string]string
}

func (c imageContent) build() (v1.Image, error) {
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	for _, f := range c.files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		if err := addFile(archive, f.to, content); err != nil {
			return nil, err
		}
	}
	for _, link := range c.links {
		if err := archive.WriteHeader(&tar.Header{Name: "bin/" + link, Typeflag: tar.TypeSymlink, Linkname: "busybox"}); err != nil {
			return nil, err
		}
	}
	for _, dir := range c.dirs {
		if err := archive.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return layered(layer.Bytes(), v1.Config{User: user, Env: []string{"PATH=/bin"}, Labels: c.labels})
}

// dataImage is an image with the files of dir at its root.
func dataImage(dir string, labels map[string]string) (v1.Image, error) {
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return addFile(archive, path.Clean(name), content)
	})
	if err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return layered(layer.Bytes(), v1.Config{Labels: labels})
}

func addFile(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func layered(layer []byte, runConfig v1.Config) (v1.Image, error) {
	// Not compressed: the registry is on this machine.
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, static.NewLayer(layer, types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, runConfig
	return mutate.ConfigFile(image, config)
}

//go:build linux

package main

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func TestBinaryImageHoldsTheBinaryAndRunsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := binaryImage(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(mutate.Extract(image))
	file, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	if "/"+file.Name != config.Config.Entrypoint[0] || file.FileInfo().Mode().Perm() != 0o755 || string(content) != "content" {
		t.Errorf("entry point %v, file %s (%s): %q", config.Config.Entrypoint, file.Name, file.FileInfo().Mode(), content)
	}
}

// Command sbom prints what a Go binary is made of, as CycloneDX JSON: itself with its digest, the Go standard
// library, and each module, as the binary tells them. The same binary gives the same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(out io.Writer, binary, version string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read what %s is made of: %w", binary, err)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: filepath.Base(binary), Version: version,
		BOMRef: module(info.Main.Path, version), PackageURL: module(info.Main.Path, version),
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}},
	}}
	components := []cdx.Component{component(&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, dependency := range info.Deps {
		components = append(components, component(cmp.Or(dependency.Replace, dependency)))
	}
	bom.Components = &components
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(bom)
}

func component(m *debug.Module) cdx.Component {
	url := module(m.Path, m.Version)
	return cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: url, PackageURL: url}
}

// module is the package URL of a Go module, in lower case: github.com/package-url/purl-spec.
func module(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + version
}

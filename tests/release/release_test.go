// Package release checks what `make release` makes: that it is the same wherever it is made, signed by the
// key that was given, and all that an installation needs. Run it with `make test-release`, on the local
// cluster.
package release

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"demo.welcome.domain/welcome-operator/tests/kit"
	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// TestRelease makes a release in two copies of the checkout, with a throw-away key, and installs it.
func TestRelease(t *testing.T) {
	keys, here, elsewhere := t.TempDir(), clone(t), clone(t)
	dir := filepath.Join(here, "dist", "release")
	do(t, keys, kit.File("bin", "cosign"), "generate-key-pair")
	do(t, here, "make", "release", "VERSION=0.1.0", "COSIGN_KEY="+filepath.Join(keys, "cosign.key"))
	if changed := do(t, here, "git", "status", "--porcelain"); changed != "" {
		t.Errorf("it has changed %s", changed)
	}

	t.Run("is the same wherever it is made", func(t *testing.T) {
		do(t, elsewhere, "bash", "-c", "chmod -R go= .; umask 077; make release VERSION=0.1.0")
		if out, err := exec.Command("diff", filepath.Join(dir, "SHA256SUMS"), filepath.Join(elsewhere, "dist", "release", "SHA256SUMS")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("is signed", func(t *testing.T) {
		do(t, dir, "sha256sum", "--check", "--quiet", "SHA256SUMS")
		verify := func(file string) error {
			_, err := kit.Output(kit.Tool(t.Context(), "cosign", "verify-blob", "--key", filepath.Join(keys, "cosign.pub"), "--private-infrastructure",
				"--bundle", filepath.Join(dir, "SHA256SUMS.sigstore.json"), file))
			return err
		}
		if err := verify(filepath.Join(dir, "SHA256SUMS")); err != nil {
			t.Error(err)
		}
		if verify(filepath.Join(dir, "install.yaml")) == nil {
			t.Error("another file has that signature, too")
		}
	})
	t.Run("says what it is made of", func(t *testing.T) {
		helm := regexp.MustCompile(`(?m)^\thelm\.sh/helm/v3 (\S+)`).FindSubmatch(read(t, kit.File("go.mod")))[1]
		bom := new(cdx.BOM)
		if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, filepath.Join(dir, "sbom", "welcome-operator-linux-arm64.cdx.json"))), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
			t.Fatal(err)
		}
		for _, component := range *bom.Components {
			if component.PackageURL == "pkg:golang/helm.sh/helm/v3@"+string(helm) {
				return
			}
		}
		t.Errorf("it has no Helm %s", helm)
	})
	t.Run("has a chart, a plugin and a bundle that work", func(t *testing.T) {
		chart, err := filepath.Glob(filepath.Join(dir, "welcome-*.tgz"))
		if err != nil || len(chart) != 1 {
			t.Fatalf("charts: %v (error: %v)", chart, err)
		}
		if out := do(t, dir, kit.File("bin", "helm"), "template", "hello", chart[0], "--kube-version=1.37.0", "--set", "name=release"); !strings.Contains(out, "value: \"release\"") || !strings.Contains(out, "welcome@sha256:") {
			t.Errorf("the chart renders\n%s", out)
		}
		if out := do(t, dir, filepath.Join(dir, "kubectl-welcome-linux-amd64"), "--version"); !strings.Contains(out, "v0.1.0") {
			t.Errorf("the plugin says %s", out)
		}
		do(t, t.TempDir(), kit.File("bin", "operator-sdk"), "bundle", "validate", filepath.Join(dir, "bundle"), "--select-optional", "suite=operatorframework")
	})
	t.Run("is installed by kubectl alone", func(t *testing.T) {
		publish(t, dir, "welcome-operator", "welcome")
		kubectl := func(args ...string) string { return do(t, dir, kit.File("bin", "kubectl"), args...) }
		t.Cleanup(func() {
			kubectl("delete", "welcomes", "--all", "--all-namespaces", "--timeout=60s")
			kubectl("delete", "-f", "install.yaml", "--timeout=120s")
		})
		kubectl("apply", "--server-side", "-f", "install.yaml")
		kubectl("-n", "welcome-operator-system", "rollout", "status", "deployment/welcome-operator-controller-manager", "--timeout=120s")
		kubectl("apply", "-f", kit.File("config", "samples", "webapp_v1_welcome.yaml"))
		kubectl("wait", "--for=condition=Ready", "welcome/welcome-sample", "--timeout=120s")
	})
}

// publish pushes images from their layouts to the local cluster's registry, which serves them whatever domain
// is before their path.
func publish(t *testing.T, dir string, repositories ...string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, os.Getenv("CLUSTER_CA")))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	for _, repository := range repositories {
		lists, err := layout.ImageIndexFromPath(filepath.Join(dir, "images", repository))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := lists.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		list, err := lists.ImageIndex(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(os.Getenv("CLUSTER_REGISTRY") + "/" + repository + ":release")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(tag, list, remote.WithTransport(transport)); err != nil {
			t.Fatal(err)
		}
	}
}

// clone is a copy of the checkout as it is now, with its tools. Its catalog has the version of the tests
// alone: bundles that have been released could not be pulled.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	do(t, kit.Root(), "bash", "-o", "pipefail", "-c", `git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read --create | tar --extract --directory='`+dir+"'")
	do(t, dir, "ln", "-s", kit.File("bin"), "bin")
	do(t, dir, "cp", "tests/olm/template.yaml", "catalog/template.yaml")
	do(t, dir, "git", "init", "--quiet")
	do(t, dir, "git", "add", "--all")
	do(t, dir, "git", "-c", "commit.gpgsign=false", "-c", "user.name=release", "-c", "user.email=release@example.com", "commit", "--quiet", "--message=clone")
	return dir
}

// do runs a command to its end, with a key that has no password, and without what says where a release will
// be, and returns what it printed.
func do(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...) // in cleanups, too
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "COSIGN_PASSWORD=", "MAKEFLAGS=", "MAKELEVEL=")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "IMAGE_TAG_BASE" || name == "PLATFORMS" || name == "COSIGN_KEY" || strings.HasSuffix(name, "IMG")
	})
	defer waiting.While(t.Logf, program+" "+strings.Join(args, " "))()
	out, err := kit.Output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// What was checked out and compiled with a strict umask is its owner's alone. The images run as somebody else, who has to read all of it and run the program.
func TestImagesOfPrivateFiles(t *testing.T) {
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("no buildah (hack/setup.sh)")
	}
	const base = "test.invalid/operator:private"
	sh := func(script string, args ...string) string {
		t.Helper()
		cmd := exec.Command("bash", append([]string{"-euo", "pipefail", "-c", "cd ..; . hack/builder.sh; " + script, "-"}, args...)...)
		cmd.Env = append(os.Environ(), "BUILDER=buildah")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", script, args, err, out)
		}
		return string(out)
	}
	binaries := "dist/linux-" + runtime.GOARCH
	notForAll := regexp.MustCompile(`(?m)^(?:.{7}-|d.{8}-|.{9}-.* (?:welcome|welcome-operator|scorecard)$).*`)
	// The first is what the second is made from.
	for _, image := range []struct {
		dockerfile string
		files      []string
	}{
		{"Dockerfile", []string{"watches.yaml", "helm-charts/my/Chart.yaml", binaries + "/welcome-operator"}},
		{"examples/memcached-operator/Dockerfile", []string{"watches.yaml", "helm-charts/my/Chart.yaml"}},
		{"welcome/Dockerfile", []string{binaries + "/welcome"}},
		{"tests/scorecard/Dockerfile", []string{binaries + "/scorecard"}},
		{"catalog/Dockerfile", []string{"configs/welcome-operator/catalog.yaml"}},
		{"bundle.Dockerfile", []string{"bundle/manifests/crd.yaml", "bundle/metadata/annotations.yaml", "bundle/tests/scorecard/config.yaml"}},
	} {
		dir := t.TempDir()
		for _, file := range image.files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(file), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(filepath.Join("..", image.dockerfile))
		if err != nil {
			t.Fatal(err)
		}
		dockerfile := filepath.Join(dir, "Dockerfile")
		if err := os.WriteFile(dockerfile, regexp.MustCompile(`(?m)^FROM demo\S+`).ReplaceAll(text, []byte("FROM "+base)), 0o600); err != nil {
			t.Fatal(err)
		}
		name := base
		if image.dockerfile != "Dockerfile" {
			name = "test.invalid/other:private"
		}
		sh(`hack/image.sh build "$1" "$2" "" "$3"`, name, dockerfile, dir)
		contents := sh(`builder push --quiet "$1" "dir:$2"; for blob in "$2"/*; do tar --list --verbose --file "$blob" 2>/dev/null || true; done`, name, filepath.Join(dir, "image"))
		for _, file := range image.files {
			if !strings.Contains(contents, filepath.Base(file)) {
				t.Errorf("%s has no %s:\n%s", image.dockerfile, file, contents)
			}
		}
		for _, entry := range notForAll.FindAllString(contents, -1) {
			t.Errorf("of %s, only root can use %s", image.dockerfile, entry)
		}
	}
	sh(`builder rmi "$@"`, base, "test.invalid/other:private")
}

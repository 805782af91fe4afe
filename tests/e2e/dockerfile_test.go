package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// `docker build .` in a clone compiles the same binaries as `make images` here. There is no golang image here: the test
// runs the commands of that stage with this machine's Go, on the files of git that it copies, and compares the
// binaries with those that the other tests have in the cluster.
func TestDockerfilesBuildInAClone(t *testing.T) {
	mod, err := os.ReadFile(kit.File("go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	for dockerfile, program := range map[string]string{"Dockerfile": "welcome-operator", "welcome/Dockerfile": "welcome"} {
		t.Run(program, func(t *testing.T) {
			text, err := os.ReadFile(kit.File(dockerfile))
			if err != nil {
				t.Fatal(err)
			}
			_, stage, found := strings.Cut(string(text), "golang:"+version+" AS build\n")
			if !found {
				t.Fatalf("%s has no stage with golang:%s, the version of go.mod", dockerfile, version)
			}
			stage, _, _ = strings.Cut(strings.ReplaceAll(stage, "\\\n", ""), "\nFROM ")
			src, root := t.TempDir(), t.TempDir()
			for line := range strings.SplitSeq(stage, "\n") {
				words := strings.Fields(line)
				switch {
				case len(words) > 2 && words[0] == "COPY":
					for _, from := range words[1 : len(words)-1] {
						shell(t, "git ls-files -z "+from+" | xargs -0 cp --parents --target-directory="+src, kit.Root())
					}
				case len(words) > 1 && words[0] == "RUN":
					command := line[strings.Index(line, "make "):]
					shell(t, strings.ReplaceAll(command, " /", " "+root+"/"), src, "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH)
				}
			}
			made, err := os.ReadFile(filepath.Join(root, program))
			if err != nil {
				t.Fatal(err)
			}
			images, err := os.ReadFile(kit.File("dist", "linux-"+runtime.GOARCH, program))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(made, images) {
				t.Errorf("it is another binary than that of make images: %d bytes, and %d", len(made), len(images))
			}
		})
	}
}

func shell(t *testing.T, command, dir string, env ...string) {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if _, err := kit.Output(cmd); err != nil {
		t.Fatal(err)
	}
}

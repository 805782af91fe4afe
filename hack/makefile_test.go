package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// In a directory with a space in its name, make says at once what to do: what it builds would else fail, in words of Go's.
func TestMakeInADirectoryWithASpace(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "--file="+makefile, "help")
	if cmd.Dir = filepath.Join(t.TempDir(), "my clone"); os.Mkdir(cmd.Dir, 0o755) != nil {
		t.Fatal(cmd.Dir)
	}
	out, err := cmd.CombinedOutput()
	if want := "my clone: clone or move the repository to a directory without"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// In a container without HOME, the plugin is installed where one says, and otherwise one is told to say it.
func TestInstallPluginWithoutAHome(t *testing.T) {
	install := func(dir string) string {
		cmd := exec.Command("./install-plugin.sh", "makefile_test.go", dir)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, _ := cmd.CombinedOutput() // which says whether it has failed
		return string(out)
	}
	if out := install(""); !strings.Contains(out, "no usual directory of PATH is yours to write to: make install-plugin PLUGIN_DIR=one") {
		t.Error(out)
	}
	if out := install(t.TempDir()); !strings.Contains(out, "Next: kubectl welcome status -A") {
		t.Error(out)
	}
}

// Who has only the plugin of a release is told to make the completion that make install-plugin makes.
func TestCompletionWithoutGo(t *testing.T) {
	text, err := os.ReadFile("../docs/kubectl-welcome.md")
	if err != nil {
		t.Fatal(err)
	}
	const usual = "/usr/local/bin"
	told, installed := t.TempDir(), t.TempDir()
	for _, command := range []*exec.Cmd{
		exec.Command("sh", "-ec", strings.ReplaceAll(regexp.MustCompile("printf [^`]*").FindString(string(text)), usual, told)), exec.Command("./install-plugin.sh", "makefile_test.go", installed),
	} {
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const file = "kubectl_complete-welcome"
	want, err := os.ReadFile(filepath.Join(installed, file))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(told, file)); err != nil || string(got) != string(want) {
		t.Errorf("%v: %q, not %q", err, got, want)
	}
	if info, err := os.Stat(filepath.Join(told, file)); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("kubectl does not run it: %v, %v", info, err)
	}
}

// Where there is no cluster, make says how to get one, before it builds anything.
func TestMakeWithoutACluster(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"install", "uninstall", "run", "diff", "deploy", "undeploy", "figures", "recording"} {
		cmd := exec.Command("make", "--file="+makefile, target)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "KUBECONFIG=", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if want := "There is no cluster. Make a local one by `make cluster`, or set KUBECONFIG\n"; err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "building") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}

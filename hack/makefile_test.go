package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
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

// With the tools that macOS has, make says at once what is missing: something would else fail half-way, in words of a shell.
func TestMakeWithToolsOfMacOS(t *testing.T) {
	for _, tool := range []string{"bash", "sed", "date", "xargs"} {
		c := tree{T: t, dir: t.TempDir()}
		c.write(tool, "#!/bin/sh\necho \"$0: illegal option\" >&2; exit 1\n")
		c.must(os.Chmod(filepath.Join(c.dir, tool), 0o755))
		cmd := exec.Command("make", "help")
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "PATH="+c.dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if want := "this needs make 4, bash 4.4 and the sed, coreutils and findutils of GNU: CONTRIBUTING.md says how to get them on macOS"; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("without a GNU %s: %v\n%s", tool, err, out)
		}
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

// deployable is a copy of what make deploys, with a kubectl that lets it do everything, and writes down what it is told to do.
func deployable(t *testing.T) tree {
	t.Helper()
	c := tree{T: t, dir: t.TempDir()}
	for _, name := range []string{"Makefile", "config", "hack", "tools"} {
		c.must(exec.Command("cp", "-a", "../"+name, c.dir).Run())
	}
	c.write("bin/kubectl", "#!/bin/sh\ncase $* in *can-i*) echo yes; exit ;; esac\n{ echo \"# kubectl $*\"; case $* in *apply*) cat ;; esac; } >> told\n")
	c.must(os.Chmod(filepath.Join(c.dir, "bin/kubectl"), 0o755))
	kustomize, err := filepath.Abs("../bin/kustomize")
	c.must(err)
	c.must(os.Symlink(kustomize, filepath.Join(c.dir, "bin/kustomize")))
	return c
}

// told is what make has kubectl do.
func (c tree) told(args ...string) string {
	c.Helper()
	if out, err := c.run("make", append(args, "KUBECONFIG=/elsewhere")...); err != nil {
		c.Fatalf("%v: %v (make bin/kustomize)\n%s", args, err, out)
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "told"))
	c.must(err)
	c.must(os.Remove(filepath.Join(c.dir, "told")))
	return string(text)
}

// What was made with kubectl create, as docs/book.md does, or set by hand, is brought up to date all the same.
func TestMakeAppliesByForce(t *testing.T) {
	c := deployable(t)
	for _, target := range []string{"install", "deploy"} {
		if told := c.told(target); !strings.Contains(told, "kubectl apply --server-side --force-conflicts -f -\n") {
			t.Errorf("make %s: %s", target, regexp.MustCompile("(?m)^# kubectl.*").FindAllString(told, -1))
		}
	}
}

// The shards are deployed as the one operator is: by the digest that was pushed, so that what is new is rolled out, with the flags of config/manager, and the port of the API server.
func TestMakeDeploysShards(t *testing.T) {
	c := deployable(t)
	c.edit("config/manager/manager.yaml", "args: [--leader-elect]", "args: [--leader-elect, --metrics-per-resource]")
	image := "example.com/operator@sha256:" + strings.Repeat("0", 64)
	c.write("dist/images/example.com_operator_v1.digest", image+"\n")
	told := c.told("deploy", "BASE=config/shards", "IMG=example.com/operator:v1", "API_SERVER_PORT=16443")

	waits := strings.Contains(told, "rollout status deployment --selector=app.kubernetes.io/part-of=welcome-operator")
	policy := objects[networkingv1.NetworkPolicy](t, told, "NetworkPolicy")[0]
	if ports := policy.Spec.Egress[0].Ports; !waits || ports[len(ports)-1].Port.IntValue() != 16443 {
		t.Errorf("it waits for all: %v; the operators reach %v", waits, ports)
	}
	var got [][]string
	for _, deployment := range objects[appsv1.Deployment](t, told, "Deployment") {
		container := deployment.Spec.Template.Spec.Containers[0]
		got = append(got, append([]string{deployment.Name, container.Image}, container.Args...))
	}
	want := [][]string{
		{"welcome-operator-controller-manager-a", image, "--leader-elect", "--metrics-per-resource", "--watches-file=/shard/watches.yaml", "--shard=a"},
		{"welcome-operator-controller-manager-b", image, "--leader-elect", "--metrics-per-resource", "--watches-file=/shard/watches.yaml", "--shard=b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

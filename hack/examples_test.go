package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// examplesMadeBy runs hack/examples.sh in a copy of examples/, with a stand-in for make.
func examplesMadeBy(t *testing.T, standIn string) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("examples.sh")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"hack/examples.sh": string(script), "bin/make": "#!/bin/sh\n" + standIn + "\n", "examples/mine-operator/watches.yaml": "mine: true\n"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "hack", "examples.sh"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return dir, err
}

// Of examples/, what was made before goes. Charts, and operators that somebody else has made there, stay.
func TestExamplesLeaveWhatIsSomebodys(t *testing.T) {
	dir, err := examplesMadeBy(t, "true")
	if err != nil {
		t.Fatal(err)
	}
	for file, stays := range map[string]bool{"mine-operator/watches.yaml": true, "crontab-operator/helm-charts/crontab/Chart.yaml": true, "crontab-operator/operator.yaml": false, "memcached-operator/samples": false} {
		if _, err := os.Stat(filepath.Join(dir, "examples", file)); (err == nil) != stays {
			t.Errorf("%s is to stay: %v, and is: %v", file, stays, err)
		}
	}
}

// What can't be made anew stays as it is.
func TestExamplesThatCannotBeMade(t *testing.T) {
	dir, err := examplesMadeBy(t, "case $* in *KIND=SpringBootApp*) exit 2; esac")
	if err == nil {
		t.Error("no error")
	}
	for _, file := range []string{"crontab-operator/operator.yaml", "memcached-operator/samples", "springbootapp-operator/watches.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, "examples", file)); err != nil {
			t.Error(err)
		}
	}
}

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Of examples/, what is made anew is removed before. Charts, and operators that somebody else has made there, are not.
func TestExamplesLeaveWhatIsSomebodys(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("examples.sh")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"hack/examples.sh": string(script), "bin/make": "#!/bin/sh\n", "examples/mine-operator/watches.yaml": "mine: true\n"} {
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
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, stays := range map[string]bool{"mine-operator/watches.yaml": true, "crontab-operator/helm-charts/crontab/Chart.yaml": true, "crontab-operator/operator.yaml": false, "memcached-operator/samples": false} {
		if _, err := os.Stat(filepath.Join(dir, "examples", file)); (err == nil) != stays {
			t.Errorf("%s is to stay: %v, and is: %v", file, stays, err)
		}
	}
}

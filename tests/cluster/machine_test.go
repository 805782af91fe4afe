//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// holder starts a process that holds the lock on the pid file, as a machine does.
func holder(t *testing.T, c *cluster) *exec.Cmd {
	t.Helper()
	lock, err := os.Create(c.pidFile())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{lock}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := lock.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n"); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func testCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t.TempDir())
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

func wantMachine(t *testing.T, c *cluster, want int) {
	t.Helper()
	if got, err := c.runningMachine(); err != nil || got != want {
		t.Errorf("runningMachine() = %d, %v; want %d", got, err, want)
	}
}

func TestNoMachineBeforeTheFirstStart(t *testing.T) {
	wantMachine(t, newCluster(t.TempDir()), 0)
}

func TestMachineRunsAsLongAsItsProcess(t *testing.T) {
	c := testCluster(t)
	cmd := holder(t, c)
	wantMachine(t, c, cmd.Process.Pid)

	if err := c.stopMachine(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	wantMachine(t, c, 0)
}

func TestPidOfAnotherProcessIsNotBelieved(t *testing.T) {
	c := testCluster(t)
	// This process lives, but it is no machine: the number was used again.
	if err := os.WriteFile(c.pidFile(), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		t.Fatal(err)
	}
	wantMachine(t, c, 0)
}

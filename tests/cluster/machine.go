//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The machine is a process with a pid, mount, network, host name and IPC namespace
// of its own, in which it supervises the components (see supervisor.go). It makes
// three promises cheap that are hard for a set of daemons:
//
//   - Nothing outlives it. It is the init of its pid namespace: when it ends, the
//     kernel kills all that runs inside, containers included, and with them go the
//     mounts, the iptables rules and the link to the host.
//   - Nothing leaks to the host. kubelet, containerd and the CNI plugins write to
//     fixed paths; here these are private mounts (see isolate).
//   - Nobody else's process is ever killed. The machine holds a lock on its pid
//     file, so a pid is believed only as long as the process that wrote it lives.
const machineCommand = "machine"

// lockFD is the descriptor under which the machine inherits its locked pid file.
const lockFD = 3

// goAhead is what up writes to the machine's standard input once the network is
// there. Without it, because up died half-way, the machine ends.
const goAhead = "go"

func (c *cluster) pidFile() string { return filepath.Join(c.Dir, "machine.pid") }

// runningMachine returns the machine's pid, or 0 when none runs.
func (c *cluster) runningMachine() (int, error) {
	file, err := os.Open(c.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return 0, nil
	} else if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, fmt.Errorf("try the lock on %s: %w", c.pidFile(), err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", c.pidFile(), err)
	}
	return pid, nil
}

// startMachine starts the machine, connects it to the host and lets it go ahead.
func (c *cluster) startMachine() error {
	lock, err := os.OpenFile(c.pidFile(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", c.pidFile(), err)
	}
	output, err := openLog(c.log("machine"))
	if err != nil {
		return err
	}
	defer output.Close()

	cmd := exec.Command("/proc/self/exe", machineCommand)
	cmd.Dir = c.Checkout
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the machine: %w", err)
	}
	if _, err := fmt.Fprintln(lock, cmd.Process.Pid); err != nil {
		return err
	}
	if err := c.connect(cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := io.WriteString(stdin, goAhead); err != nil {
		return fmt.Errorf("start the machine: it ended early, see %s: %w", c.log("machine"), err)
	}
	return cmd.Process.Release()
}

// stopMachine kills the machine, and with it all that runs inside.
func (c *cluster) stopMachine(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the machine (process %d): %w", pid, err)
	}
	// The lock goes as the process begins to end; once it's a zombie, all in its pid
	// namespace have been waited for.
	for range 300 {
		if state := processState(pid); state == "" || state == "Z" {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the machine (process %d) did not end within 30 s of SIGKILL", pid)
}

// processState returns the one-letter state of /proc/<pid>/stat, or "" for no process.
func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may itself contain spaces and parentheses.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// runMachine is the machine's own main.
func runMachine(c *cluster) error {
	// The components must not inherit the lock: it would outlive the machine.
	unix.CloseOnExec(lockFD)
	if got, _ := io.ReadAll(os.Stdin); string(got) != goAhead {
		return errors.New("up ended before the network was there")
	}
	if err := c.loadNetwork(); err != nil {
		return err
	}
	if err := c.isolate(); err != nil {
		return err
	}
	log.Printf("machine %s starts its components", c.Name)
	return supervise(c)
}

// isolate gives the machine its own view of the file system: nothing with a fixed path
// (the state of kubelet and containerd, CNI's address leases, the iptables lock) is
// shared with the host or left behind on it.
func (c *cluster) isolate() error {
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// A checkout may itself lie below one of the directories that get hidden.
	checkout, err := os.Open(c.Checkout)
	if err != nil {
		return err
	}
	defer checkout.Close()
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
		}
		if strings.HasPrefix(c.Checkout, dir+"/") {
			if err := bind(fmt.Sprintf("/proc/self/fd/%d", checkout.Fd()), c.Checkout); err != nil {
				return err
			}
		}
	}
	for _, b := range []struct{ from, to string }{
		{"kubelet", "/var/lib/kubelet"},
		{"containerd", "/var/lib/containerd"},
		{"logs/pods", "/var/log/pods"},
	} {
		from := filepath.Join(c.Dir, b.from)
		if err := os.MkdirAll(from, 0o755); err != nil {
			return err
		}
		if err := bind(from, b.to); err != nil {
			return err
		}
	}
	return c.hideKernelSettings()
}

// hideKernelSettings puts files over the settings that kubelet insists on and that
// hold for the whole host, where nobody would set them back.
func (c *cluster) hideKernelSettings() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join("/run/sysctl", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := filepath.Join("/proc/sys", name)
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide %s: %w", target, err)
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, to, err)
	}
	return nil
}

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Process is a running program.
type Process struct {
	// Log is the file with its output.
	Log string
	// Ended is closed when the process has ended. Err then says how.
	Ended chan struct{}
	Err   error
	cmd   *exec.Cmd
}

// Run starts a program in the root of the repository with only that environment. Its output is appended to
// the file log.
func (c *ControlPlane) Run(log string, env []string, program string, args ...string) (*Process, error) {
	p := &Process{Log: filepath.Join(c.Dir, log), Ended: make(chan struct{}), cmd: exec.Command(program, args...)}
	output, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the process has its own handle
	p.cmd.Dir, p.cmd.Env = kit.Root(), append(env, "HOME="+c.Dir)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		p.Err = p.cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// Stop ends the process as a kubelet does: with SIGTERM, and SIGKILL after a grace period of 30 seconds.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.Ended:
	case <-time.After(30 * time.Second):
		p.Kill()
	}
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.Ended
}

// Freeze stops the process with SIGSTOP, and returns when all of its threads have stopped: on a busy machine,
// they run on until one of them has received the signal.
func (p *Process) Freeze() error { return freeze(p.cmd.Process.Pid) }

func freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}

// Thaw lets a frozen process continue.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Text is all output of the process so far.
func (p *Process) Text() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LastLines are the last lines of its output.
func (p *Process) LastLines(count int) string {
	lines := strings.Split(strings.TrimSpace(p.Text()), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// ticksPerSecond is USER_HZ, in which Linux reports CPU times on every architecture that Go knows.
const ticksPerSecond = 100

// CPU is the CPU time of the process, in user and kernel mode, to 10 ms.
func (p *Process) CPU() (time.Duration, error) { return CPU(p.cmd.Process.Pid) }

// CPU is the CPU time of the process with an ID.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Fields are counted behind the name in parentheses, which may contain anything: state is field 0, utime
	// 11, stime 12; see proc(5).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond, err
}

// RSS is the resident memory of the process, in bytes.
func (p *Process) RSS() (int64, error) { return RSS(p.cmd.Process.Pid) }

// RSS is the resident memory of the process with an ID.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Peak is the highest resident memory that the process has had, in bytes.
func (p *Process) Peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	return kilobytes << 10, err
}

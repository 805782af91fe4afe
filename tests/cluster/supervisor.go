//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// restartDelay keeps a component that can't start from filling its log.
const restartDelay = time.Second

// supervisor starts the components, restarts those that end, and, as the init of
// its pid namespace, reaps what containers and their shims leave to it.
type supervisor struct {
	mu      sync.Mutex
	running map[int]component
}

// supervise never returns but with an error.
func supervise(c *cluster) error {
	s := &supervisor{running: map[int]component{}}
	for _, comp := range c.foundation() {
		s.mustStart(c, comp)
	}
	go func() {
		// Without an API server the others end, or wait ever longer between attempts.
		awaitAPIServer(c)
		for _, comp := range c.clients() {
			s.mustStart(c, comp)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		} else if err != nil {
			return fmt.Errorf("wait for components: %w", err)
		}
		s.mu.Lock()
		comp, known := s.running[pid]
		delete(s.running, pid)
		s.mu.Unlock()
		if !known {
			continue
		}
		log.Printf("%s ended (exit code %d, signal %d); starting it again", comp.name, status.ExitStatus(), status.Signal())
		time.AfterFunc(restartDelay, func() { s.mustStart(c, comp) })
	}
}

// mustStart ends the machine where a component can't even be started: up says so.
func (s *supervisor) mustStart(c *cluster, comp component) {
	if err := s.start(c, comp); err != nil {
		log.Fatal(err)
	}
}

// start runs a component without waiting for it: that is the reaper's work.
func (s *supervisor) start(c *cluster, comp component) error {
	output, err := openLog(c.log(comp.name))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(comp.path, comp.args...)
	cmd.Stdout, cmd.Stderr = output, output
	// The reaper must not see the end of a component before it is in the table.
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", comp.name, err)
	}
	s.running[cmd.Process.Pid] = comp
	return cmd.Process.Release()
}

func awaitAPIServer(c *cluster) {
	client := &http.Client{
		Timeout: 2 * time.Second,
		// Only the time is asked for; who answers shows when the components connect.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	for {
		if resp, err := client.Get("https://" + c.apiAddress() + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

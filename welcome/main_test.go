package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program itself, so that tests can start it and send it signals.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_WELCOME") == "true" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the welcome command with exactly the given environment.
func program(t *testing.T, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(env, "RUN_WELCOME=true")
	var log bytes.Buffer
	cmd.Stderr = &log
	return cmd, &log
}

// serve starts the program, which ends with the test, and returns when it serves the page for myfriends.
func serve(t *testing.T) (cmd *exec.Cmd, log *bytes.Buffer, port string) {
	t.Helper()
	port = freePort(t)
	cmd, log = program(t, "NAME=myfriends", "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the program's log:\n%s", log)
		}
	})
	await(t, "the program serves", func() bool {
		status, _ := get(t, "http://127.0.0.1:"+port+"/readyz")
		return status == http.StatusOK
	})
	return cmd, log, port
}

// TestTerminationFailsNoRequest sends requests without a pause until the listener is closed, over connections that are
// kept and over new ones.
func TestTerminationFailsNoRequest(t *testing.T) {
	cmd, log, port := serve(t)
	url := "http://127.0.0.1:" + port

	terminated := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			// By a second before the end, every balancer has moved its requests to other pods.
			for time.Since(terminated) < drainDelay-time.Second {
				status, _ := get(t, url+"/hello/")
				// What is refused later may have been sent later, by a machine that is busy.
				if took := time.Since(terminated); status != http.StatusOK && took < drainDelay {
					t.Errorf("a request is answered with %d, %s after SIGTERM", status, took)
					return
				}
			}
		})
	}
	clients.Wait()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ends with %v, want exit code 0", err)
	}
	if !strings.Contains(log.String(), `"msg":"stopped"`) {
		t.Errorf("the log does not end with a complete stop:\n%s", log)
	}
}

// Who edits a page waits for this. Somebody who stays connected may send a request at any moment.
func TestQuietPageEndsSooner(t *testing.T) {
	for name, connected := range map[string]bool{"nobody is there": false, "somebody is connected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, _, port := serve(t)
			http.DefaultClient.CloseIdleConnections()
			if connected {
				conn, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			terminated := time.Now()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			time.Sleep(quietDelay / 3)
			if status, _ := get(t, "http://127.0.0.1:"+port+readyz); status != http.StatusServiceUnavailable { // no visit
				t.Errorf("/readyz answers %d", status)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the program ends with %v, want exit code 0", err)
			}
			if took := time.Since(terminated); took < quietDelay || took < drainDelay == connected {
				t.Errorf("it ends after %s", took)
			}
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	cmd, _, port := serve(t)
	readyz := "http://127.0.0.1:" + port + "/readyz"
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		await(t, "the program answers "+strconv.Itoa(want), func() bool {
			status, _ := get(t, readyz)
			return status == want
		})
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	if err := cmd.Wait(); err == nil {
		t.Error("the program drained instead of ending")
	}
	if took := time.Since(begin); took > drainDelay/2 {
		t.Errorf("the program took %s to end", took)
	}
}

func TestProgramRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	for env, want := range map[string]string{
		"PORT=http":         `welcome: PORT is "http"; set it to a number from 1 to 65535`,
		"LOG_LEVEL=loud":    `welcome: LOG_LEVEL is "loud"; set it to debug, info, warn or error`,
		"PORT=" + takenPort: "welcome: listen on PORT: ",
	} {
		cmd, log := program(t, env)
		if err := cmd.Run(); err == nil {
			t.Errorf("with %s the program ends well", env)
		}
		if got := log.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("with %s the program says %q, want one line: %s", env, got, want)
		}
	}
}

// freePort returns a port that the program can listen on. Like the program it asks for all addresses: a connection from
// any other, 127.0.0.2 say, takes the port away, even for a minute after it is closed.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// Root is the checkout that the working directory is in.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "watches.yaml")); err == nil {
			return dir
		} else if dir == filepath.Dir(dir) {
			break
		}
	}
	panic(errors.Join(errors.New("this is not in a checkout of welcome-operator"), err))
})

// File is one of the checkout.
func File(path ...string) string { return filepath.Join(append([]string{Root()}, path...)...) }

// Tool is a command of bin/.
func Tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, File("bin", name), args...)
}

// Output runs a command to its end and returns what it printed, warnings excluded. An error has all of it.
func Output(cmd *exec.Cmd) (string, error) {
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	text := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, out, warnings.String())
	}
	return text, err
}

// Build compiles a Go program of the checkout.
func Build(program, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./"+pkg)
	cmd.Dir = Root()
	defer waiting.While(waiting.Stderr, "go build "+pkg)()
	_, err := Output(cmd)
	return err
}

// given are the addresses that FreeAddress has returned. Perhaps nobody listens there yet.
var given sync.Map

// FreeAddress is one of this machine on which nobody listens, another one each time. Each process has them on an IP of its own (all of 127.0.0.0/8 is this
// machine): else another one could take the port before who is to listen there.
func FreeAddress() (string, error) {
	pid := os.Getpid() // less than 1<<22
	host := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16, pid>>8&255, pid&255)
	for {
		listener, err := net.Listen("tcp", host+":0")
		if err != nil {
			return "", err
		}
		address := listener.Addr().String()
		if err := listener.Close(); err != nil {
			return "", err
		}
		if _, twice := given.LoadOrStore(address, true); !twice {
			return address, nil
		}
	}
}

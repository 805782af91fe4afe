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

// Root is the root of the checkout that has the working directory.
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

// File is the path of a file in the checkout.
func File(path ...string) string { return filepath.Join(append([]string{Root()}, path...)...) }

// Tool is the path of a command in bin/.
func Tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, File("bin", name), args...)
}

// Output runs a command to its end and returns its standard output. An error has all of its output.
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

// given has the addresses that FreeAddress has returned, because nobody may listen there yet.
var given sync.Map

// FreeAddress is an address of this machine on which nobody listens, a new one each time. Each process uses
// an IP of its own, of 127.0.0.0/8: otherwise another process could take the port before the program that is
// to listen there.
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

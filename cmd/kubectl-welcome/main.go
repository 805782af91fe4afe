// Command kubectl-welcome shows and steers the custom resources of the operator. kubectl finds it on PATH and
// runs it as `kubectl welcome`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"demo.welcome.domain/welcome-operator/internal/release"
)

func main() {
	if release.ServedTrial(os.Args[1:], os.Stdin) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-c ends it at once, for some reads cannot be cancelled
	// Libraries log several times what the error says anyway.
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	c := newCluster(streams)
	os.Exit(c.codeOf(newCmdWelcome(c).ExecuteContext(ctx)))
}

// exitError ends the plugin with an exit code of its own. Any other error ends it with 1.
type exitError struct {
	code int
	// err is nil if all was printed already.
	err error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// codeOf prints an error, and returns the exit code for it.
func (c *cluster) codeOf(err error) int {
	if err == nil {
		return 0
	}
	exit := &exitError{code: 1, err: err}
	errors.As(err, &exit)
	if exit.err != nil {
		c.notef("error: %s\n", safeLines(advised(err).Error()))
	}
	return exit.code
}

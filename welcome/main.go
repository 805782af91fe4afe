// Command welcome is the web page that a Welcome deploys: it greets NAME at /hello/.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "welcome:", err)
		os.Exit(1)
	}
}

// run serves the page until SIGTERM (kubelet) or SIGINT (Ctrl-C).
func run() error {
	cfg, err := configFrom(os.Getenv)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryTarget)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.logLevel}))

	server, err := newServer(cfg.greeting, log)
	if err != nil {
		return err
	}
	config := net.ListenConfig{Control: smallBuffers}
	listener, err := config.Listen(context.Background(), "tcp", net.JoinHostPort("", strconv.Itoa(cfg.port)))
	if err != nil {
		return fmt.Errorf("listen on PORT: %w", err)
	}

	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, drain := context.WithCancel(context.Background())
	// A second signal ends a drain at once: the default action is back before the drain begins, or a signal that is sent
	// as soon as /readyz says "draining" could still be swallowed.
	context.AfterFunc(signalled, func() {
		stop()
		drain()
	})
	return server.serve(ctx, listener)
}

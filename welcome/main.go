// Command welcome is the web page that a Welcome deploys: it greets NAME at /hello/.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
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
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.logLevel}))

	server, err := newServer(cfg.greeting, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(cfg.port)))
	if err != nil {
		return fmt.Errorf("listen on PORT: %w", err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// From the first signal on the default action is back: a second one ends a drain at once.
	context.AfterFunc(ctx, stop)
	return server.serve(ctx, listener)
}

//go:build linux

// Command cluster runs a real one-node Kubernetes on a Linux machine, from the
// binaries in bin/ and Debian's containerd, without a container engine, an image
// registry or the network.
//
//	go run ./tests/cluster check    say what the host lacks for it
//	go run ./tests/cluster up       start it, or wait until what runs is ready
//	go run ./tests/cluster down     stop it and remove everything of it
//	go run ./tests/cluster status   say whether it runs, and how to use it
//	go run ./tests/cluster load image.tar
//	                                push the images of a docker archive to its registry
//
// Everything runs inside one "machine": a process with namespaces of its own (see
// machine.go). Its whole state is in .cluster/ of the checkout.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "want check, up, down, status or load <docker archive>"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return errors.New(usage)
	}
	c := newCluster(checkout)
	switch command, args := args[0], args[1:]; command {
	case "check":
		return checkHost()
	case "up":
		return up(ctx, c)
	case "down":
		return down(c)
	case "status":
		return status(c)
	case "load":
		return load(ctx, c, args)
	case machineCommand:
		return runMachine(c)
	case registryCommand:
		return serveRegistry(c)
	case balancerCommand:
		return balance(ctx, c)
	default:
		return fmt.Errorf("unknown command %q: %s", command, usage)
	}
}

//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cluster: a local cluster needs Linux: set KUBECONFIG to use a cluster elsewhere")
	os.Exit(1)
}

// Command welcome-operator reconciles the kinds of watches.yaml: each custom resource
// becomes a Helm release of its kind's chart.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"demo.welcome.domain/welcome-operator/internal/operator"
	"demo.welcome.domain/welcome-operator/internal/release"
)

func main() {
	if release.ServedTrial(os.Args[1:], os.Stdin) {
		return
	}
	options, err := operator.ParseOptions(os.Args[1:], os.Getenv)
	if err == nil {
		err = operator.Run(ctrl.SetupSignalHandler(), options)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		// An error of the YAML parser has several lines; print one.
		fmt.Fprintln(os.Stderr, "welcome-operator:", strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(1)
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the Makefile.
var version = "dev"

// otherVersion says which plugin to use for an operator of another version than this one: empty if it is the same, or one
// of the two was not built by the Makefile, and has none.
func otherVersion(operator, its string) string {
	if its == version || !strings.HasPrefix(its, "v") || !strings.HasPrefix(version, "v") {
		return ""
	}
	return fmt.Sprintf("operator %s was %s when it began to lead, and this plugin is %s: use the plugin of the operator's version", operator, safe(its), version)
}

// newCmdWelcome returns the plugin, with all of its commands.
func newCmdWelcome(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "kubectl-welcome",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl welcome"},
		Short:       "Show and steer the custom resources of the welcome-operator",
		Long: `Show and steer the custom resources of the welcome-operator: Welcomes, and those of every other kind that it serves.

NAME means a Welcome or, in a cluster without Welcomes and with one other kind, that kind; otherwise write KIND/NAME. Everything is done with
your own rights. The flags that all commands of kubectl have ("kubectl options") work here, too.`,
		Version:       version,
		SilenceErrors: true, // main prints them, once
		SilenceUsage:  true, // it would hide what went wrong
	}
	cmd.CompletionOptions.DisableDefaultCmd = true // make install-plugin installs a separate script for kubectl's completion
	cmd.SetIn(c.In)
	cmd.SetOut(c.Out)
	cmd.SetErr(c.ErrOut)
	c.flags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains([]string{"namespace", "context", "kubeconfig"}, flag.Name)
	})
	cmd.AddCommand(
		NewCmdStatus(c),
		NewCmdHistory(c),
		NewCmdReconcile(c),
		NewCmdRestart(c),
		NewCmdPause(c),
		NewCmdResume(c),
		NewCmdAdopt(c),
		NewCmdRelease(c),
		NewCmdDoctor(c),
		NewCmdDiff(c),
	)
	return cmd
}

// examples are shown by --help, indented as kubectl does.
func examples(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ")
}

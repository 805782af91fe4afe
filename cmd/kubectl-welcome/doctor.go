package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// finding is a problem, with the command that fixes it or tells more about it.
type finding struct{ problem, remedy string }

// check is one of the doctor's checks. look returns in a few words what it looked at, and what it found. An
// error means that it could not look at everything.
type check struct {
	name string
	look func(context.Context, *patient) (looked string, found []finding, err error)
}

// checks are ordered so that a cause comes before its consequences.
var checks = []check{
	{"operator", operatorsRun},
	{"CRDs", crdsFit},
	{"rights", rightsSuffice},
	{"lease", leasesAreHeld},
	{"one operator each", operatorsAreAlone},
	{"admission", admissionLets},
	{"images", imagesArePulled},
	{"deletions", deletionsEnd},
}

// NewCmdDoctor looks for what keeps the operator from working.
func NewCmdDoctor(c *cluster) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps the operator from working, and say how to fix it",
		Long: `Find what keeps the operator from working, and say how to fix it. It looks at: whether the operator runs, CRDs of another version, missing rights, a lease
that nobody renews, two operators that serve the same, webhooks and policies in the way, images that can't be pulled, deletions that don't end.

Nothing is changed: writes are dry runs. What you may not look at is said to be unknown. The exit code is 0 only if everything was looked at
and nothing found, 2 if something is wrong, and 1 if that could not be found out.`,
		Example: examples(`
kubectl welcome doctor
# An operator of its own (make kind INTO=...), with the CRDs and rights that it needs:
kubectl welcome doctor --files ../myapp-operator/operator.yaml`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.examine(cmd.Context(), files)
			if err != nil {
				return err
			}
			return c.report(cmd.Context(), p)
		},
	}
	cmd.Flags().StringSliceVar(&files, "files", nil, "Files with the CRDs and the rights that the operator needs; by default, those of config/ that this plugin was built with")
	return cmd
}

// report runs all checks, and prints what they find.
func (c *cluster) report(ctx context.Context, p *patient) error {
	problems, unknown := 0, 0
	for _, check := range checks {
		looked, found, err := check.look(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			unknown++
			c.printf("%s  %s: %s\n", busy("UNKNOWN"), check.name, c.here(safe(err.Error())))
		case len(found) == 0:
			c.printf("%s       %s: %s\n", good("OK"), check.name, safe(looked))
		}
		for i, one := range found {
			problems++
			c.printf("%s  %s: %s\n", bad("PROBLEM"), check.name, c.here(safe(one.problem)))
			if i == len(found)-1 || found[i+1].remedy != one.remedy { // one remedy fixes all of them
				c.printf("         → %s\n", c.here(safe(one.remedy)))
			}
		}
	}
	if problems+unknown == 0 {
		c.printf("%s", c.here("\nNothing is wrong with the operator. How the custom resources are: kubectl welcome status -A\n"))
		return nil
	}
	c.printf("\n%s, %s that could not be made.\n", counted(problems, "problem"), counted(unknown, "check"))
	if problems == 0 {
		return &exitError{code: 1}
	}
	return &exitError{code: 2}
}

// few are the first names, and how many more there are.
func few(names []string) string { return strings.Join(object.Few(names, 5), ", ") }

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// notReady is the exit code of status if not all are Ready.
const notReady = 2

// watchPeriod is how often --watch reads again.
const watchPeriod = 2 * time.Second

// NewCmdStatus shows how custom resources are.
func NewCmdStatus(c *cluster) *cobra.Command {
	var s selection
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [NAME | KIND/NAME | KIND/ ... | -l SELECTOR | -A]",
		Short: "Show whether custom resources are well, and if not, who has to act",
		Long: `Show whether custom resources are well, and if not, who has to act (TURN): you, the operator, the cluster, a rollout, or others.

Of a single one, one screen shows what helps: its release, its objects as a tree with their health, pods with their restarts,
what drifted in the last hour and who wrote that, its place in a rollout, and events. Of several, a table has the worst first.
What you have no right to read is left out, and said.

The exit code is 0 only if all are Ready, 2 if some are not, and 1 if that could not be found out, be it of one kind, or if -l selects none.`,
		Example: examples(`
# One custom resource, on one screen
kubectl welcome status hello
kubectl welcome status crontab/nightly

# All of this namespace, or of all namespaces and kinds, the worst first
kubectl welcome status
kubectl welcome status -A

# Until it is well
kubectl welcome status hello --watch

# For scripts
kubectl welcome status -A -o json | jq -r '.items[] | select(.turn == "you") | .namespace + "/" + .name'`),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "wide" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output is table, wide, json or yaml, not %q", output)
			}
			if watch {
				return c.watchStatus(cmd.Context(), s, args, output)
			}
			text, reports, err := c.status(cmd.Context(), s, args, output)
			c.printf("%s", text)
			if err != nil {
				return err // for some kinds, there may be a text all the same
			}
			if len(reports) == 0 {
				c.notef("%s", c.noneFound(s))
				if s.labels != "" {
					return &exitError{code: 1} // whoever selects expects some
				}
			}
			if !allReady(reports) {
				return &exitError{code: notReady}
			}
			return nil
		},
	}
	s.addTo(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, wide, json or yaml")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Show it again whenever something changes, until ctrl-c or, of those that are named, until they are Ready")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// status returns the text to print, and the reports in it. Beside an unlisted error, it returns those of the
// rest.
func (c *cluster) status(ctx context.Context, s selection, args []string, output string) (string, []*report, error) {
	found, missing := c.find(ctx, s, args)
	if missing != nil && !isUnlisted(missing) {
		return "", nil, missing
	}
	reports := make([]*report, len(found))
	for i := range found {
		reports[i] = reportOf(&found[i])
	}
	single := s.isNamed(args) && len(args) == 1 // of several, a script expects a list, even if only one exists
	if single {
		if err := c.look(ctx, &found[0], reports[0]); err != nil {
			return "", nil, err
		}
	}
	worstFirst(reports)
	var out bytes.Buffer
	switch {
	case output == "json" || output == "yaml":
		var content any = map[string]any{"items": reports}
		if single {
			content = reports[0]
		}
		text, err := marshalled(content, output)
		return text, reports, errors.Join(err, missing)
	case single:
		screen(&out, reports[0], time.Now())
	case len(reports) > 0:
		table(&out, reports, output == "wide", time.Now())
	}
	return c.here(out.String()), reports, missing
}

// watchStatus prints the status whenever it has changed, on a cleared screen if there is one.
func (c *cluster) watchStatus(ctx context.Context, s selection, args []string, output string) error {
	file, isFile := c.Out.(*os.File)
	clears := isFile && term.IsTerminal(int(file.Fd())) && output != "json" && output != "yaml"
	before, known, ready := "", "", false
	var last error // the last error that was printed
	end := func() error {
		switch {
		case last != nil:
			return &exitError{code: 1}
		case !ready:
			return &exitError{code: notReady}
		}
		return nil
	}
	for {
		text, reports, err := c.status(ctx, s, args, output)
		if ctx.Err() != nil {
			return end() // ctrl-c
		}
		some := isUnlisted(err)
		// A named custom resource that does not exist will never become Ready.
		if err != nil && (!some && before == "" || !isTemporary(err) && (!some || s.isNamed(args))) {
			return err
		}
		if text == "" && err == nil {
			text = c.noneFound(s)
		}
		// Ages go on all the time: they alone are shown only where that takes no further lines.
		content, _ := marshalled(reports, "json")
		if text != "" && text != before && (clears || content != known) {
			before, known, last = text, content, nil
			if clears {
				c.printf("\033[H\033[2J")
			}
			c.printf("%s", text)
		}
		if err != nil && (last == nil || last.Error() != err.Error()) {
			c.notef("%s\n", safe(err.Error()))
		}
		last = err
		if ready = err == nil && allReady(reports); ready && s.isNamed(args) {
			return nil
		}
		select {
		case <-ctx.Done():
			return end()
		case <-time.After(watchPeriod):
		}
	}
}

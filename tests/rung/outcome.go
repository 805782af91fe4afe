package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// outcome is the result of a rung.
type outcome struct {
	Rung    string
	Seconds int
	// Passed counts tests, without those that have subtests.
	Passed          int
	Failed, Skipped []string
	Proved          string
}

// notes is the directory in which outcomes are kept for the table.
const notes = "dist/rungs"

func (o outcome) note() error {
	if err := os.MkdirAll(notes, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(notes, o.Rung+".json"), text, 0o644)
}

// result is what the rung proved, or how it failed.
func (o outcome) result() string {
	if len(o.Failed) > 0 {
		return "FAILED: " + strings.Join(o.Failed, ", ")
	}
	return o.Proved
}

func (o outcome) took() time.Duration { return time.Duration(o.Seconds) * time.Second }

func (o outcome) String() string {
	skipped := "none skipped"
	if len(o.Skipped) > 0 {
		skipped = fmt.Sprintf("%d skipped (%s)", len(o.Skipped), strings.Join(o.Skipped, ", "))
	}
	return fmt.Sprintf("%s, %s: %d tests passed, %d failed, %s; %s", o.Rung, o.took(), o.Passed, len(o.Failed), skipped, o.result())
}

// table prints the noted outcomes of rungs.
func table(out io.Writer, rungs []string) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rung\tseconds\tpassed\tfailed\tskipped\twhat it proved")
	for _, rung := range rungs {
		var o outcome
		text, err := os.ReadFile(filepath.Join(notes, rung+".json"))
		if os.IsNotExist(err) {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\tNOTHING: it did not come to its tests\n", rung)
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", o.Rung, o.Seconds, o.Passed, len(o.Failed), len(o.Skipped), o.result())
	}
	return t.Flush()
}

// Command rung runs one rung of the ladder of tests, and says in one line what it proved and how long it took.
//
//	go run ./tests/rung run -name test-e2e -proves '…' [-v] [-since …] <arguments of go test>
//	go run ./tests/rung table test-unit test-e2e …
//
// What a test logs after "proved: " goes into that line, too. The table is made of what the last run of each rung came to.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	err := errors.New("want run or table")
	if len(os.Args) > 2 {
		switch command, args := os.Args[1], os.Args[2:]; command {
		case "run":
			err = run(args)
		case "table":
			err = table(os.Stdout, args)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rung:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	name := flags.String("name", "", "of the rung")
	proves := flags.String("proves", "", "what it proves, in a few words")
	verbose := flags.Bool("v", false, "show what all tests print, not only those that fail")
	since := flags.Int64("since", time.Now().Unix(), "when the rung began to prepare, in Unix `seconds`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	command := exec.Command("go", append([]string{"test", "-json"}, flags.Args()...)...)
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	w := &watcher{out: os.Stdout, verbose: *verbose}
	err = errors.Join(w.watch(events), command.Wait())
	o := outcome{
		Rung: *name, Seconds: int(time.Now().Unix() - *since),
		Passed: w.passed, Failed: names(w.failures()), Skipped: names(w.skipped),
		Proved: strings.Join(append([]string{*proves}, w.proofs...), "; "),
	}
	if err != nil && len(o.Failed) == 0 {
		o.Failed = []string{err.Error()}
	}
	w.again()
	fmt.Printf("== %s\n", o)
	return errors.Join(err, o.note())
}

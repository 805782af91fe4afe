// Command rung runs one rung of the ladder of tests, and says in one line what it proved and how long it took.
//
//	go run ./tests/rung run -name test-e2e -proves '…' [-v] [-parts …] [-since …] <arguments of go test>
//	go run ./tests/rung table test-unit test-e2e …
//
// What a test logs after "proved: " goes into that line, too. The table is made of what the last run of each rung came to.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	parts := flags.String("parts", "", "run the tests that match each of these `expressions`, with commas between them, in a process of its own, all at the same time")
	since := flags.Int64("since", time.Now().Unix(), "when the rung began to prepare, in Unix `seconds`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	processes := [][]string{flags.Args()}
	if *parts != "" {
		processes = nil
		for part := range strings.SplitSeq(*parts, ",") {
			processes = append(processes, slices.Concat(flags.Args(), []string{"-run=" + part}))
		}
	}
	events, lines := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- goTest(processes, lines)
		_ = lines.Close() // it never fails
	}()
	w := &watcher{out: os.Stdout, verbose: *verbose}
	err := errors.Join(w.watch(events), <-ended)
	o := outcome{
		Rung: *name, Seconds: int(time.Now().Unix() - *since),
		Passed: w.passed, Failed: names(w.failures()), Skipped: names(w.skipped),
		Proved: strings.Join(append([]string{*proves}, w.proofs...), "; "),
	}
	if err != nil && len(o.Failed) == 0 {
		o.Failed = []string{err.Error()}
	}
	w.again()
	fmt.Printf("== %s\n   slowest: %s\n", o, strings.Join(w.slowest(), ", "))
	return errors.Join(err, o.note())
}

// goTest runs go test with each list of arguments, all at the same time, and writes their events line by
// line. For checks that need the results of all parts, the parts know their number, and share a directory.
func goTest(parts [][]string, lines io.Writer) error {
	dir, err := os.MkdirTemp("", "rung-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it does no harm
	var (
		all     sync.WaitGroup
		writing sync.Mutex
		failed  = make([]error, len(parts))
	)
	for i, args := range parts {
		all.Go(func() {
			command := exec.Command("go", append([]string{"test", "-json"}, args...)...)
			if len(parts) > 1 {
				command.Env = append(os.Environ(), "TEST_PARTS="+strconv.Itoa(len(parts)), "TEST_PARTS_DIR="+dir)
			}
			command.Stderr = os.Stderr
			events, err := command.StdoutPipe()
			if err == nil {
				err = command.Start()
			}
			if err != nil {
				failed[i] = err
				return
			}
			for text := bufio.NewReader(events); err == nil; {
				var line []byte
				line, err = text.ReadBytes('\n')
				writing.Lock()
				_, _ = lines.Write(line) // it is read until it is closed
				writing.Unlock()
			}
			failed[i] = command.Wait()
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

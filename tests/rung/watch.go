package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// watcher follows the events of `go test -json`, and prints what people need to see.
type watcher struct {
	out io.Writer
	// verbose prints the output of all tests, not only of failed ones.
	verbose bool

	// passed counts the tests without subtests.
	passed          int
	failed, skipped []test
	// took has the seconds that each ended test took.
	took map[test]float64
	// proofs are what tests logged after "proved: ".
	proofs []string
	// running has the output of tests that have not ended; parents has the tests with subtests.
	running map[test]*strings.Builder
	parents map[test]bool
	// said has the output of failed tests.
	said map[test]string
}

// test is a test of a package, or the package itself.
type test struct{ Package, Test string }

func (t test) String() string {
	if t.Test == "" {
		return t.Package
	}
	return t.Test
}

type event struct {
	test
	Action, Output string
	Elapsed        float64 // seconds
}

func (w *watcher) watch(events io.Reader) error {
	w.running, w.parents, w.said, w.took = map[test]*strings.Builder{}, map[test]bool{}, map[test]string{}, map[test]float64{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(w.out, "%s", line) // go test itself has something to say
			continue
		}
		w.see(e)
	}
	for unfinished := range w.running { // their process ended under them
		w.see(event{test: unfinished, Action: "fail"})
	}
	return nil
}

func (w *watcher) see(e event) {
	switch e.Action {
	case "start", "run":
		w.running[e.test] = &strings.Builder{}
		if at := strings.LastIndex(e.Test, "/"); at > 0 {
			w.parents[test{e.Package, e.Test[:at]}] = true
		}
	case "build-output":
		fmt.Fprint(w.out, e.Output)
	case "output":
		if _, proof, found := strings.Cut(e.Output, " proved: "); found {
			w.proofs = append(w.proofs, strings.TrimSpace(proof))
		}
		kept := w.running[e.test]
		_, awaited, slow := strings.Cut(e.Output, "still waiting: ")
		switch {
		case w.verbose || kept == nil || e.Test == "" && strings.HasPrefix(e.Output, "ok "):
			fmt.Fprint(w.out, e.Output)
		case slow:
			fmt.Fprintf(w.out, "%s: still waiting: %s", e.test, awaited)
		}
		if kept != nil {
			kept.WriteString(e.Output)
		} else { // of a part, after another one of the same package has ended
			w.said[e.test] += e.Output
		}
	case "fail":
		w.took[e.test] = e.Elapsed
		w.failed = append(w.failed, e.test)
		if kept := w.running[e.test]; kept != nil {
			w.said[e.test] = kept.String()
		}
		w.end(e.test, true)
	case "skip":
		if e.Test != "" { // else it has no tests
			w.skipped = append(w.skipped, e.test)
		}
		w.end(e.test, e.Test != "")
	case "pass":
		w.took[e.test] = e.Elapsed
		if e.Test != "" && !w.parents[e.test] {
			w.passed++
		}
		w.end(e.test, false)
	}
}

func (w *watcher) end(ended test, show bool) {
	if kept := w.running[ended]; kept != nil && show && !w.verbose {
		fmt.Fprint(w.out, kept)
	}
	delete(w.running, ended)
}

// failures are the failed tests, without those that failed only because a subtest did.
func (w *watcher) failures() []test {
	return slices.DeleteFunc(slices.Clone(w.failed), func(one test) bool {
		return slices.ContainsFunc(w.failed, func(other test) bool {
			return other.Package == one.Package && other.Test != one.Test && (one.Test == "" || strings.HasPrefix(other.Test, one.Test+"/"))
		})
	})
}

// again prints the beginning and end of the failures' output once more at the end of the log: some viewers
// keep only that.
func (w *watcher) again() {
	const first, last, width = 30, 10, 400
	for _, failed := range w.failures() {
		fmt.Fprintf(w.out, "== %s failed:\n", failed)
		lines := strings.Split(strings.TrimSpace(w.said[failed]), "\n")
		for i, line := range lines {
			switch {
			case i == first && len(lines) > first+last:
				fmt.Fprintf(w.out, "  ... %d more lines above\n", len(lines)-first-last)
			case i < first || i >= len(lines)-last:
				fmt.Fprintf(w.out, "  %.*s\n", width, line)
			}
		}
	}
}

// slowest are the top-level tests that took longest, with their seconds.
func (w *watcher) slowest() []string {
	const most = 12
	all := slices.DeleteFunc(slices.Collect(maps.Keys(w.took)), func(t test) bool { return t.Test == "" || strings.Contains(t.Test, "/") })
	slices.SortFunc(all, func(a, b test) int { return cmp.Compare(w.took[b], w.took[a]) })
	var words []string
	for _, t := range all[:min(most, len(all))] {
		words = append(words, fmt.Sprintf("%s %.0fs", t, w.took[t]))
	}
	return words
}

func names(tests []test) []string {
	var names []string
	for _, t := range tests {
		names = append(names, t.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

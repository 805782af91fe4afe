package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWatch runs real tests that end in every way.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":         "module example\ngo 1.26\n",
		"good/a_test.go": `func TestGood(t *testing.T) { t.Run("one", func(t *testing.T) {}); t.Run("two", func(t *testing.T) { t.Log("hidden"); t.Log("proved: 3 of 3") }) }`,
		"slow/a_test.go": `func TestSlow(t *testing.T) { t.Log("still waiting: the page (10s of 20s): not yet") }`,
		"skip/a_test.go": `func TestSkipped(t *testing.T) { t.Skip("too late") }`,
		"bad/a_test.go":  `func TestBad(t *testing.T) { t.Run("one", func(t *testing.T) {}); t.Run("two", func(t *testing.T) { t.Error("broken") }) }`,
		"half/a_test.go": `func TestParent(t *testing.T) { t.Run("one", func(t *testing.T) {}); t.Error("only here") }`,
		"dies/a_test.go": `func TestDies(t *testing.T) { t.Run("one", func(t *testing.T) { panic("ouch") }) }`,
		"main/a_test.go": `func TestMain(m *testing.M) { println("no cluster"); panic("no cluster") }`,
		"odd/a_test.go":  `func TestOdd(t *testing.T) { t.Nonsense() }`,
	} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".go") {
			content = "package p\nimport \"testing\"\n" + content + "\n"
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-json", "./...")
	command.Dir = dir
	events, _ := command.Output() // it fails, of course
	var out bytes.Buffer
	w := &watcher{out: &out}
	if err := w.watch(bytes.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if w.passed != 5 {
		t.Errorf("%d tests passed, want 5: two good ones, a slow one, and two in those that fail", w.passed)
	}
	if got, want := names(w.failures()), []string{"TestBad/two", "TestDies/one", "TestParent", "example/main", "example/odd"}; !slices.Equal(got, want) {
		t.Errorf("%q failed, want %q", got, want)
	}
	if got, want := names(w.skipped), []string{"TestSkipped"}; !slices.Equal(got, want) {
		t.Errorf("%q were skipped, want %q", got, want)
	}
	if want := []string{"3 of 3"}; !slices.Equal(w.proofs, want) {
		t.Errorf("proved %q, want %q", w.proofs, want)
	}
	for _, want := range []string{"TestSlow: still waiting: the page (10s of 20s): not yet", "too late", "broken", "only here", "ouch", "no cluster", "Nonsense"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "hidden") {
		t.Error("the output shows what a test printed that passed")
	}
	before := out.Len()
	w.again()
	if again := out.String()[before:]; strings.Count(again, "broken") != 1 || !strings.Contains(again, "TestBad/two failed:") || strings.Contains(again, "hidden") {
		t.Errorf("said again of the failures:\n%s", again)
	}
	if t.Failed() {
		t.Logf("the output:\n%s\nthe events:\n%s", &out, events)
	}
}

// TestTwoProcesses has two tests wait for each other, in the directory that they have in common: they end if
// they run at the same time.
func TestTwoProcesses(t *testing.T) {
	t.Chdir(t.TempDir())
	for file, content := range map[string]string{
		"go.mod": "module example\ngo 1.26\n",
		"a_test.go": `package p
import ("os"; "syscall"; "testing")
func meet(t *testing.T, how int) {
	if parts := os.Getenv("TEST_PARTS"); parts != "2" { t.Fatal(parts) }
	both := os.Getenv("TEST_PARTS_DIR") + "/both"
	_ = syscall.Mkfifo(both, 0o600) // the other one may have made it
	if _, err := os.OpenFile(both, how, 0); err != nil { t.Fatal(err) } // a pipe opens when both ends are there
}
func TestOne(t *testing.T) { meet(t, os.O_WRONLY) }
func TestTwo(t *testing.T) { meet(t, os.O_RDONLY); t.Error("broken") }
`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var events bytes.Buffer
	if err := goTest([][]string{{"-timeout=1m", "-run=One"}, {"-timeout=1m", "-skip=One"}}, &events); err == nil {
		t.Error("it did not fail")
	}
	w := &watcher{out: &bytes.Buffer{}}
	if err := w.watch(&events); err != nil {
		t.Fatal(err)
	}
	if got := names(w.failures()); w.passed != 1 || !slices.Equal(got, []string{"TestTwo"}) {
		t.Errorf("%d passed, %q failed", w.passed, got)
	}
}

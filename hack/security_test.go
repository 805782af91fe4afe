package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each promise of SECURITY.md names the tests that prove it.
func TestSecurityNamesTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	promises := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise") {
			continue
		}
		promises++
		names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test proves: %s", line)
		}
		for _, name := range names {
			if out, err := exec.Command("git", "grep", "-q", "--untracked", "func "+name[1]+"(t ", "--", ":/*_test.go").CombinedOutput(); err != nil {
				t.Errorf("there is no %s: %v %s", name[1], err, out)
			}
		}
	}
	if promises < 40 {
		t.Errorf("there are %d promises: what was read is not the table", promises)
	}
}

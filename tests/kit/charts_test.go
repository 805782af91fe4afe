package kit

import (
	"os"
	"path/filepath"
	"testing"
)

// A dangling link in one chart must not keep the others from being tried.
func TestEntryOfBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	for link, to := range map[string]string{"a.yaml": "nowhere", "b": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("kind: Secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if entry, err := EntryOf(dir); err != nil || entry != "  secrets: true\n" {
		t.Errorf("the entry is %q, %v", entry, err)
	}
}

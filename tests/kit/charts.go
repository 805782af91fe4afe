package kit

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// EntryOf is what a chart's entry in watches.yaml needs beside the chart, indented by two: the text of its
// entry.yaml, which Helm ignores, and secrets: true if HasSecrets.
func EntryOf(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "entry.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	has, err := HasSecrets(dir)
	if has {
		text = append(text, "  secrets: true\n"...)
	}
	return string(text), err
}

// HasSecrets is whether a chart, or a subchart in it, makes or looks up Secrets, as far as its files tell.
// Then its entry in watches.yaml needs secrets: true.
func HasSecrets(dir string) (has bool, err error) {
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) { // a dangling link, or one to a directory: Helm decides whether the chart can be loaded
			return nil
		}
		has = has || bytes.Contains(text, []byte("kind: Secret\n")) || bytes.Contains(text, []byte(`"Secret"`))
		return err
	})
	return has, err
}

package kit

import (
	"bytes"
	"io/fs"
	"os"
)

// HasSecrets is whether a chart, or a subchart in it, makes or looks up Secrets, as far as its files tell: then its entry of watches.yaml needs secrets: true.
func HasSecrets(dir string) (has bool, err error) {
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		has = has || bytes.Contains(text, []byte("kind: Secret\n")) || bytes.Contains(text, []byte(`"Secret"`))
		return err
	})
	return has, err
}

package release

import (
	"fmt"
	"testing"
)

func TestSameButChance(t *testing.T) {
	rendered := func(password, checksum, greeting string) string {
		return fmt.Sprintf(`---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  password: %q
  file: |
    first
    pw=%[1]s
    greeting=%[3]s
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {checksum: %[2]q}}
spec: {list: [{name: x}, {}], none: null}
`, password, checksum, greeting)
	}
	applied := rendered("one", "a", "hello")
	for name, c := range map[string]struct {
		once, again string
		want        bool
	}{
		"the same":                       {applied, applied, true},
		"another password and checksum":  {rendered("two", "b", "hello"), rendered("three", "c", "hello"), true},
		"another greeting":               {rendered("one", "a", "bye"), rendered("one", "a", "bye"), false},
		"another greeting besides":       {rendered("two", "b", "bye"), rendered("three", "c", "bye"), false},
		"the same twice, and not before": {rendered("two", "a", "hello"), rendered("two", "a", "hello"), false},
		"one object less":                {applied[:70], applied[:70], false},
		"unreadable":                     {"{", "{", false},
	} {
		if got := sameButChance(applied, c.once, c.again); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

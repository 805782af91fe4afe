package operator

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr/funcr"
)

func TestMemoryIsToldOnceItComesNearItsLimit(t *testing.T) {
	told := 0
	watch := &memoryWatch{log: funcr.New(func(_, _ string) { told++ }, funcr.Options{})}
	for i, step := range []struct {
		live uint64
		want int
	}{{79, 0}, {80, 1}, {95, 1}, {79, 1}, {81, 2}} {
		if watch.look(held{live: step.live, limit: 100}); told != step.want {
			t.Errorf("look %d, at %d of 100: told %d times, want %d", i, step.live, told, step.want)
		}
	}
}

func TestMemoryRatioIsThatOfTheLimit(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	runtime.GC()
	debug.SetMemoryLimit(1 << 40)
	if ratio := heldMemory().ratio(); ratio <= 0 || ratio > 0.1 {
		t.Errorf("of a TiB, a test holds %v", ratio)
	}
	debug.SetMemoryLimit(1)
	if ratio := heldMemory().ratio(); ratio < 1 {
		t.Errorf("of a byte, a test holds %v", ratio)
	}
}

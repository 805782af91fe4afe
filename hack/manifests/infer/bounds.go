package infer

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"demo.welcome.domain/welcome-operator/internal/terminal"
)

func init() {
	log.SetOutput(io.Discard) // Helm's engine logs each value that a chart requires
	debug.SetGCPercent(400)   // a rendering leaves much behind, and there are thousands
	debug.SetMemoryLimit(int64(MaxMemory / 2))
}

// MaxTime, of the processor, and MaxMemory, in bytes, are what one rendering may take. More than that is
// taken by no chart that is meant to be used, and would be the end of the machine.
var (
	MaxTime          = 30 * time.Second
	MaxMemory uint64 = 4 << 30
)

// TooMuch is that a rendering takes more. Nothing can end it but the end of the process.
type TooMuch struct{ error }

// Unwrap returns why it does.
func (t TooMuch) Unwrap() error { return t.error }

// Ended is closed when somebody presses ctrl-C: each rendering is TooMuch from then on, for ErrInterrupted, so that
// who waits for it can undo what was done before. Nobody can while it is nil.
var Ended <-chan struct{}

// ErrInterrupted is that somebody has pressed ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Caught has a function return that a rendering took too much.
func Caught(err *error) {
	switch why := recover().(type) {
	case nil:
	case TooMuch:
		*err = why
	default:
		panic(why)
	}
}

// processorTime is what the process has used so far. What a rendering uses is its share of that, however busy
// the machine is.
func processorTime() time.Duration {
	used := syscall.Rusage{}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it knows this process
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// bounded panics, for caught, if a rendering takes too much, which it says is because of why, a value, unless that is empty.
func bounded(chart, why string, render func()) {
	if why != "" {
		why = ", with " + why + ": pin that value (PIN, or overrideValues)"
	}
	done, spent, last := make(chan struct{}), time.Duration(0), processorTime()
	go func() {
		defer close(done)
		render()
	}()
	for {
		select {
		case <-done:
			return
		case <-Ended:
			panic(TooMuch{ErrInterrupted})
		case <-time.After(50 * time.Millisecond):
			now := processorTime()
			spent, last = spent+(now-last)/time.Duration(max(len(processors), 1)), now
			if spent > MaxTime {
				panic(TooMuch{fmt.Errorf("to render chart %s once takes more than %s%s", chart, MaxTime, why)})
			}
			var taken goruntime.MemStats
			goruntime.ReadMemStats(&taken)
			if taken.Sys-taken.HeapReleased > MaxMemory {
				panic(TooMuch{fmt.Errorf("to render chart %s once takes more than %d MiB of memory%s", chart, MaxMemory>>20, why)})
			}
		}
	}
}

// progress has who waits for a large chart see that something goes on.
type progress struct {
	sync.Mutex
	told       time.Time
	step       string
	renderings int
}

// begin notes what is done next.
func (p *progress) begin(format string, args ...any) {
	p.Lock()
	defer p.Unlock()
	p.step = fmt.Sprintf(format, args...)
}

func (p *progress) tell(chart string) {
	p.Lock()
	defer p.Unlock()
	if p.renderings++; time.Since(p.told) > 5*time.Second {
		fmt.Fprintf(os.Stderr, "trying %s: %s, %d renderings so far\n", terminal.Line(chart), terminal.Line(p.step), p.renderings)
		p.told = time.Now()
	}
}

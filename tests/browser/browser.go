// Package browser reads web pages in a real, headless Chromium, for tests.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout bounds one action on a page; it is long because other work may keep the processors busy.
const timeout = 60 * time.Second

// Browser is one Chromium with one tab. Its methods fail the test that they are given, so they return no errors.
type Browser struct {
	ctx context.Context

	mu      sync.Mutex
	console []string
}

// New starts a Chromium with an empty profile, and ends it with the test. It fails the test where Chromium is missing,
// because a page that nobody looked at is not tested.
func New(t testing.TB) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing; install it: apt-get install --yes --no-install-recommends chromium")
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // the sandbox can't start as root, and only pages of this project are opened
		chromedp.DisableGPU,
		// Chromium must reach the page itself and nothing else, whatever proxy the environment names.
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)

	b := &Browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil { // starts Chromium
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("stop Chromium: %v", err)
		}
	})
	return b
}

// Emulate sets the size of the window in CSS pixels, and whether the reader prefers dark colours.
func (b *Browser) Emulate(t testing.TB, width, height int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	run(t, b, "set the size of the window", chromedp.EmulateViewport(width, height))
	run(t, b, "prefer "+scheme+" colours", func(ctx context.Context, tab *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
	})
}

// Open loads url and waits until the page and all it needs is there.
func (b *Browser) Open(t testing.TB, url string) {
	t.Helper()
	b.mu.Lock()
	b.console = nil
	b.mu.Unlock()
	run(t, b, "open "+url, chromedp.Navigate(url))
}

// Heading opens url and returns the text of its first h1 as a reader sees it.
func (b *Browser) Heading(t testing.TB, url string) string {
	t.Helper()
	b.Open(t, url)
	return run(t, b, "read the heading of "+url, chromedp.Text(chromedp.CSS("h1")))
}

// Evaluate returns the value of a JavaScript expression in the open page, decoded from JSON.
func Evaluate[T any](t testing.TB, b *Browser, expression string) T {
	t.Helper()
	return run(t, b, "evaluate "+expression, chromedp.Evaluate[T](expression))
}

// Screenshot writes what the window shows to file as a PNG, and makes the folder for it.
func (b *Browser) Screenshot(t testing.TB, file string) {
	t.Helper()
	png := run(t, b, "take a screenshot", chromedp.CaptureScreenshot())
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("screenshot: %s", file)
}

// Console returns what the browser complained about since Open: failed loads, violations of the content security policy,
// uncaught exceptions.
func (b *Browser) Console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.console)
}

func (b *Browser) listen(event any) {
	var line string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		line = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		line = "exception: " + e.ExceptionDetails.Text
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.console = append(b.console, line)
}

// run returns the value of one action on the tab, and fails the test if there is none in time.
func run[T any](t testing.TB, b *Browser, what string, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatalf("%s: %v; the browser's console: %q", what, err, b.Console())
	}
	return value
}
